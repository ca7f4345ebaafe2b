"""Sentences about machines of a whole shard that fail in numbers, and about the ways back."""

import asyncio
import dataclasses
import math
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from mainstay.model.calls import ConfigureRequest, CreateRequest
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.frames import BootstrapAsked, NodeState
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.profile import CapacityType
from mainstay.model.questions import RetireRequest
from mainstay.model.state import State
from mainstay.providers.sim.latency import INSTANT
from mainstay.providers.sim.spec import Pool, SimSpec
from mainstay.shard.answers.view import ShardControls
from mainstay.shard.events import Event
from meddled_links import audited, line, meddled_lines, only, quick
from shard_over_sim import OFFER
from virtual_loop import run
from whole_shard import Whole, running, sims

__all__ = ["meddled_lines"]


def a_pool(kind: str, zone: str, slots: int, *, held: bool = True, dollars: float = 1.0) -> Pool:
    """Each kind in each zone is a rack of its own."""
    offer = dataclasses.replace(OFFER, instance_type=kind, zone=zone, dollars_per_hour=dollars)
    capacity = CapacityType.RESERVED if held else CapacityType.ON_DEMAND
    return Pool(offer, capacity, slots, (("row", f"{kind}/{zone}"),))


RACKS: Final = SimSpec(
    pools=(
        a_pool("one", "a", 18),
        a_pool("one", "a", 2, held=False),
        a_pool("two", "a", 20),
        a_pool("one", "b", 20),
        a_pool("two", "b", 20),
        a_pool("three", "c", 10, held=False, dollars=9.0),
    ),
    latencies=INSTANT,
)
"""20 machines in a rack, 40 in a zone and of a type; and far away some that are dear."""


class TestFailuresInNumbers:
    @pytest.mark.parametrize("fails", ["one too few", "enough"])
    @pytest.mark.parametrize(
        ("shared", "racks", "each"),
        [
            ("row", ["one/a"], 5),
            ("topology.kubernetes.io/zone", ["one/a", "two/a"], 4),
            ("node.kubernetes.io/instance-type", ["one/a", "one/b"], 4),
        ],
        ids=["rack", "zone", "type"],
    )
    def test_where_five_and_a_fifth_fail_nothing_more_is_acquired_and_elsewhere_it_is(
        self, tmp_path: Path, shared: str, racks: list[str], each: int, fails: str
    ) -> None:
        """Although it is dearer there."""
        opens = fails == "enough"

        async def scenario() -> None:
            async with sims(RACKS) as providers:
                async with (
                    running(tmp_path, providers, breaker_rack_label="row") as whole,
                    whole.cluster() as web,
                ):
                    web.ask_for(78)
                    await asyncio.sleep(60)
                    serving = whole.machines(State.CONFIGURED)
                    assert len(serving) == 78
                    bad = [name for rack in racks for name in in_rack(serving, rack)[:each]]
                    for name in bad if opens else bad[1:]:
                        await providers["sim"].invent(name, State.FAILED, why="burnt")
                    await asyncio.sleep(40)
                    assert whole.journal.of(Event.BREAKER_OPENED) == ([shared] if opens else [])
                    bought = {each.machine[0] for each in line(whole).attempts(CreateRequest)}
                    assert bought == ({"t"} if opens else {"o", "t"})  # type three, type one
                    assert len(whole.machines(State.CONFIGURED)) == 78

        run(scenario())

    def test_after_a_while_it_is_tried_again_and_if_that_fails_not_for_twice_as_long(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=40)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    link = line(whole)
                    link.refuses = only(ConfigureRequest, Rejected("dead disk"))
                    web.ask_for(10)
                    await asyncio.sleep(170)
                    first, again = tries(whole)
                    assert 60 <= again - first <= 60 + TICK_S
                    assert not whole.machines(State.CONFIGURED)
                    places = {*whole.journal.of(Event.BREAKER_OPENED)}
                    assert places >= {"topology.kubernetes.io/zone"}
                    link.refuses = lambda _: None
                    await asyncio.sleep(100)

                    _, again, last = tries(whole)
                    assert 120 <= last - again <= 120 + TICK_S
                    assert len(whole.machines(State.CONFIGURED)) == 10
                    opened, closed = (
                        whole.journal.of(event)
                        for event in (Event.BREAKER_OPENED, Event.BREAKER_CLOSED)
                    )
                    assert sorted(opened) == sorted(closed) == sorted([*places] * 2)

        run(scenario())


TICK_S: Final = 10.0


def tries(whole: Whole) -> list[float]:
    """When the shard began anew to have machines configured, after at least half a minute."""
    times = [each.at_s for each in line(whole).tried if isinstance(each.request, ConfigureRequest)]
    return [at for before, at in pairwise([-math.inf, *times]) if at - before > 30]


def in_rack(machines: list[Machine], rack: str) -> list[MachineId]:
    return [each.id for each in machines if ("row", rack) in each.profile.labels]


