"""Sentences about a whole shard's calls: which are repeated and which never, fences and drains."""

import asyncio
import dataclasses
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from mainstay.model.calls import (
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    Mutation,
)
from mainstay.model.errors import Fenced, MainstayError, NotSupported, Rejected, Unavailable
from mainstay.model.frames import (
    BootstrapAnswer,
    BootstrapAsked,
    NodeState,
    ReclaimTold,
    ShardFrame,
)
from mainstay.model.questions import SetControlRequest
from mainstay.model.state import State
from mainstay.shard.answers.view import ShardControls
from mainstay.shard.events import EVENTS, Event, Level
from mainstay.shard.outcomes import Outcome
from mainstay.shard.talk.session import Session
from meddled_links import NotedLines, audited, line, meddled_lines, only, outcomes, quick
from virtual_loop import LoopClock, run
from whole_shard import Cluster, Whole, running, sims

__all__ = ["meddled_lines"]

DEADLINE_S: Final = 30.0


class TestCalls:
    def test_a_transport_error_is_repeated_with_a_new_number_and_ever_later(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    link = line(whole)
                    link.refuses = lambda _: (
                        Unavailable("no route") if len(link.tried) < 4 else None
                    )
                    web.ask_for(1)
                    await asyncio.sleep(30)
                    fences = [each.fence for each in link.attempts(ConfigureRequest)]
                    assert len(fences) == 4
                    assert len({(each.shard, each.epoch) for each in fences}) == 1
                    assert all(a.sequence < b.sequence for a, b in pairwise(fences))
                    pauses = [b.at_s - a.at_s for a, b in pairwise(link.tried)]
                    assert 0 < pauses[0] < pauses[2] < 5
                    assert [each.state for each in whole.machines()] == [State.CONFIGURED]

        run(scenario())

    @pytest.mark.parametrize("kind", [CreateRequest, ConfigureRequest, DrainRequest])
    def test_one_that_lasts_is_failed_with_what_was_said_after_thirty_seconds(
        self, tmp_path: Path, kind: type[Mutation]
    ) -> None:
        slots, idle = (1, 0) if kind is CreateRequest else (0, 1)

        async def scenario() -> None:
            async with sims(quick(slots=slots, idle=idle)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    if kind is DrainRequest:
                        web.ask_for(1)
                        await asyncio.sleep(30)
                    link, lines = line(whole), audited(whole)
                    link.refuses = only(kind, Unavailable("no route to it"))
                    before = len(link.tried)
                    web.ask_for(0 if kind is DrainRequest else 1)
                    await asyncio.sleep(DEADLINE_S - 5)
                    (machine,) = whole.machines()
                    assert machine.state is not State.FAILED
                    await asyncio.sleep(6)
                    failed = whole.journal.of(Event.MACHINE_FAILED)
                    assert failed == [Outcome.PROVIDER_ERROR.value]
                    assert_last_error(kind, web, lines)
                    tried = link.tried[before:]
                    assert len(tried) > 5
                    assert DEADLINE_S - 6 < tried[-1].at_s - tried[0].at_s <= DEADLINE_S

        run(scenario())

    def test_a_delete_that_nobody_answers_is_failed_after_thirty_seconds(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with (
                sims(quick(slots=1)) as providers,
                running(tmp_path, providers, hold_on_demand_s=100) as whole,
                whole.cluster() as web,
            ):
                link, lines = line(whole), audited(whole)
                link.refuses = only(DeleteRequest, Unavailable("no route to it"))
                web.ask_for(1)
                await asyncio.sleep(30)
                web.ask_for(0)
                for _ in range(2000):
                    await asyncio.sleep(0.1)
                    if link.attempts(DeleteRequest):
                        break
                await asyncio.sleep(DEADLINE_S - 5)
                assert [machine.state for machine in whole.machines()] == [State.DELETING]
                await asyncio.sleep(5.5)
                failed = whole.journal.of(Event.MACHINE_FAILED)
                assert failed == [Outcome.PROVIDER_ERROR.value]
                assert_last_error(DeleteRequest, web, lines)
                assert outcomes(whole, Outcome.PROVIDER_ERROR, "delete") == 1
                fences = [each.fence for each in link.attempts(DeleteRequest)]
                assert len(fences) > 5
                assert all(a.sequence < b.sequence for a, b in pairwise(fences))

        run(scenario())

    @pytest.mark.parametrize("kind", [CreateRequest, ConfigureRequest])
    def test_an_answer_is_not_repeated_and_its_words_are_kept(
        self, tmp_path: Path, kind: type[Mutation]
    ) -> None:
        """Only after the provider was asked a machine can be Failed. It has it alive, so that it
        comes back, and each action asks once.
        """
        slots, idle = (1, 0) if kind is CreateRequest else (0, 1)
        name = "provision" if kind is CreateRequest else "bootstrap"

        async def scenario() -> None:
            async with sims(quick(slots=slots, idle=idle)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    link = line(whole)
                    link.refuses = only(kind, Rejected("not this one"))
                    web.ask_for(1)
                    await asyncio.sleep(0.5)
                    (machine,) = whole.machines()
                    assert machine.state is State.FAILED
                    assert machine.last_error.endswith("not this one")
                    await asyncio.sleep(100)
                    asked = len(link.attempts(kind))
                    assert outcomes(whole, Outcome.PROVIDER_ERROR, name) == asked

        run(scenario())


def assert_last_error(kind: type[Mutation], web: Cluster, lines: NotedLines) -> None:
    """The cluster whose machine it is hears what was said; of one that is nobody's, the log."""
    if kind in {ConfigureRequest, DrainRequest}:
        (said,) = [each.last_error for each in web.line.heard(NodeState) if each.last_error]
    else:
        failed = [each for each in lines.contents if each.get("event") == "machine_failed"]
        (facts,) = [each["facts"] for each in failed]
        assert isinstance(facts, Mapping)
        said = facts["why"]
    assert said.endswith("no route to it")


class TestTheDeadline:
    """It is of the whole action, not of each call."""

    @pytest.mark.parametrize("answered_s", [3.0, 25.0, 28.5])
    def test_a_call_that_hangs_late_is_cut_off_when_the_action_has_taken_thirty_seconds(
        self, tmp_path: Path, answered_s: float
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await begun(whole, web)
                    begun_s = LoopClock().elapsed_s()
                    await asyncio.sleep(answered_s)
                    line(whole).hangs = True
                    answer(web)
                    await asyncio.sleep(begun_s + DEADLINE_S - 0.3 - LoopClock().elapsed_s())
                    assert [each.state for each in whole.machines()] == [State.CONFIGURING]
                    await asyncio.sleep(0.4)
                    (machine,) = whole.machines()
                    assert machine.state is State.FAILED
                    assert "did not answer within" in machine.last_error
                    assert line(whole).attempts(ConfigureRequest)
                    assert outcomes(whole, Outcome.PROVIDER_ERROR) == 1

        run(scenario())

    def test_a_provider_that_would_have_no_time_to_answer_is_not_asked(
        self, tmp_path: Path
    ) -> None:
        """Nobody would know how the machine stands; so it is given back, and chosen again."""

        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await begun(whole, web)
                    await asyncio.sleep(29.5)
                    answer(web)
                    await asyncio.sleep(0.2)
                    assert not line(whole).attempts(ConfigureRequest)
                    assert [each.state for each in whole.machines()] == [State.IDLE]
                    assert outcomes(whole, Outcome.ROLLED_BACK) == 1
                    web.line.answers = True
                    await asyncio.sleep(60)
                    assert [each.state for each in whole.machines()] == [State.CONFIGURED]

        run(scenario())


async def begun(whole: Whole, web: Cluster) -> None:
    """Have a machine bootstrapped for a cluster that has not answered yet."""
    await asyncio.sleep(15)
    web.line.answers = False
    web.ask_for(1)
    for _ in range(100):
        await asyncio.sleep(0.01)
        if whole.machines(State.CONFIGURING):
            return
    raise AssertionError("no bootstrap was begun")


def answer(web: Cluster) -> None:
    """What the cluster was last asked for, late."""
    asked = web.line.heard(BootstrapAsked)[-1]
    web.line.session.heard(BootstrapAnswer(asked.request, b"join"))


class TestNeverRepeated:
    @pytest.mark.parametrize(
        ("error", "outcome"),
        [
            (Rejected("not this one"), Outcome.PROVIDER_ERROR),
            (NotSupported("no such call"), Outcome.NOT_SUPPORTED),
        ],
        ids=["refused", "not supported"],
    )
    def test_a_delete_that_is_refused(
        self, tmp_path: Path, error: MainstayError, outcome: Outcome
    ) -> None:
        """Not before its machine, which is alive, has been idle for another whole hold."""

        async def scenario() -> None:
            async with sims(quick(slots=1)) as providers:
                async with (
                    running(tmp_path, providers, hold_on_demand_s=100) as whole,
                    whole.cluster() as web,
                ):
                    link = line(whole)
                    link.refuses = only(DeleteRequest, error)
                    web.ask_for(1)
                    await asyncio.sleep(30)
                    web.ask_for(0)
                    await asyncio.sleep(100)
                    for _ in range(200):
                        await asyncio.sleep(0.1)
                        if outcomes(whole, outcome, "delete"):
                            break
                    assert [machine.state for machine in whole.machines()] == [State.FAILED]
                    assert outcomes(whole, outcome, "delete") == 1
                    await asyncio.sleep(95)
                    assert len(link.attempts(DeleteRequest)) == 1

        run(scenario())

    def test_a_create_whose_ack_is_no_machine_that_can_be(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(quick(slots=2)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    link = line(whole)
                    link.acks = lambda each: dataclasses.replace(each, price_per_hour=-1.0)
                    web.ask_for(1)
                    await asyncio.sleep(0.1)
                    (failed,) = whole.machines(State.FAILED)
                    assert "price" in failed.last_error
                    assert outcomes(whole, Outcome.REFUSED_ACK, "provision") == 1
                    link.acks = lambda each: each
                    await asyncio.sleep(200)
                    asked = [each.machine for each in link.attempts(CreateRequest)]
                    assert asked.count(failed.id) == 1

        run(scenario())

    def test_a_call_that_is_fenced(self, tmp_path: Path) -> None:
        """It is an outcome and an incident of its own. A higher epoch of ours stops everything, and
        lists go on.
        """

        async def scenario() -> None:
            async with sims(quick(idle=4)) as providers:
                async with running(tmp_path, providers, workers=1) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    link, lines = line(whole), audited(whole)
                    link.refuses = lambda _: Fenced("too old", epoch=9)
                    web.ask_for(4)
                    await asyncio.sleep(100)
                    assert len(link.tried) == 1
                    assert outcomes(whole, Outcome.FENCED) >= 1
                    assert outcomes(whole, Outcome.PROVIDER_ERROR) == 0
                    assert len(whole.journal.of(Event.SHARD_FENCED)) == 1
                    assert EVENTS[Event.SHARD_FENCED].level is Level.ERROR
                    assert "shard_fenced" in {each.get("event") for each in lines.contents}
                    assert whole.metric("mainstay_shard_acting") == 0
                    assert whole.assembled.live.not_acting().startswith("epoch 9 of this shard")
                    lists, cycles = len(link.lists), len(whole.cycles)
                    await asyncio.sleep(100)
                    assert len(link.lists) - lists >= 10
                    assert len(whole.cycles) - cycles >= 10

        run(scenario())

    def test_an_epoch_that_is_not_above_ours_stops_nothing_but_that_provider(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=4)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    line(whole).refuses = lambda _: Fenced("too old", epoch=whole.data.epoch)
                    web.ask_for(1)
                    await asyncio.sleep(60)
                    assert not whole.assembled.live.not_acting()
                    assert list(whole.assembled.live.acting.providers) == ["sim"]

        run(scenario())


class TestPausedMeanwhile:
    @pytest.mark.parametrize("kind", [CreateRequest, ConfigureRequest, DrainRequest, DeleteRequest])
    def test_a_call_that_is_being_repeated_is_not_sent_again_after_a_pause(
        self, tmp_path: Path, kind: type[Mutation]
    ) -> None:
        """Its machine is not failed: what its provider says of it counts, and it is as it was."""
        slots, idle = (0, 1) if kind in {ConfigureRequest, DrainRequest} else (1, 0)
        before = {
            CreateRequest: State.SPECULATIVE,
            ConfigureRequest: State.IDLE,
            DrainRequest: State.CONFIGURED,
            DeleteRequest: State.IDLE,
        }[kind]

        async def scenario() -> None:
            async with (
                sims(quick(slots=slots, idle=idle)) as providers,
                running(tmp_path, providers, hold_on_demand_s=100) as whole,
                whole.cluster() as web,
            ):
                await asyncio.sleep(15)
                if kind in {DrainRequest, DeleteRequest}:
                    web.ask_for(1)
                    await asyncio.sleep(30)
                link = line(whole)
                link.refuses = only(kind, Unavailable("no route to it"))
                web.ask_for(0 if kind in {DrainRequest, DeleteRequest} else 1)
                for _ in range(2000):
                    await asyncio.sleep(0.1)
                    if len(link.attempts(kind)) >= 3:
                        break
                pausing = SetControlRequest(
                    kind="pause", cluster="", reason="a test", by="ann", for_s=1000
                )
                await ShardControls(whole.assembled.live).set_control(pausing)
                tried = len(link.tried)
                link.refuses = lambda _: None
                await asyncio.sleep(100)
                assert len(link.tried) == tried
                assert [machine.state for machine in whole.machines()] == [before]
                assert whole.journal.of(Event.MACHINE_FAILED) == []

        run(scenario())


class TestDrains:
    def test_the_cluster_is_told_before_the_provider_is_asked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(1)
                    await asyncio.sleep(60)
                    (machine,) = whole.machines(State.CONFIGURED)
                    order: list[tuple[str, str]] = []
                    say = Session.say

                    def noted(session: Session, frame: ShardFrame) -> bool:
                        if isinstance(frame, ReclaimTold):
                            order.append(("told", frame.nodes[0]))
                        return say(session, frame)

                    def asked(request: Mutation) -> None:
                        order.append(("asked", request.machine))

                    monkeypatch.setattr(Session, "say", noted)
                    line(whole).refuses = asked
                    web.ask_for(0)
                    await asyncio.sleep(30)
                    assert order == [("told", machine.id), ("asked", machine.id)]
                    assert len(web.reclaims) == 1
                    assert whole.journal.of(Event.EVICTION_SKIPPED) == []

        run(scenario())

    @pytest.mark.parametrize("connected", [True, False])
    def test_with_nobody_to_tell_workloads_have_the_default_grace_and_that_is_counted(
        self, tmp_path: Path, connected: bool
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=2)) as providers:
                async with running(tmp_path, providers, default_grace_s=47) as whole:
                    async with whole.cluster() as web:
                        web.ask_for(2)
                        await asyncio.sleep(103)
                        web.ask_for(1)
                        await asyncio.sleep(1 if connected else 0.005)
                    await asyncio.sleep(20)
                    (drain,) = line(whole).attempts(DrainRequest)
                    assert (drain.grace_s == 47) is not connected
                    if connected:
                        assert drain.grace_s == web.reclaims[0].grace_s
                    name = "mainstay_shard_evictions_skipped_total"
                    assert whole.metric(name, kind="reclaim") == (not connected)
                    skipped = whole.journal.of(Event.EVICTION_SKIPPED)
                    assert len(skipped) == (not connected)

        run(scenario())
