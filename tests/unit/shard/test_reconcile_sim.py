"""Reconciling against the simulated provider: lists that lie, acks that are lost, hosts that go."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from builders import an_assignment
from mainstay.model.calls import (
    ConfigureRequest,
    CreateRequest,
    DrainRequest,
    ListRequest,
)
from mainstay.model.errors import MainstayError
from mainstay.model.ids import MachineId
from mainstay.model.metadata import encode
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.providers.kit.options import Options
from mainstay.providers.sim.latency import INSTANT
from mainstay.providers.sim.offers import choose, small_catalog
from mainstay.providers.sim.provider import Sim, simulated
from mainstay.providers.sim.spec import Pool, SimSpec
from mainstay.shard.events import Event
from mainstay.shard.lists.feeds import FeedOptions
from reconciling import SimLink, World, world
from virtual_loop import LoopClock, run

OFFER = choose(small_catalog(), ["m5.large"])[0]
ECHO = encode(an_assignment())

Scenario = Callable[[World, Sim], Awaitable[None]]


def play(
    scenario: Scenario,
    *,
    slots: int = 40,
    capacity: CapacityType = CapacityType.ON_DEMAND,
    seed: int = 1,
    serves: int = 0,
    feed_options: FeedOptions | None = None,
    **faults: str,
) -> None:
    """A shard's reconciling half over one simulated cloud."""

    async def whole() -> None:
        spec = SimSpec(pools=(Pool(OFFER, capacity, slots),), latencies=INSTANT, seed=seed)
        options = Options(reconcile_interval_s=30.0)
        async with simulated(spec, LoopClock(), options=options) as sim:
            async with world(SimLink(sim), feed_options=feed_options) as w:
                await w.first()
                if serves:
                    await serving(sim, serves)
                    await w.cycles(3)
                    w.diary.lines.clear()
                    w.ends.losses.clear()
                sim.change(faults)
                await scenario(w, sim)

    run(whole())


ALWAYS_FULL = FeedOptions(full_every_declared=1, full_every=1)
KINDS = pytest.mark.parametrize(
    "options", [pytest.param(ALWAYS_FULL, id="full"), pytest.param(None, id="incremental")]
)


async def serving(sim: Sim, count: int = 1) -> list[MachineId]:
    """So many machines joined to a cluster, by whatever hand."""
    names = [machine.id for machine in (await sim.server.list(ListRequest())).machines][:count]
    for name in names:
        await sim.server.create(CreateRequest(name))
        await asyncio.sleep(1)
        await sim.server.configure(ConfigureRequest(name, "web", metadata=ECHO))
    await asyncio.sleep(5)
    return names


async def drain(sim: Sim, name: str) -> None:
    await sim.server.drain(DrainRequest(name))


async def configure(sim: Sim, name: str) -> None:
    await sim.server.configure(ConfigureRequest(name, "web", metadata=ECHO))


async def agree(w: World, sim: Sim) -> None:
    """What we have is what the provider has, to the last field but the assignment."""
    theirs = {machine.id: machine for machine in (await sim.server.list(ListRequest())).machines}
    ours = {name: w.inventory.machine(name) for name in w.inventory.ids()}
    for name, machine in ours.items():
        there = dataclasses.replace(theirs[name], shard_metadata={}, assignment=machine.assignment)
        assert machine == there
    assert ours.keys() == theirs.keys()


class TestAgreement:
    @KINDS
    def test_the_inventory_follows_every_step_of_a_provider(
        self, options: FeedOptions | None
    ) -> None:
        async def scenario(w: World, sim: Sim) -> None:
            names = await serving(sim, 5)
            await w.cycles(3)
            assert [w.state(name) for name in names] == [State.CONFIGURED] * 5
            assert w.inventory.machine(names[0]).assignment == an_assignment()
            for name in names:
                await sim.server.drain(DrainRequest(name))
            await w.cycles(3)
            assert [w.state(name) for name in names] == [State.IDLE] * 5
            await agree(w, sim)

        play(scenario, feed_options=options)

    @pytest.mark.parametrize("seed", [1, 2, 3])
    @KINDS
    def test_whatever_lies_and_losses_there_were_in_the_end_it_is_what_the_provider_says(
        self, options: FeedOptions | None, seed: int
    ) -> None:
        async def scenario(w: World, sim: Sim) -> None:
            dice = Random(seed)
            names = [machine.id for machine in (await sim.server.list(ListRequest())).machines]
            for _ in range(60):
                await stir(w, sim, dice.choice(names), dice)
                await w.cycles(1, every_s=dice.uniform(0.5, 12.0))
            calm = dict.fromkeys(("partial_lists", "stale_lists", "lost_acks"), "0")
            sim.change(calm | {"losses_per_hour": "0"})
            for name in list(w.ledger._held):
                w.ledger.give_back(name)
            # A machine that was given up several times takes a quarter of an hour, and a change
            # that a bad line has swallowed waits for the next full list.
            await asyncio.sleep(1800)
            w.feeds["sim"].ask(full=True)
            await w.cycles(4)
            await agree(w, sim)
            assert w.reconciler.heard.owed == 0

        play(
            scenario,
            seed=seed,
            feed_options=options,
            partial_lists="0.1",
            stale_lists="0.2",
            lost_acks="0.3",
            losses_per_hour="2",
        )