class TestRetire:
    """A Failed machine, mended: nobody has told us, since for its provider nothing has changed."""

    @staticmethod
    async def failed_and_mended(whole: Whole) -> Machine:
        link = line(whole)
        link.refuses = only(ConfigureRequest, Rejected("dead disk"))
        link.reports = lambda each: dataclasses.replace(
            each, state=State.FAILED, last_error="dead disk"
        )
        await asyncio.sleep(25)
        link.refuses, link.reports = (lambda _: None), None
        await asyncio.sleep(60)
        (machine,) = whole.machines()
        assert machine.state is State.FAILED
        return machine

    def test_its_record_is_given_up_and_it_is_admitted_again_as_reported_and_serves(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    web.ask_for(1)
                    machine = await self.failed_and_mended(whole)
                    lines = audited(whole)
                    retired = await ShardControls(whole.assembled.live).retire(
                        RetireRequest(machine=machine.id, reason="a new disk", by="ann")
                    )
                    assert (retired.machine, retired.last_error) == (machine.id, machine.last_error)
                    assert machine.id not in whole.assembled.live.inventory
                    await asyncio.sleep(11)  # by the next tick
                    assert machine.id in whole.assembled.live.inventory
                    await asyncio.sleep(10)
                    after = whole.machine(machine.id)
                    assert (after.state, after.cluster) == (State.CONFIGURED, web.name)
                    assert not after.last_error
                    name = "mainstay_shard_machines_retired_total"
                    assert whole.metric(name, reason="asked") == 1
                    (told,) = [e for e in lines.contents if e.get("event") == "machine_retired"]
                    facts = told["facts"]
                    assert isinstance(facts, dict)
                    assert (facts["why"], facts["by"]) == ("a new disk", "ann")

        run(scenario())

    def test_one_that_is_failed_there_too_is_failed_again(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    web.ask_for(1)
                    machine = await self.failed_and_mended(whole)
                    line(whole).reports = lambda each: dataclasses.replace(
                        each, state=State.FAILED, last_error="still dead"
                    )
                    whole.assembled.live.retire(machine.id, reason="try", by="ann")
                    await asyncio.sleep(11)
                    after = whole.machine(machine.id)
                    assert (after.state, after.last_error) == (State.FAILED, "still dead")

        run(scenario())

    def test_one_that_its_provider_no_longer_has_is_gone(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    web.ask_for(1)
                    machine = await self.failed_and_mended(whole)
                    line(whole).unknown.add(machine.id)
                    whole.assembled.live.retire(machine.id, reason="scrapped", by="ann")
                    await asyncio.sleep(30)
                    assert not whole.machines()

        run(scenario())

    def test_while_its_provider_is_away_it_waits_and_then_it_comes(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    web.ask_for(1)
                    machine = await self.failed_and_mended(whole)
                    line(whole).refuses_lists = Unavailable("no route")
                    await asyncio.sleep(30)
                    whole.assembled.live.retire(machine.id, reason="a new disk", by="ann")
                    await asyncio.sleep(60)
                    assert not whole.machines()
                    line(whole).refuses_lists = None
                    await asyncio.sleep(60)
                    assert whole.machine(machine.id).state is State.CONFIGURED

        run(scenario())

    def test_no_other_machine_is_retired(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers, running(tmp_path, providers) as whole:
                await asyncio.sleep(15)
                (machine,) = whole.machines()
                live = whole.assembled.live
                with pytest.raises(Rejected, match="only a Failed machine can be retired"):
                    live.retire(machine.id, reason="r", by="ann")
                with pytest.raises(Rejected, match="no-such-machine"):
                    live.retire(MachineId("no-such-machine"), reason="r", by="ann")
                assert whole.machines() == [machine]
                assert not whole.journal.of(Event.MACHINE_RETIRED)

        run(scenario())

    def test_nor_one_that_is_in_the_hands_of_an_action(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    web.ask_for(1)
                    machine = await self.failed_and_mended(whole)
                    assert whole.assembled.live.ledger.take(machine.id)
                    with pytest.raises(Unavailable, match="in the hands of an action"):
                        whole.assembled.live.retire(machine.id, reason="r", by="ann")
                    assert whole.machines() == [machine]

        run(scenario())


class TestWhereNoEdgeLeads:
    @pytest.mark.parametrize(
        "settings",
        [
            pytest.param({"full_list_every_declared": 1}, id="full"),
            pytest.param({}, id="incremental"),
        ],
    )
    def test_the_record_is_retired_and_the_machine_admitted_again_as_reported(
        self, tmp_path: Path, settings: dict[str, Any]
    ) -> None:
        """With an audit line and a counter, and its cluster is told."""

        async def scenario() -> None:
            async with sims(quick(idle=6, name="east")) as providers:
                async with (
                    running(tmp_path, providers, **settings) as whole,
                    whole.cluster() as web,
                ):
                    web.ask_for(1)
                    await asyncio.sleep(40)
                    (before,) = whole.machines(State.CONFIGURED)
                    lines = audited(whole)
                    await providers["east"].invent(before.id, State.CREATING)
                    await asyncio.sleep(25)
                    after = whole.machine(before.id)
                    assert (after.state, after.cluster) == (State.CREATING, None)
                    assert not after.assignment
                    name = "mainstay_shard_machines_retired_total"
                    assert whole.metric(name, reason="illegal_edge") == 1
                    assert whole.metric("mainstay_shard_machines_admitted_again_total") == 1
                    told = [each.get("event") for each in lines.contents]
                    assert {"machine_retired", "machine_admitted_again"} <= {*told}
                    last = [e for e in web.line.heard(NodeState) if e.machine == before.id][-1]
                    assert (last.state, last.last_error) == (State.FAILED, "gone")
                    assert len(web.line.heard(BootstrapAsked)) == 2  # another takes its place

        run(scenario())
