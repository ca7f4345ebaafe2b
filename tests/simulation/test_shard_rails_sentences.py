"""Rails on a whole shard, each at its boundary: caps, limits, pause, shadow, live controls."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from mainstay.model.action import ActionKind
from mainstay.model.calls import Ack
from mainstay.model.errors import Rejected
from mainstay.model.frames import BootstrapAsked, CapacityHint
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import ZONE_KEY
from mainstay.model.questions import LiftControlRequest, SetControlRequest
from mainstay.model.state import State
from mainstay.model.views import ShortfallQuery
from mainstay.providers.sim.latency import INSTANT
from mainstay.providers.sim.spec import SimSpec
from mainstay.shard.answers.view import ShardControls, ShardView
from mainstay.shard.events import Event
from mainstay.shard.lists.looked import Looked
from mainstay.shard.outcomes import Disposition
from shard_over_sim import OFFER
from talking import at_once
from virtual_loop import run
from whole_shard import (
    UNIT_MILLI,
    Cluster,
    SettableClock,
    Whole,
    a_provider,
    running,
    sims,
)

TICK_S: Final = 10.0
AT_ONCE_S: Final = 0.9
"""Before the loop looks whether a step has ended."""

BOTH: Final = [{"actuation_paused": True}, {"dry_run": True}]


def at_once_of(spec: SimSpec) -> SimSpec:
    """The same with steps that take no time."""
    return dataclasses.replace(spec, latencies=INSTANT)


def an_instant_provider(*, idle: int) -> SimSpec:
    return at_once_of(a_provider(slots=0, idle=idle))


async def just_after_a_tick() -> None:
    """A second after the next one; ticks are at whole tens."""
    await asyncio.sleep(TICK_S + 1 - asyncio.get_running_loop().time() % TICK_S)


async def served(web: Cluster, whole: Whole, machines: int) -> None:
    """Have so many machines serve, and be just behind a tick."""
    web.ask_for(machines)
    await asyncio.sleep(TICK_S)
    await just_after_a_tick()
    assert len([m for m in whole.machines(State.CONFIGURED) if m.cluster == web.name]) == machines


def told(cluster: Cluster) -> list[str]:
    """The machines that a cluster was told to empty, in that order."""
    return [node for each in cluster.reclaims for node in each.nodes]


def counted(whole: Whole) -> Counter[str]:
    """All actions so far, by what became of them."""
    found: Counter[str] = Counter()
    for disposition in Disposition:
        for kind in ActionKind:
            labels = {"disposition": disposition.value, "kind": kind.value}
            found[disposition] += int(whole.metric("mainstay_shard_actions_total", **labels))
    return +found


class TestReclaimCap:
    @pytest.mark.parametrize(
        ("serving", "first", "second"), [(19, 1, 1), (39, 1, 1), (40, 2, 1), (60, 3, 2), (62, 3, 2)]
    )
    def test_a_tick_takes_a_twentieth_of_a_clusters_machines_and_at_least_one(
        self, tmp_path: Path, serving: int, first: int, second: int
    ) -> None:
        """Of what serves then: the rest comes with later ticks, a twentieth of what is left."""

        async def scenario() -> None:
            async with sims(an_instant_provider(idle=serving)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await served(web, whole, serving)
                    web.ask_for(0)
                    await asyncio.sleep(TICK_S - 2)
                    assert len(told(web)) == first
                    await asyncio.sleep(TICK_S)
                    assert len(told(web)) == first + second

        run(scenario())

    def test_each_cluster_has_its_own(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with (
                sims(an_instant_provider(idle=60)) as providers,
                running(tmp_path, providers) as whole,
                whole.cluster() as web,
                whole.cluster("batch") as batch,
            ):
                batch.ask_for(20)
                await served(web, whole, 40)
                web.ask_for(0)
                batch.ask_for(0)
                await asyncio.sleep(TICK_S - 2)
                assert (len(told(web)), len(told(batch))) == (2, 1)

        run(scenario())

    def test_the_head_of_the_order_runs_and_no_cycle_follows_because_of_the_rest(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=40)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await served(web, whole, 40)
                    before, dispositions = len(whole.cycles), counted(whole)
                    web.ask_for(10)
                    await asyncio.sleep(AT_ONCE_S)

                    assert len(whole.cycles) - before == 1
                    plan = whole.cycles[-1][1].thought.plan
                    reclaims = [a.machine for a in plan.actions if a.kind is ActionKind.RECLAIM]
                    assert len(reclaims) == 30
                    assert told(web) == reclaims[:2]
                    assert counted(whole) - dispositions == {"executed": 2, "capped": 28}

        run(scenario())

    def test_what_begins_while_a_cycle_looks_has_taken_its_share(self, tmp_path: Path) -> None:
        """The cycle finds it draining, and does not give its place to another."""

        async def scenario() -> None:
            async with sims(an_instant_provider(idle=100)) as providers:
                async with running(tmp_path, providers, workers=2) as whole, whole.cluster() as web:
                    web.ask_for(100)
                    await asyncio.sleep(10 * TICK_S)
                    await served(web, whole, 100)
                    link, reconciler = whole.links["sim"], whole.assembled.live.reconciler
                    send, look = link._send, reconciler.look

                    async def sent_slowly(call: Callable[..., Any], request: Any) -> Ack:
                        await asyncio.sleep(1)
                        return await send(call, request)

                    async def looked_slowly(*, patience_s: float) -> Looked:
                        await asyncio.sleep(5)
                        return await look(patience_s=patience_s)

                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(link, "_send", sent_slowly)
                        web.ask_for(0)
                        await asyncio.sleep(AT_ONCE_S)
                        assert len(whole.machines(State.DRAINING)) == 2
                        patch.setattr(reconciler, "look", looked_slowly)
                        whole.assembled.shard.wake()
                        await asyncio.sleep(TICK_S - 2)
                        assert len(told(web)) <= 5

        run(scenario())

    def test_what_another_need_takes_is_no_reclaim_and_is_not_capped(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with (
                sims(an_instant_provider(idle=40)) as providers,
                running(tmp_path, providers) as whole,
                whole.cluster() as web,
                whole.cluster("train") as train,
            ):
                await served(web, whole, 40)
                train.ask_for(10, priority=1000)
                await asyncio.sleep(AT_ONCE_S)
                assert [each.preemptor_priority for each in web.reclaims] == [1000] * 10

        run(scenario())


class TestLimit:
    @pytest.mark.parametrize(
        ("machines", "begun"), [(3, [3]), (4, [3, 1]), (6, [3, 3]), (7, [3, 3, 1])]
    )
    def test_what_is_above_it_waits_for_a_cycle_that_follows_at_once(
        self, tmp_path: Path, machines: int, begun: list[int]
    ) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=0, idle=9)) as providers:
                limit = {"actions_per_cycle_max": 3}
                async with running(tmp_path, providers, **limit) as whole, whole.cluster() as web:
                    await just_after_a_tick()
                    before = len(whole.cycles)
                    web.ask_for(machines)
                    await asyncio.sleep(AT_ONCE_S)
                    cycles = [cycled for _, cycled in whole.cycles[before:]]
                    assert [each.offered.accepted for each in cycles] == begun
                    waited = sum(machines - sum(begun[: n + 1]) for n in range(len(begun)))
                    assert counted(whole)[Disposition.DEFERRED] == waited

        run(scenario())


def in_zone(cluster: str, zone: str, machines: int, *, priority: int = 100) -> Need:
    where = (Requirement(ZONE_KEY, Operator.IN, (zone,)),)
    return Need(
        cluster=ClusterId(cluster),
        profile=NeedProfile(priority=priority, requirements=where),
        aggregate={"cpu": machines * UNIT_MILLI},
        min_unit={"cpu": UNIT_MILLI},
    )


class TestHeldBack:
    """Pause and shadow: the cycle runs in full, and nothing is done."""

    @pytest.mark.parametrize(
        ("settings", "disposition"),
        [
            ({"actuation_paused": True}, Disposition.SUPPRESSED),
            ({"dry_run": True}, Disposition.SHADOWED),
            ({"actuation_paused": True, "dry_run": True}, Disposition.SUPPRESSED),
        ],
    )
    def test_no_kind_of_action_reaches_a_provider_or_a_cluster(
        self, tmp_path: Path, settings: dict[str, bool], disposition: Disposition
    ) -> None:
        """All five are decided: there is something to join, buy, take, give up and release."""
        specs = (
            a_provider(slots=4, idle=1, name="east"),
            a_provider(slots=0, idle=2, name="west", zone="west-1"),
            a_provider(slots=2, idle=0, name="south", zone="south-1"),
        )

        async def scenario() -> None:
            async with sims(*map(at_once_of, specs)) as providers:
                async with running(tmp_path, providers) as whole:
                    async with whole.cluster("batch") as batch, whole.cluster("calm") as calm:
                        batch.roll_up([in_zone("batch", "west-1", 2, priority=10)])
                        calm.roll_up([in_zone("calm", "south-1", 2)])
                        await asyncio.sleep(20)
                        calm.roll_up([in_zone("calm", "south-1", 1)])
                        await asyncio.sleep(20)
                    assert len(whole.machines(State.CONFIGURED)) == 3
                async with AsyncExitStack() as stack:
                    whole = await stack.enter_async_context(
                        running(tmp_path, providers, hold_on_demand_s=60.0, **settings)
                    )
                    wanted = {
                        "batch": [in_zone("batch", "west-1", 2, priority=10)],
                        "calm": [],
                        "train": [in_zone("train", "west-1", 1, priority=1000)],
                        "web": [in_zone("web", OFFER.zone, 3)],
                    }
                    clusters = []
                    for name, rows in wanted.items():
                        clusters.append(await stack.enter_async_context(whole.cluster(name)))
                        clusters[-1].roll_up(rows)
                    await asyncio.sleep(90)

                    kinds = {record.order.action.kind for record in whole.journal.records()}
                    assert kinds == set(ActionKind)
                    assert whole.sent() == 0
                    for cluster in clusters:
                        assert not cluster.line.heard(BootstrapAsked)
                        assert not cluster.reclaims
                    assert counted(whole).keys() == {disposition}

        run(scenario())

    @pytest.mark.parametrize("settings", BOTH)
    def test_lists_hints_shortfalls_and_figures_go_on_and_nothing_spins(
        self, tmp_path: Path, settings: dict[str, bool]
    ) -> None:
        """Not even where a limit of actions would ask for a cycle at once."""

        async def scenario() -> None:
            async with sims(a_provider(slots=0, idle=4)) as providers:
                limited = {"actions_per_cycle_max": 1, **settings}
                async with running(tmp_path, providers, **limited) as whole:
                    async with whole.cluster() as web:
                        await just_after_a_tick()
                        before = len(whole.cycles)
                        web.ask_for(6)
                        await asyncio.sleep(AT_ONCE_S)
                        assert len(whole.cycles) - before == 1
                        await asyncio.sleep(5 * TICK_S - AT_ONCE_S)
                        assert len(whole.cycles) - before == 6  # one for the demand
                        view = ShardView(whole.assembled.live, at_once)
                        (short,) = (await view.shortfalls(ShortfallQuery())).rows
                        assert (short.age, short.missing) == (6, {"cpu": "4"})
                        assert whole.metric("mainstay_shard_shortfalls") == 1
                        assert web.line.heard(CapacityHint)[-1].count == 4

                        await providers["sim"].lose(whole.machines()[0].id)
                        await asyncio.sleep(2 * TICK_S)
                        assert len(whole.machines(State.IDLE)) == 3
                        assert len(whole.machines(State.SPECULATIVE)) == 1

        run(scenario())

    def test_what_is_executed_is_counted_as_nothing_else(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=3)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await served(web, whole, 3)
                    assert counted(whole) == {"executed": 3}

        run(scenario())


def control(kind: str, *, for_s: float = 1000, cluster: str = "") -> SetControlRequest:
    return SetControlRequest(kind=kind, cluster=cluster, reason="a test", by="ann", for_s=for_s)


def lifting(kind: str) -> LiftControlRequest:
    return LiftControlRequest(kind=kind, reason="over", by="ann")


async def counted_in(whole: Whole, seconds: float) -> set[str]:
    """Under what actions are counted that a while brings."""
    before = counted(whole)
    await asyncio.sleep(seconds)
    return {*(counted(whole) - before)}


class TestLiveControls:
    """They only restrict further, and they end."""

    def test_a_static_pause_is_neither_loosened_nor_lifted(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=2, idle=2)) as providers:
                paused = {"actuation_paused": True}
                async with running(tmp_path, providers, **paused) as whole, whole.cluster() as web:
                    controls = ShardControls(whole.assembled.live)
                    web.ask_for(3)
                    await controls.set_control(control("shadow"))
                    assert await counted_in(whole, 25) == {"suppressed"}
                    await controls.lift_control(lifting("shadow"))
                    with pytest.raises(Rejected, match="no such control is in force: pause"):
                        await controls.lift_control(lifting("pause"))
                    assert await counted_in(whole, 25) == {"suppressed"}
                    assert whole.sent() == 0

        run(scenario())

    def test_a_live_pause_wins_over_a_static_shadow_and_leaves_it_behind(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=2, idle=2)) as providers:
                shadow = {"dry_run": True}
                async with running(tmp_path, providers, **shadow) as whole, whole.cluster() as web:
                    controls = ShardControls(whole.assembled.live)
                    web.ask_for(3)
                    assert await counted_in(whole, 25) == {"shadowed"}
                    await controls.set_control(control("pause", for_s=100))
                    assert await counted_in(whole, 99) == {"suppressed"}
                    await asyncio.sleep(1)
                    assert await counted_in(whole, 25) == {"shadowed"}
                    assert whole.sent() == 0

        run(scenario())

    @pytest.mark.parametrize("kinds", [("pause", "shadow"), ("shadow", "pause")])
    @pytest.mark.parametrize("clusters", [("", ""), ("web", "web"), ("", "web"), ("web", "")])
    def test_of_two_live_ones_pause_wins_in_the_counting(
        self, tmp_path: Path, kinds: tuple[str, str], clusters: tuple[str, str]
    ) -> None:
        """Whichever came first, and whichever is of the whole shard."""

        async def scenario() -> None:
            async with sims(a_provider(slots=2, idle=2)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    controls = ShardControls(whole.assembled.live)
                    of = dict(zip(kinds, clusters, strict=True))
                    for kind, cluster in of.items():
                        await controls.set_control(control(kind, cluster=cluster))
                    web.ask_for(3)
                    assert await counted_in(whole, 15) == {"suppressed"}
                    await controls.lift_control(
                        dataclasses.replace(lifting("pause"), cluster=of["pause"])
                    )
                    assert await counted_in(whole, 15) == {"shadowed"}
                    assert whole.sent() == 0

        run(scenario())

    @pytest.mark.parametrize("kind", ["pause", "shadow"])
    def test_what_a_cluster_gives_up_is_released_while_whoever_would_get_it_is_held_back(
        self, tmp_path: Path, kind: str
    ) -> None:
        async def scenario() -> None:
            async with (
                sims(an_instant_provider(idle=40)) as providers,
                running(tmp_path, providers) as whole,
                whole.cluster("batch") as batch,
                whole.cluster() as web,
            ):
                await served(batch, whole, 40)
                controls = ShardControls(whole.assembled.live)
                await controls.set_control(control(kind, cluster="web"))
                web.ask_for(40)
                await just_after_a_tick()
                batch.ask_for(1)
                await asyncio.sleep(50 * TICK_S)
                plan = whole.cycles[-1][1].thought.plan
                assert {need.cluster for need in plan.needs} == {"batch", "web"}
                assert len(told(batch)) == 39
                assert len(whole.machines(State.IDLE)) == 39

        run(scenario())

    def test_a_tighter_cap_holds_for_its_time_and_one_that_is_none_is_refused(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=100)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    controls = ShardControls(whole.assembled.live)
                    await served(web, whole, 100)
                    for looser in (0.05, 0.5):
                        with pytest.raises(Rejected, match="can only restrict further"):
                            await controls.set_control(
                                dataclasses.replace(control("reclaim_cap"), value=looser)
                            )
                    await controls.set_control(
                        dataclasses.replace(control("reclaim_cap", for_s=TICK_S), value=0.02)
                    )
                    web.ask_for(0)
                    await asyncio.sleep(TICK_S - 2)
                    assert len(told(web)) == 2
                    await asyncio.sleep(TICK_S)  # a tick under it, and it ends
                    assert len(told(web)) == 2 + 1
                    await asyncio.sleep(TICK_S)
                    assert len(told(web)) == 2 + 1 + 4

        run(scenario())

    @pytest.mark.parametrize("set_by_s", [0.0, -25.0])
    def test_one_that_has_ended_is_told_once_and_comes_back_in_no_later_life(
        self, tmp_path: Path, set_by_s: float
    ) -> None:
        """Also where the clock is set back to when it was in force."""

        async def scenario() -> None:
            clock, ended = SettableClock(), list[str]()
            async with sims(an_instant_provider(idle=2)) as providers:
                async with running(tmp_path, providers, clock) as whole:
                    controls = ShardControls(whole.assembled.live)
                    await controls.set_control(control("pause", for_s=20))
                    await asyncio.sleep(30)
                    ended += whole.journal.of(Event.CONTROL_ENDED)
                clock.set_by_s = set_by_s
                for machines in (1, 2):
                    async with running(tmp_path, providers, clock) as whole:
                        async with whole.cluster() as web:
                            web.ask_for(machines)
                            await asyncio.sleep(14)
                            assert len(whole.machines(State.CONFIGURED)) == machines
                        ended += whole.journal.of(Event.CONTROL_ENDED)
            assert ended == ["pause"]

        run(scenario())
