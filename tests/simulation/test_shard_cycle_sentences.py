"""Sentences about when a whole shard has a cycle, what one does, and what it never waits for."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

import pytest

from mainstay.engine.hints import Hint
from mainstay.engine.plan import Shortfall
from mainstay.model.calls import CreateRequest, Mutation
from mainstay.model.errors import Unavailable
from mainstay.model.frames import BootstrapAsked, CapacityHint, HintConfidence
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import ZONE_KEY
from mainstay.model.state import State
from mainstay.shard.events import Event
from meddled_links import line, meddled_lines
from virtual_loop import LoopClock, run
from whole_shard import UNIT_MILLI, WEB, Whole, a_provider, needs, running, sims

__all__ = ["meddled_lines"]

AnswerT = TypeVar("AnswerT")

TICK_S: Final = 10.0
EAST: Final = a_provider(slots=4, idle=4, name="east")
WEST: Final = a_provider(slots=4, idle=4, name="west", seed=2, zone="west-1")


def sources(whole: Whole, *states: State) -> list[str]:
    """The providers of the machines in these states."""
    inventory = whole.assembled.live.inventory
    return [inventory.source(machine.id) for machine in whole.machines(*states)]


def nowhere(count: int) -> list[Need]:
    """Kinds of need that no machine meets, one for each priority from 0 on."""
    elsewhere = Requirement(ZONE_KEY, Operator.IN, ("nowhere",))
    return [
        Need(
            cluster=WEB,
            profile=NeedProfile(priority=priority, requirements=(elsewhere,)),
            aggregate={"cpu": UNIT_MILLI},
            min_unit={"cpu": UNIT_MILLI},
        )
        for priority in range(count)
    ]


class TestWhen:
    def test_a_tick_comes_every_ten_seconds(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(EAST) as providers, running(tmp_path, providers) as whole:
                await asyncio.sleep(300.5)
                times = [at_s for at_s, _ in whole.cycles]
                assert len(times) == 31
                assert {round(after - before) for before, after in pairwise(times)} == {TICK_S}

        run(scenario())

    def test_a_cycle_after_demand_puts_off_no_tick(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(EAST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    web.roll_up(nowhere(1))
                    await asyncio.sleep(30)
                    times = [round(at_s) for at_s, _ in whole.cycles]
                    assert times == [0, 10, 15, 20, 30, 40]

        run(scenario())

    def test_demand_that_arrives_in_a_cycle_has_one_of_its_own(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(EAST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    parts = whole.assembled.shard._parts
                    publish = parts.publish

                    def asked_meanwhile(hints: tuple[Hint, ...]) -> None:
                        object.__setattr__(parts, "publish", publish)
                        publish(hints)
                        parts.demand.take(parts.demand.standing(WEB).verdict(needs(3)))
                        whole.assembled.shard.demanded()

                    object.__setattr__(parts, "publish", asked_meanwhile)
                    web.ask_for(1)
                    await asyncio.sleep(0.5)
                    assert len(web.line.heard(BootstrapAsked)) == 3

        run(scenario())


class TestWhat:
    def test_it_decides_on_what_it_has_just_seen(self, tmp_path: Path) -> None:
        """Reconcile comes before the snapshot: no cycle in between."""

        async def scenario() -> None:
            async with sims(EAST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(2)
                    await asyncio.sleep(203)
                    lost = whole.machines(State.CONFIGURED)[0].id
                    before = len(whole.cycles)
                    await providers["east"].lose(lost)
                    await asyncio.sleep(60)
                    found = [each for _, each in whole.cycles[before:] if each.looked.wrote]
                    assert lost not in found[0].thought.given.snapshot.ids
                    assert len(found[0].thought.plan.actions) == 1
                    assert found[0].offered.accepted == 1

        run(scenario())

    def test_each_of_its_parts_is_measured_and_so_is_the_wait_of_demand(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(EAST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(95)
                    web.ask_for(1)
                    await asyncio.sleep(1)
                    cycles = len(whole.cycles)
                    for part in ("reconcile", "snapshot", "decide", "hints", "offer"):
                        name = "mainstay_shard_cycle_part_seconds_count"
                        assert whole.metric(name, part=part) == cycles
                    assert whole.metric("mainstay_shard_cycle_seconds_count") == cycles
                    assert whole.metric("mainstay_shard_decision_delay_seconds_count") == 1
                    assert 0 < whole.metric("mainstay_shard_decision_delay_seconds_sum") < 1

        run(scenario())

    def test_it_tells_the_cluster_that_asks_what_it_could_have(self, tmp_path: Path) -> None:
        """In the cycle that its demand has woken, and nobody else."""

        async def scenario() -> None:
            async with (
                sims(EAST) as providers,
                running(tmp_path, providers) as whole,
                whole.cluster() as web,
                whole.cluster("batch") as batch,
            ):
                await asyncio.sleep(15)
                web.ask_for(1)
                await asyncio.sleep(0.5)
                hints = web.line.heard(CapacityHint)
                assert len(hints) == 1
                assert (hints[0].count, hints[0].confidence) == (8, HintConfidence.HIGH)
                assert not batch.line.heard(CapacityHint)

        run(scenario())

    def test_what_it_cannot_meet_is_a_shortfall_that_ages_until_it_is_met(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(EAST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    web.roll_up(nowhere(1))
                    await asyncio.sleep(0.5)
                    assert [each.age for each in shortfalls(whole)] == [1]
                    await asyncio.sleep(30)
                    assert [each.age for each in shortfalls(whole)] == [4]
                    assert whole.metric("mainstay_shard_shortfalls") == 1
                    web.ask_for(1)
                    await asyncio.sleep(0.5)
                    assert shortfalls(whole) == ()
                    assert whole.metric("mainstay_shard_shortfalls") == 0

        run(scenario())

    @pytest.mark.parametrize(("kinds", "told"), [(99, 99), (100, 100), (101, 100)])
    def test_a_hundred_shortfalls_are_told_those_that_matter_most(
        self, tmp_path: Path, kinds: int, told: int
    ) -> None:
        async def scenario() -> None:
            async with sims(EAST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    web.roll_up(nowhere(kinds))
                    await asyncio.sleep(0.5)
                    told_of = [each.priority for each in shortfalls(whole)]
                    assert told_of == list(range(kinds))[::-1][:told]

        run(scenario())


def shortfalls(whole: Whole) -> tuple[Shortfall, ...]:
    published = whole.assembled.live.published
    assert published is not None
    return tuple(published.plan.shortfalls)


class TestItWaitsForNoAction:
    def test_calls_that_take_long_put_off_no_tick(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(EAST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(5)
                    east = line(whole, "east")
                    east.travel_s = {machine.id: 9.0 for machine in whole.machines()}
                    web.ask_for(8)
                    await asyncio.sleep(60)
                    times = [at_s for at_s, _ in whole.cycles]
                    ticks = [at_s for at_s in times if at_s % TICK_S < 1.1]
                    assert len({round(at_s, -1) for at_s in ticks}) == 7
                    seconds = [each.published.seconds for _, each in whole.cycles]
                    assert max(sum(parts.values()) for parts in seconds) < 0.5
                    assert east.tried

        run(scenario())

    def test_nor_does_a_cluster_that_never_answers(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(EAST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(5)
                    web.line.answers = False
                    web.ask_for(4)
                    await asyncio.sleep(0.5)
                    assert whole.assembled.live.executor.in_flight["east"] == 4
                    web.roll_up(nowhere(1))
                    await asyncio.sleep(0.5)
                    assert len(shortfalls(whole)) == 1  # decided, while the others are in hand
                    assert whole.assembled.live.executor.in_flight["east"] == 4

        run(scenario())


class TestItFallsOverNobody:
    def test_a_defect_in_taking_in_a_list_costs_that_provider_alone(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            always_full = {"full_list_every_declared": 1}
            async with sims(EAST, WEST) as providers:
                async with (
                    running(tmp_path, providers, None, **always_full) as whole,
                    whole.cluster() as web,
                ):
                    await asyncio.sleep(5)
                    east = line(whole, "east")
                    east.spoils_lists = True
                    await asyncio.sleep(2 * TICK_S)
                    decided = len(whole.cycles)
                    web.ask_for(4)
                    await asyncio.sleep(30 * TICK_S)
                    assert whole.journal.of(Event.CYCLE_FAILED) == []
                    assert len(whole.cycles) - decided >= 30
                    assert sources(whole, State.CONFIGURED) == ["west"] * 4
                    assert "east" in whole.journal.of(Event.LIST_FAILED)

                    east.spoils_lists = False
                    web.ask_for(8)
                    await asyncio.sleep(300)
                    assert sorted(sources(whole, State.CONFIGURED)) == ["east"] * 4 + ["west"] * 4

        run(scenario())


class TestTheFirst:
    """It begins as soon as there are machines to decide on."""

    def test_a_provider_that_hangs_at_the_start_holds_up_nobody(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(EAST, WEST) as providers, running(tmp_path, providers) as whole:
                whole.links["east"].hangs = True
                async with whole.cluster() as web:
                    web.ask_for(2)
                    await asyncio.sleep(5)
                    assert whole.cycles
                    assert len(web.line.heard(BootstrapAsked)) == 2
                    await asyncio.sleep(60)
                    assert sources(whole, State.CONFIGURED) == ["west"] * 2

                    assert whole.metric("mainstay_shard_ready") == 0
                    await asyncio.sleep(56)  # its list has 120 s
                    assert whole.metric("mainstay_shard_ready") == 1
                    assert whole.assembled.live.reconciler.heard.unreachable == {"east"}
                    assert whole.journal.of(Event.PROVIDER_LOST) == ["east"]

        run(scenario())

    @pytest.mark.parametrize(("takes_s", "waits"), [(1.9, True), (4.5, False)])
    def test_the_others_are_waited_for_two_seconds(
        self, tmp_path: Path, takes_s: float, waits: bool
    ) -> None:
        """And who comes later is taken in when it comes, not at the next tick."""

        async def scenario() -> None:
            async with sims(EAST, WEST) as providers, running(tmp_path, providers) as whole:
                line(whole, "east").full_list_takes_s = takes_s
                await asyncio.sleep(takes_s + 0.1)
                first = whole.cycles[0]
                assert first[0] == pytest.approx(takes_s if waits else 2.0)
                assert first[1].looked.added == (16 if waits else 8)
                assert len(whole.machines()) == 16
                assert len(whole.cycles) == (1 if waits else 2)

        run(scenario())

    def test_with_no_machine_to_decide_on_there_is_none(self, tmp_path: Path) -> None:
        """One that fails at once is none to decide on either."""

        async def scenario() -> None:
            async with sims(EAST, WEST) as providers, running(tmp_path, providers) as whole:
                line(whole, "west").refuses_lists = Unavailable("no route")
                line(whole, "east").full_list_takes_s = 40.0
                await asyncio.sleep(39)
                assert not whole.cycles
                await asyncio.sleep(1.1)
                assert [len(each.thought.given.snapshot) for _, each in whole.cycles] == [8]

        run(scenario())

    def test_where_all_have_failed_it_begins_all_the_same(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(EAST, WEST) as providers, running(tmp_path, providers) as whole:
                for name in ("east", "west"):
                    line(whole, name).refuses_lists = Unavailable("no route")
                await asyncio.sleep(0.5)
                assert len(whole.cycles) == 1
                assert whole.assembled.live.reconciler.heard.ready

        run(scenario())

    def test_after_a_restart_releases_run_and_acquisitions_wait_for_who_hangs(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            west = dataclasses.replace(WEST, pools=WEST.pools[1:])  # what is there already
            async with sims(EAST, west) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(8)
                    await asyncio.sleep(300)
                    assert sorted(sources(whole, State.CONFIGURED)) == ["east"] * 4 + ["west"] * 4
                async with running(tmp_path, providers) as whole:
                    began_s = LoopClock().elapsed_s()
                    whole.links["west"].hangs = True
                    async with whole.cluster() as web, whole.cluster("batch") as batch:
                        web.ask_for(3)
                        batch.ask_for(2)
                        await asyncio.sleep(5)
                        assert whole.cycles[0][0] - began_s < 5
                        assert len(web.reclaims) == 1
                        assert not line(whole, "east").attempts(CreateRequest)
                        held = [each.reason for each in whole.journal.records()]
                        assert held.count("unlisted") >= 1

        run(scenario())

    @pytest.mark.parametrize("how", ["hangs", "fails"])
    def test_what_is_not_listed_yet_is_still_paid_for(self, tmp_path: Path, how: str) -> None:
        """Also when it is known that its provider does not answer, for as long as it is awaited."""

        async def scenario() -> None:
            async with sims(EAST, WEST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(8)
                    await asyncio.sleep(300)
                    paid_for = whole.assembled.money.book.open_tabs
                    assert paid_for >= 8
                async with running(tmp_path, providers) as whole:
                    if how == "hangs":
                        whole.links["west"].hangs = True
                    else:
                        line(whole, "west").refuses_lists = Unavailable("no route")
                    await asyncio.sleep(200)
                    assert whole.cycles
                    assert whole.assembled.live.reconciler.heard.ready
                    assert whole.assembled.money.book.open_tabs == paid_for
                    await asyncio.sleep(110)
                    assert whole.assembled.money.book.open_tabs < paid_for

        run(scenario())


class TestWhileItDecides:
    @pytest.mark.parametrize("decides_s", [0.05, 0.1])
    def test_what_begins_meanwhile_is_not_acquired_again_from_other_machines(
        self, tmp_path: Path, decides_s: float
    ) -> None:
        """Clusters come one after the other, each more important than the last: every plan gives
        other machines to the earlier ones, while orders of the last plan begin. Nobody gets more
        than it asks for.
        """

        async def aside(work: Callable[[], AnswerT]) -> AnswerT:
            await asyncio.sleep(decides_s)
            return work()

        async def scenario() -> None:
            spec = a_provider(slots=60, name="east")
            async with (
                sims(spec) as providers,
                running(tmp_path, providers, None, aside, workers=4) as whole,
                AsyncExitStack() as stack,
            ):
                await asyncio.sleep(1)
                east = whole.links["east"]
                east.travel_s = {each.id: 0.04 for each in whole.machines()}
                for number in range(6):
                    cluster = await stack.enter_async_context(whole.cluster(f"c-{number}"))
                    cluster.ask_for(8, priority=100 * (number + 1))
                    await asyncio.sleep(0.07)
                await asyncio.sleep(300)

                assert len(whole.machines(State.CONFIGURED)) == 6 * 8
                assert len(creates(east.sent)) == 6 * 8

        run(scenario())


def creates(sent: Sequence[Mutation]) -> list[Mutation]:
    return [request for request in sent if isinstance(request, CreateRequest)]
