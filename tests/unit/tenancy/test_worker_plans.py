"""The plans of the worker: which step follows which answer, with no engine and no database."""

import asyncio
from collections import deque
from contextlib import suppress
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from mainstay.model.errors import Rejected, Unavailable
from mainstay.tenancy.worker.metrics import WorkerMetrics
from mainstay.tenancy.worker.plans import PLANS
from mainstay.tenancy.worker.port import Facts
from mainstay.tenancy.worker.steps import STEPS, Next, take
from mainstay.tenancy.worker.tools import Patience

ON: Facts = {"next": "on", "task": "tsk_1"}
DONE: Facts = {"next": "done"}
AGAIN: Facts = {"next": "again", "pause_s": 7.0}


class Scripted:
    """Answers in the order of a script, and remembers what was asked."""

    def __init__(self, *answers: Facts) -> None:
        self._answers = deque(answers)
        self.taken: list[str] = []
        self.facts: list[Facts] = []

    async def step(self, name: str, **facts: Any) -> Facts:
        self.taken.append(name)
        self.facts.append(facts)
        return self._answers.popleft()

    async def pause(self, seconds: float) -> None:
        self.taken.append(f"pause {seconds:g}")


def taken(plan: str, argument: Facts, *answers: Facts) -> Scripted:
    run = Scripted(*answers)
    asyncio.run(_awaited(plan, run, argument))
    assert not run._answers
    return run


async def _awaited(plan: str, run: Scripted, argument: Facts) -> None:
    await PLANS[plan](run, argument)


def provision(*answers: Facts) -> list[str]:
    return taken("provision", {"allocation": "alc_1"}, *answers).taken


class TestProvision:
    def test_it_goes_on_only_if_there_is_something_to_do(self) -> None:
        assert provision(DONE) == ["begin"]
        assert provision(ON, DONE) == ["begin", "give"]

    def test_it_gives_waits_and_concludes(self) -> None:
        assert provision(ON, ON, ON, DONE) == ["begin", "give", "wait", "conclude"]

    def test_what_was_never_dispatched_is_tried_again_without_an_undo(self) -> None:
        assert provision(ON, ON, ON, AGAIN, ON, ON, DONE) == [
            "begin", "give", "wait", "conclude", "pause 7", "give", "wait", "conclude",
        ]  # fmt: skip

    def test_an_attempt_is_undone_and_proved_gone_before_the_next(self) -> None:
        answers: list[Facts] = [ON, ON, ON, {"next": "undo"}, ON, ON, AGAIN, ON, ON, DONE]

        assert provision(*answers) == [
            "begin", "give", "wait", "conclude", "undo", "wait", "undone", "pause 7",
            "give", "wait", "conclude",
        ]  # fmt: skip

    def test_what_cannot_be_undone_is_not_tried_again(self) -> None:
        assert provision(ON, ON, ON, {"next": "undo"}, ON, ON, DONE)[-1] == "undone"
        assert provision(ON, ON, ON, {"next": "undo"}, DONE)[-1] == "undo"

    def test_a_machine_that_nobody_is_to_have_is_taken_down(self) -> None:
        answers: list[Facts] = [ON, ON, ON, {"next": "remains"}, ON, ON, AGAIN, ON, ON, DONE]

        assert provision(*answers)[4:] == [
            "clear", "wait", "cleared", "pause 7", "clear", "wait", "cleared",
        ]  # fmt: skip

    def test_each_attempt_has_its_number_and_each_wait_its_task(self) -> None:
        first, second = {"next": "on", "task": "tsk_1"}, {"next": "on", "task": "tsk_2"}
        run = taken("provision", {"allocation": "alc_1"}, ON, first, ON, AGAIN, second, ON, DONE)

        assert [facts.get("attempt") for facts in run.facts] == [None, 1, None, 1, 2, None, 2]
        assert [facts.get("task") for facts in run.facts][2:] == [
            "tsk_1", "tsk_1", None, "tsk_2", "tsk_2",
        ]  # fmt: skip


class TestRelease:
    def test_it_is_tried_until_a_step_says_that_it_is_over(self) -> None:
        run = taken("release", {"allocation": "alc_1", "round": 2}, ON, ON, AGAIN, ON, ON, DONE)

        assert run.taken == [
            "take_back", "wait", "conclude_release", "pause 7",
            "take_back", "wait", "conclude_release",
        ]  # fmt: skip
        assert {facts.get("round_", 2) for facts in run.facts} == {2}

    def test_a_round_that_is_over_sends_nothing(self) -> None:
        assert taken("release", {"allocation": "alc_1", "round": 1}, DONE).taken == ["take_back"]


def test_remains_are_cleared_under_the_number_of_the_attempt_that_left_them() -> None:
    run = taken("remains", {"allocation": "alc_1", "given": 3}, ON, ON, DONE)

    assert run.taken == ["clear", "wait", "cleared"]
    assert run.facts[0] == {"allocation": "alc_1", "given": 3, "attempt": 1}


def test_every_name_of_a_plan_is_a_step_and_every_step_is_in_a_plan() -> None:
    """Whatever six answers there are."""
    found: set[str] = set()
    for plan, answers in product(PLANS, product(Next, repeat=6)):
        said = [{"next": str(next_), "task": "tsk", "pause_s": 0.0} for next_ in answers]
        run = Scripted(*said)
        work = _awaited(plan, run, {"allocation": "alc_1", "round": 1, "given": 1})
        with suppress(IndexError, StopIteration):  # the script is over, or the plan
            work.send(None)
        work.close()
        found |= {name for name in run.taken if not name.startswith("pause")}

    assert found == STEPS.keys()


class TestTakingAStep:
    def test_a_step_that_stumbles_is_taken_again_until_it_succeeds(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pauses: list[float] = []
        errors = deque([Unavailable("away"), Rejected("odd"), ZeroDivisionError()])

        async def stumbling(tools: object, task: str) -> Facts:
            if errors:
                raise errors.popleft()
            return {"next": "on", "task": task}

        async def slept(seconds: float) -> None:
            pauses.append(seconds)

        monkeypatch.setattr("mainstay.tenancy.worker.steps.asyncio.sleep", slept)
        tools: Any = SimpleNamespace(metrics=WorkerMetrics())
        answer = asyncio.run(take({"wait": stumbling}, tools, "wait", {"task": "tsk_1"}))

        assert answer == {"next": "on", "task": "tsk_1"}
        assert pauses == [0.2, 0.4, 0.8]
        counted = tools.metrics.registry.get_sample_value
        assert counted("mainstay_worker_stumbles_total", {"step": "wait"}) == 3
        assert counted("mainstay_worker_steps_total", {"step": "wait", "next": "on"}) == 1


class TestPatience:
    def test_pauses_are_those_of_the_specification(self) -> None:
        patience = Patience()

        assert [patience.provision_pause_s(attempt) for attempt in (1, 2, 3)] == [5.0, 15.0, 15.0]
        assert [patience.release_pauses.pause_s(attempt) for attempt in range(1, 8)] == [
            10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0,
        ]  # fmt: skip
        assert (patience.provision_attempts, patience.release_attempts) == (3, 5)
        assert patience.provision_s == 20 * 60

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("provision_attempts", 0),
            ("provision_attempts", 10),
            ("release_attempts", 100),
            ("remains_attempts", 10),
            ("provision_pauses_s", ()),
        ],
    )
    def test_numbers_of_tasks_would_collide_beyond_their_room(self, name: str, value: Any) -> None:
        with pytest.raises(Rejected):
            Patience(**{name: value})
