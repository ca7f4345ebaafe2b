"""One call: fenced, timed, repeated while nobody answers, and never when refused."""

import asyncio
from random import Random

import pytest
from typing_extensions import override

from builders import a_machine
from mainstay.model.action import ActionKind
from mainstay.model.calls import (
    Call,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    Fence,
)
from mainstay.model.errors import (
    Fenced,
    MainstayError,
    NoCapacity,
    NotSupported,
    Rejected,
    Unavailable,
    UnknownMachine,
)
from mainstay.model.ids import MachineId
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.hands.acting import Acting
from mainstay.shard.hands.calling import Caller, CallOptions, FenceCounter
from mainstay.shard.hands.unanswered import Unanswered
from mainstay.shard.outcomes import Outcome
from shard_hands import (
    FakeJournal,
    FakeLink,
    M,
    a_link,
    an_order,
    carried_out,
    hands,
    in_time,
)
from virtual_loop import LoopClock

CREATE = CreateRequest(M)
SILENT = Unavailable("no route")


class Steady(Random):
    """Every pause is as long as it may be."""

    @override
    def uniform(self, a: float, b: float) -> float:
        return b


class Line:
    """A caller whose pauses are known, and when each attempt began."""

    def __init__(self, link: FakeLink, *, epoch: int = 7, random: Random | None = None) -> None:
        self.link = link
        self.acting = Acting()
        self.journal = FakeJournal()
        self.caller = Caller(
            source=link.name,
            link=link,
            fences=FenceCounter("shard-a", epoch),
            acting=self.acting,
            journal=self.journal,
            clock=LoopClock(),
            random=random or Steady(),
            unanswered=Unanswered(LoopClock(), self.journal),
            options=CallOptions(timeout_s=10.0),
        )

    @property
    def fences(self) -> list[Fence]:
        return [request.fence for _, request in self.link.calls]


def a_line(*, epoch: int = 7) -> Line:
    return Line(a_link(State.SPECULATIVE), epoch=epoch)


class TestQuestions:
    def test_a_refusal_to_tell_of_a_machine_is_an_answer_too(self) -> None:
        async def scenario() -> None:
            line = a_line()
            line.link.will(Call.CREATE, *[SILENT] * 100)
            with pytest.raises(Unavailable):
                await line.caller.create(CREATE, until_s=LoopClock().elapsed_s() + 30.0)
            assert line.caller.unanswered.barred() == {line.link.name}
            await asyncio.sleep(1)
            with pytest.raises(UnknownMachine):
                await line.caller.get(MachineId("nobody"))
            assert line.caller.unanswered.barred() == frozenset()

        in_time(scenario)