async def stir(w: World, sim: Sim, name: MachineId, dice: Random) -> None:
    """One thing that happens to a machine: by our hand, by another's, or by nobody's."""
    if name not in w.inventory or not w.ledger.take(name):
        return
    kind = dice.randrange(4)
    try:
        if kind == 0 and w.state(name) is State.SPECULATIVE:
            w.moves.to(name, State.CREATING)
            await sim.provider.create(CreateRequest(name))
        elif kind == 1 and w.state(name) is State.IDLE:
            w.moves.to(name, State.CONFIGURING, cluster="web")
            await sim.provider.configure(ConfigureRequest(name, "web", metadata=ECHO))
        elif kind == 2 and w.state(name) is State.CONFIGURED:
            w.moves.to(name, State.DRAINING)
            await sim.provider.drain(DrainRequest(name))
        elif kind == 3:
            await sim.lose(name)
    except MainstayError as error:
        w.moves.fail(name, error.message)
    w.ledger.give_back(name)


class TestFaults:
    def test_lists_with_holes_take_nothing_away(self) -> None:
        """Each misses a third of the machines, and no two the same third."""

        async def scenario(w: World, sim: Sim) -> None:
            await serving(sim, 3)
            await w.cycles(40)
            assert len(w.inventory) == 200
            assert w.diary.count(Event.LIST_HELD, "sim") > 10
            assert w.diary.count(Event.MACHINE_REMOVED) == 0
            assert w.ends.failures == []

        play(scenario, slots=200, feed_options=ALWAYS_FULL, partial_lists="0.33")

    def test_an_old_list_is_asked_for_again(self) -> None:
        async def scenario(w: World, sim: Sim) -> None:
            name = w.inventory.ids()[0]
            for turn in range(40):
                await (configure if turn % 2 else drain)(sim, name)
                await w.cycles(2, every_s=6.0)
            sim.change({"stale_lists": "0"})
            await w.cycles(2)
            await agree(w, sim)
            assert w.state(name) is State.CONFIGURED

        play(scenario, serves=1, feed_options=ALWAYS_FULL, stale_lists="0.3")

    @KINDS
    def test_a_step_whose_ack_was_lost_is_found_done(self, options: FeedOptions | None) -> None:
        """We gave the machine up; the provider had done what it was asked."""

        async def scenario(w: World, sim: Sim) -> None:
            name = w.inventory.ids()[0]
            w.ledger.take(name)
            w.moves.to(name, State.CONFIGURING, cluster="web")
            with pytest.raises(MainstayError) as lost:
                await sim.provider.configure(ConfigureRequest(name, "web", metadata=ECHO))
            w.moves.fail(name, lost.value.message)
            w.ledger.give_back(name)
            assert w.clusters.states("web", name)[-1] is State.FAILED
            await w.cycles(3)
            assert w.inventory.machine(name).state is State.CONFIGURED
            assert w.inventory.machine(name).assignment == an_assignment()
            assert w.clusters.states("web", name)[-1] is State.CONFIGURED
            assert w.diary.count(Event.MACHINE_RETIRED, "illegal_edge") == 1

        reserved = CapacityType.RESERVED
        play(scenario, capacity=reserved, feed_options=options, lost_acks="1.0")

    @KINDS
    def test_a_host_that_is_lost_while_it_serves_is_told_to_its_cluster_and_counted(
        self, options: FeedOptions | None
    ) -> None:
        async def scenario(w: World, sim: Sim) -> None:
            name = w.inventory.ids()[0]
            await sim.lose(name)
            await w.cycles(3)
            await agree(w, sim)
            assert name not in w.inventory  # its slot is there under another name
            assert w.clusters.states("web", name)[-1] is State.FAILED
            assert w.clusters.told[-1][1].last_error == "gone"
            assert w.ends.losses == [(name, "sim")]

        play(scenario, serves=1, feed_options=options)

    @KINDS
    def test_an_invented_state_is_not_forced(self, options: FeedOptions | None) -> None:
        async def scenario(w: World, sim: Sim) -> None:
            name = w.inventory.ids()[0]
            await sim.invent(name, State.FAILED, why="firmware")
            await w.cycles(3)
            await agree(w, sim)
            assert w.diary.count(Event.MACHINE_RETIRED, "illegal_edge") == 1
            assert w.diary.count(Event.MACHINE_ADMITTED_AGAIN) == 1
            assert w.ends.losses == [(name, "sim")]

        play(scenario, serves=1, feed_options=options)

    @KINDS
    def test_a_spot_host_that_will_go_is_noticed_before_it_goes(
        self, options: FeedOptions | None
    ) -> None:
        async def scenario(w: World, sim: Sim) -> None:
            names = await serving(sim, 10)
            seen: set[MachineId] = set()
            for _ in range(2000):
                await w.cycles(1)
                seen |= set(w.reconciler.heard.notices)
                assert all(name in w.inventory for name in w.reconciler.heard.notices)
                if w.ends.losses:
                    break
            lost = {MachineId(name) for name, _ in w.ends.losses}
            assert lost
            assert lost <= seen <= set(names)
            assert w.diary.count(Event.INTERRUPTION_NOTICED) >= len(lost)

        play(
            scenario,
            capacity=CapacityType.SPOT,
            feed_options=options,
            interruptions="5",
            notice_s="120",
        )