class TestAttempts:
    @pytest.mark.parametrize(
        ("until_s", "attempts"), [(0.1, 1), (0.2, 1), (0.21, 2), (0.59, 2), (3.1, 5), (30.0, 10)]
    )
    def test_no_attempt_begins_after_the_deadline_but_the_first_always_does(
        self, until_s: float, attempts: int
    ) -> None:
        async def scenario() -> None:
            line = a_line()
            line.link.will(Call.CREATE, *[SILENT] * 100)
            with pytest.raises(Unavailable, match="no route"):
                await line.caller.create(CREATE, until_s=until_s)
            assert len(line.link.calls) == attempts
            assert LoopClock().elapsed_s() <= until_s

        in_time(scenario)

    def test_pauses_double_from_a_fifth_of_a_second_to_five_seconds(self) -> None:
        async def scenario() -> None:
            line = a_line()
            line.link.will(Call.CREATE, *[SILENT] * 8)
            await line.caller.create(CREATE, until_s=100.0)
            assert LoopClock().elapsed_s() == pytest.approx(0.2 + 0.4 + 0.8 + 1.6 + 3.2 + 3 * 5)

        in_time(scenario)

    def test_pauses_are_spread_so_that_workers_do_not_come_in_step(self) -> None:
        async def scenario() -> None:
            times = []
            for seed in (1, 2):
                line = Line(a_link(State.SPECULATIVE), random=Random(seed))
                line.link.will(Call.CREATE, SILENT)
                before = LoopClock().elapsed_s()
                await line.caller.create(CREATE, until_s=100.0)
                times.append(LoopClock().elapsed_s() - before)
            assert all(0.1 <= pause <= 0.2 for pause in times)
            assert times[0] != times[1]

        in_time(scenario)

    def test_every_attempt_has_a_fresh_number_of_the_same_life(self) -> None:
        async def scenario() -> None:
            line = a_line()
            line.link.will(Call.CREATE, SILENT, SILENT)
            await line.caller.create(CREATE, until_s=30.0)
            assert line.fences == [Fence("shard-a", 7, number) for number in (1, 2, 3)]

        in_time(scenario)

    def test_numbers_are_counted_over_all_calls_and_providers(self) -> None:
        async def scenario() -> None:
            links = [FakeLink(a_machine(State.IDLE, id=name), name=name) for name in ("a", "b")]
            world = hands(*links)
            for link in links:
                await world.tools.callers[link.name].delete(DeleteRequest(link.name), until_s=1.0)
            assert [link.calls[0][1].fence.sequence for link in links] == [1, 2]

        in_time(scenario)

    def test_an_attempt_that_is_not_answered_in_time_is_repeated(self) -> None:
        async def scenario() -> None:
            line = a_line()
            line.link.will(Call.CREATE, 10.5)
            await line.caller.create(CREATE, until_s=30.0)
            assert len(line.link.calls) == 2
            assert LoopClock().elapsed_s() == pytest.approx(10.2)

        in_time(scenario)

    def test_an_answer_within_the_timeout_is_waited_for(self) -> None:
        async def scenario() -> None:
            line = a_line()
            line.link.will(Call.CREATE, 9.5)
            await line.caller.create(CREATE, until_s=30.0)
            assert len(line.link.calls) == 1

        in_time(scenario)

    def test_a_provider_that_hangs_for_good_is_given_up_with_a_diagnosis(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            link.will(Call.DELETE, *[1000.0] * 10)
            world = await carried_out(hands(link), an_order(ActionKind.DELETE))
            assert world.machine().last_error.startswith(
                "delete: provider metal did not answer within "
            )
            assert world.journal.outcomes() == [Outcome.PROVIDER_ERROR]
            assert world.journal.records[0].seconds == pytest.approx(30.0)
            assert len(link.calls) == 3

        in_time(scenario)

    @pytest.mark.parametrize(
        "error", [Rejected("no"), NotSupported("no"), NoCapacity("no"), Fenced("no")]
    )
    def test_a_refusal_is_never_repeated(self, error: MainstayError) -> None:
        async def scenario() -> None:
            line = a_line()
            line.link.will(Call.CREATE, error)
            with pytest.raises(type(error)):
                await line.caller.create(CREATE, until_s=30.0)
            assert len(line.link.calls) == 1

        in_time(scenario)

    def test_a_get_is_asked_once_and_has_no_fence(self) -> None:
        async def scenario() -> None:
            line = a_line()
            line.link.will(Call.GET, SILENT)
            with pytest.raises(Unavailable):
                await line.caller.get(M)
            line.link.will(Call.GET, 11.0)
            with pytest.raises(Unavailable, match="within 10 s"):
                await line.caller.get(M)
            assert line.link.gets == [M, M]
            assert line.caller.fences.next().sequence == 1

        in_time(scenario)

    def test_being_told_to_stop_is_not_repeated(self) -> None:
        async def scenario() -> None:
            line = a_line()
            line.link.will(Call.CREATE, 5.0)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await line.caller.create(CREATE, until_s=30.0)
            assert len(line.link.calls) == 1

        in_time(scenario)


class TestFenced:
    @pytest.mark.parametrize(
        ("seen", "whole_shard"), [(8, True), (7, False), (6, False), (None, False)]
    )
    def test_a_higher_epoch_of_our_own_stops_the_shard_anything_else_that_provider(
        self, seen: int | None, whole_shard: bool
    ) -> None:
        async def scenario() -> None:
            line = a_line(epoch=7)
            line.link.will(Call.CREATE, Fenced("stale", epoch=seen))
            with pytest.raises(Fenced):
                await line.caller.create(CREATE, until_s=30.0)
            assert bool(line.acting.why) is whole_shard
            assert list(line.acting.providers) == ([] if whole_shard else ["metal"])
            assert bool(line.acting.why_not("other")) is whole_shard
            assert line.acting.why_not("metal")
            (facts,) = line.journal.facts(Event.SHARD_FENCED)
            assert (facts["epoch"], facts["seen"], facts["machine"]) == (7, seen, M)
            assert facts["stopped"] == ("shard" if whole_shard else "provider")

        in_time(scenario)

    def test_the_reason_names_both_epochs_and_the_first_one_stays(self) -> None:
        acting = Acting()
        acting.stop("epoch 8 of this shard acts, we are epoch 7")
        acting.stop("epoch 9 of this shard acts, we are epoch 7")
        acting.stop_provider("metal", "one")
        acting.stop_provider("metal", "two")

        assert acting.why == "epoch 8 of this shard acts, we are epoch 7"
        assert dict(acting.providers) == {"metal": "one"}

    def test_a_call_that_is_being_repeated_is_not_sent_again(self) -> None:
        async def scenario() -> None:
            line = a_line()
            line.link.will(Call.CREATE, *[SILENT] * 100)

            async def stop() -> None:
                await asyncio.sleep(1.0)
                line.acting.stop("epoch 8 acts")

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(stop())
                with pytest.raises(Fenced, match="epoch 8 acts"):
                    await line.caller.create(CREATE, until_s=30.0)
            assert len(line.link.calls) == 3
            assert line.journal.facts(Event.SHARD_FENCED) == []

        in_time(scenario)

    def test_a_machine_whose_call_was_fenced_is_failed_and_blamed_on_nobody(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            link.will(Call.DELETE, Fenced("stale", epoch=8))
            world = await carried_out(hands(link), an_order(ActionKind.DELETE))
            assert world.machine().state is State.FAILED
            assert world.machine().last_error == "delete: stale"
            assert world.journal.outcomes() == [Outcome.FENCED]
            assert world.failures.bad == []

        in_time(scenario)

    def test_drains_are_fenced_like_everything_else(self) -> None:
        async def scenario() -> None:
            line = Line(a_link(State.CONFIGURED))
            await line.caller.drain(DrainRequest(M, 5), until_s=1.0)
            assert line.fences == [Fence("shard-a", 7, 1)]

        in_time(scenario)
