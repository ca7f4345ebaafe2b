"""Sentences about how a whole shard follows what several providers report."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from builders import an_assignment
from mainstay.model.calls import Capabilities, ConfigureRequest, GetRequest, ListRequest
from mainstay.model.errors import Fenced, Unavailable
from mainstay.model.frames import BootstrapAsked
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.metadata import encode
from mainstay.model.profile import ZONE_KEY, CapacityType, Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State
from mainstay.processes.shard_pages import readiness
from mainstay.providers.sim.provider import Sim
from mainstay.providers.sim.spec import Pool, SimSpec
from mainstay.shard.events import Event
from meddled_links import MeddledLink, line, meddled_lines, quick
from shard_over_sim import OFFER
from virtual_loop import LoopClock, run
from whole_shard import Whole, a_provider, running, sims

__all__ = ["meddled_lines"]

EAST: Final = a_provider(slots=0, idle=6, name="east")
WEST: Final = a_provider(slots=8, name="west", seed=2, zone="west-1")
"""Dearer than what is idle in the east."""

FULL: Final = {"full_list_every": 1, "full_list_every_declared": 1}
"""The list of every tick is a full one."""

KINDS: Final = pytest.mark.parametrize(
    "settings", [pytest.param(FULL, id="full"), pytest.param({}, id="incremental")]
)


def sources(whole: Whole, *states: State) -> list[str]:
    """The providers of the machines in these states."""
    inventory = whole.assembled.live.inventory
    return sorted(inventory.source(machine.id) for machine in whole.machines(*states))


def of_the_east(whole: Whole) -> list[Machine]:
    inventory = whole.assembled.live.inventory
    return [each for each in whole.machines() if inventory.source(each.id) == "east"]


def lose(link: MeddledLink, how: str) -> None:
    """From now on its lists fail or hang; a call would get through all the same."""
    if how == "fails":
        link.refuses_lists = Unavailable("no route")
    else:
        link.full_list_takes_s = link.delta_takes_s = 1e9


async def until_gone(whole: Whole, machine: MachineId) -> None:
    for _ in range(200):
        if machine not in whole.assembled.live.inventory:
            return
        await asyncio.sleep(10)
    raise AssertionError(f"{machine} is still there")


class TestSeveralProviders:
    def test_each_is_asked_for_what_changed_since_its_own_last_list(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(EAST, WEST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(8)
                    await asyncio.sleep(200)
                    east, west = line(whole, "east"), line(whole, "west")
                    for each in (east, west):
                        asked = [request.since for request in each.lists]
                        assert asked == [b"", *each.cursors][: len(asked)]
                    assert not {*east.cursors} & {*west.cursors}

        run(scenario())

    @pytest.mark.parametrize("how", ["fails", "hangs"])
    def test_one_that_is_lost_delays_nobody_and_loses_nothing(
        self, tmp_path: Path, how: str
    ) -> None:
        """Ticks come on time, demand is decided at once and met elsewhere, and what it had stays
        to the last field: serving, idle, all of it.
        """

        async def scenario() -> None:
            async with sims(EAST, WEST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(2)
                    await asyncio.sleep(105)
                    assert sources(whole, State.CONFIGURED) == ["east"] * 2
                    east, before = line(whole, "east"), of_the_east(whole)
                    lose(east, how)
                    began = len(whole.cycles)
                    await asyncio.sleep(60)
                    calls = len(east.tried)
                    at_s = LoopClock().elapsed_s()
                    web.ask_for(4)
                    await asyncio.sleep(0.5)
                    acting = [w for w, each in whole.cycles if each.thought.plan.actions]
                    decided = [w for w in acting if w >= at_s]
                    assert decided[0] - at_s < 0.1
                    await asyncio.sleep(300)

                    assert sources(whole, State.CONFIGURED) == ["east"] * 2 + ["west"] * 2
                    assert of_the_east(whole) == before
                    assert len(east.tried) == calls
                    assert not whole.journal.of(Event.MACHINE_REMOVED)
                    ticks = {round(w, -1) for w, _ in whole.cycles[began:] if w % 10 < 1.1}
                    assert len(ticks) == 36
                    assert whole.metric("mainstay_shard_provider_answering", provider="east") == 0

        run(scenario())

    def test_a_release_through_one_that_is_lost_waits_until_it_is_back(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(EAST, WEST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(2)
                    await asyncio.sleep(205)
                    east = line(whole, "east")
                    east.refuses_lists = Unavailable("no route")
                    await asyncio.sleep(30)
                    web.ask_for(1)
                    await asyncio.sleep(60)
                    assert not web.reclaims
                    east.refuses_lists = None
                    await asyncio.sleep(60)
                    assert len(web.reclaims) == 1
                    assert whole.journal.of(Event.PROVIDER_BACK) == ["east"]

        run(scenario())

    def test_one_that_fences_us_is_obeyed_for_itself_alone(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(EAST, WEST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(15)
                    east = line(whole, "east")
                    east.refuses = lambda _: Fenced("somebody else's")
                    web.ask_for(2)
                    await asyncio.sleep(200)
                    live = whole.assembled.live
                    assert list(live.acting.providers) == ["east"]
                    assert not live.not_acting()
                    page = readiness(live)
                    assert (page.status, page.text) == (
                        200,
                        "ok; not acting through provider east: somebody else's\n",
                    )
                    assert sources(whole, State.CONFIGURED) == ["west"] * 2
                    assert len(east.tried) == len({each.request.machine for each in east.tried})
                    assert len(east.tried) <= 2
                    lists = len(east.lists)
                    await asyncio.sleep(100)
                    assert len(east.lists) - lists >= 10

        run(scenario())


class TestWhatIsGone:
    """A host that is lost leaves its record behind; the slot that takes its place is another."""

    @pytest.mark.parametrize(
        ("settings", "why"), [(FULL, "absent"), ({}, "tombstone")], ids=["full", "incremental"]
    )
    def test_it_is_removed_by_its_absence_or_by_a_tombstone(
        self, tmp_path: Path, settings: dict[str, Any], why: str
    ) -> None:
        async def scenario() -> None:
            async with sims(WEST) as providers:
                async with (
                    running(tmp_path, providers, **settings) as whole,
                    whole.cluster() as web,
                ):
                    web.ask_for(2)
                    await asyncio.sleep(300)
                    gone = whole.machines(State.CONFIGURED)[0].id
                    await providers["west"].lose(gone)
                    await until_gone(whole, gone)
                    await asyncio.sleep(200)
                    assert whole.journal.of(Event.MACHINE_REMOVED) == [why]
                    name = "mainstay_shard_machines_removed_total"
                    assert whole.metric(name, reason=why) == 1
                    assert web.states()[gone] is State.FAILED
                    assert len(whole.machines(State.CONFIGURED)) == 2

        run(scenario())

    def test_a_peer_without_tombstones_is_listed_in_full_every_thirtieth_cycle(
        self, tmp_path: Path
    ) -> None:
        """And only then it shows that something is gone."""

        async def scenario() -> None:
            async with sims(EAST) as providers, running(tmp_path, providers) as whole:
                east = line(whole, "east")
                east.declares = Capabilities(incremental=True)
                await asyncio.sleep(205)
                gone = whole.machines(State.IDLE)[0].id
                east.reports = lambda record: None if record.id == gone else record
                await asyncio.sleep(80)
                assert east.full_lists() == [0]
                assert gone in whole.assembled.live.inventory
                await asyncio.sleep(30)
                assert gone not in whole.assembled.live.inventory
                await asyncio.sleep(300)
                assert east.full_lists() == [0, 30, 60]

        run(scenario())

    @pytest.mark.parametrize("declared", [Capabilities(incremental=True), None])
    def test_however_often_a_step_under_way_has_us_look_a_full_list_comes_with_the_thirtieth_cycle(
        self, tmp_path: Path, declared: Capabilities | None
    ) -> None:
        """Whether the provider names what is gone or not, a machine that is Creating throughout
        costs a list of changes each second, and no full one.
        """

        async def scenario() -> None:
            settings = {"full_list_every_declared": 30, "decision_audit_every": 0}
            async with sims(EAST) as providers, running(tmp_path, providers, **settings) as whole:
                east = line(whole, "east")
                east.declares = declared
                await asyncio.sleep(1)
                await providers["east"].invent(whole.machines()[0].id, State.CREATING)
                await asyncio.sleep(1_004)
                assert len(whole.machines(State.CREATING)) == 1
                assert len(east.lists) > 900
                assert len(east.full_lists()) == 4

        run(scenario())

    def test_one_that_says_what_is_gone_is_listed_in_full_every_hour(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            settings = {"decision_audit_every": 0}
            async with sims(EAST) as providers, running(tmp_path, providers, **settings) as whole:
                await asyncio.sleep(3_655)
                assert line(whole, "east").full_lists() == [0, 360]

        run(scenario())

    @pytest.mark.parametrize(
        ("machines", "missing", "held"),
        [
            (40, 9, False), (40, 10, True), (100, 10, True), (101, 10, False),
            (9, 9, True), (5, 5, True), (3, 2, True), (1, 1, True), (3, 1, False), (5, 2, False),
        ],
    )  # fmt: skip
    def test_a_list_that_misses_a_large_share_is_held_until_it_repeats(
        self, tmp_path: Path, machines: int, missing: int, held: bool
    ) -> None:
        async def scenario() -> None:
            spec = a_provider(slots=0, idle=machines, name="east")
            async with sims(spec) as providers, running(tmp_path, providers, **FULL) as whole:
                await asyncio.sleep(25)
                east = line(whole, "east")
                away = {machine.id for machine in whole.machines()[:missing]}
                once = len(east.lists) + 1
                east.reports = lambda each: (
                    None if each.id in away and len(east.lists) == once else each
                )
                await asyncio.sleep(40)
                assert bool(whole.journal.of(Event.LIST_HELD)) is held
                removed = whole.metric("mainstay_shard_machines_removed_total", reason="absent")
                assert removed == (0 if held else missing)

                east.reports = lambda each: None if each.id in away else each
                await asyncio.sleep(60)
                assert len(whole.machines()) == machines - missing

        run(scenario())


OURS, THEIRS = OFFER.zone, "west-1"
SHARED: Final = SimSpec(
    pools=tuple(
        Pool(dataclasses.replace(OFFER, zone=zone), capacity, 3)
        for capacity in (CapacityType.RESERVED, CapacityType.ON_DEMAND)
        for zone in (OURS, THEIRS)
    ),
    name="sim",
)
"""In every list there is something of ours, and something of another shard's."""


class TestDomains:
    @KINDS
    def test_of_a_list_in_which_only_a_part_is_ours_only_that_is_taken_in(
        self, tmp_path: Path, settings: dict[str, Any]
    ) -> None:
        """Whatever is asked for, and whatever becomes of what is not ours."""
        domains = (f"{ZONE_KEY}={OURS}",)

        async def scenario() -> None:
            async with sims(SHARED) as providers:
                sim = providers["sim"]
                async with (
                    running(tmp_path, providers, domains=domains, **settings) as whole,
                    whole.cluster() as web,
                ):
                    await asyncio.sleep(15)
                    assert zones(whole.machines()) == Counter({OURS: 6})
                    web.ask_for(12)
                    await asyncio.sleep(300)
                    assert zones(whole.machines(State.CONFIGURED)) == Counter({OURS: 6})

                    known = {machine.id for machine in whole.machines()}
                    batch = await sim.provider.list(ListRequest(since=line(whole).cursors[-1]))
                    assert not len(batch)
                    for zone in (OURS, THEIRS):
                        await sim.lose(MachineId(f"{OFFER.instance_type}.{zone}.reserved.00001"))
                    changed = await sim.provider.list(ListRequest(since=batch.cursor))
                    told = [changed.machine(place) for place in range(len(changed))]
                    assert zones(told) == Counter({OURS: 1, THEIRS: 1})
                    await asyncio.sleep(300)
                    assert zones(whole.machines()) == Counter({OURS: 6})
                    assert len({machine.id for machine in whole.machines()} - known) == 1
                    asked = {each.request.machine for each in line(whole).tried}
                    assert not [name for name in asked if OURS not in name]

        run(scenario())


def zones(machines: Iterable[Machine]) -> Counter[str]:
    return Counter(machine.profile.zone for machine in machines)


class TestWhatIsTakenIn:
    @KINDS
    def test_what_has_not_changed_costs_nothing(
        self, tmp_path: Path, settings: dict[str, Any]
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=6, name="east")) as providers:
                async with (
                    running(tmp_path, providers, **settings) as whole,
                    whole.cluster() as web,
                ):
                    web.ask_for(3)
                    await asyncio.sleep(40)
                    inventory, began = whole.assembled.live.inventory, len(whole.cycles)
                    before = inventory.snapshot()
                    await asyncio.sleep(95)
                    seen = [each.looked for _, each in whole.cycles[began:]]
                    assert sum(looked.lists for looked in seen) >= 9
                    assert not any(looked.wrote for looked in seen)
                    assert inventory.snapshot() is before

        run(scenario())

    def test_drift_of_price_probability_label_and_size_is_taken_in_and_commits_nothing_else(
        self, tmp_path: Path
    ) -> None:
        def drifted(record: Machine) -> Machine:
            labels = (*record.profile.labels, ("team", "blue"))
            return dataclasses.replace(
                record,
                price_per_hour=7.5,
                interruption_probability=0.25,
                allocatable=Resources({"cpu": "3", "memory": "8Gi"}),
                profile=dataclasses.replace(record.profile, labels=tuple(sorted(labels))),
                shard_metadata=encode(an_assignment(priority=1)),
            )

        async def scenario() -> None:
            async with sims(quick(idle=6, name="east")) as providers:
                async with running(tmp_path, providers, **FULL) as whole, whole.cluster() as web:
                    web.ask_for(1)
                    await asyncio.sleep(40)
                    (before,) = whole.machines(State.CONFIGURED)
                    sent, told = whole.sent(), len(web.line.said)
                    line(whole, "east").reports = lambda each: (
                        drifted(each) if each.id == before.id else each
                    )
                    await asyncio.sleep(60)
                    after = whole.machine(before.id)
                    assert (after.price_per_hour, after.interruption_probability) == (7.5, 0.25)
                    assert ("team", "blue") in after.profile.labels
                    assert after.allocatable == Resources({"cpu": "3", "memory": "8Gi"})
                    assert after.assignment == before.assignment
                    assert (after.state, after.cluster) == (before.state, before.cluster)
                    assert (whole.sent(), len(web.line.said)) == (sent, told)

        run(scenario())

    def test_drift_is_taken_in_by_lists_of_what_changed_and_no_full_one_is_needed(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=6, name="east")) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(1)
                    await asyncio.sleep(40)
                    (before,) = whole.machines(State.CONFIGURED)
                    east, asked = line(whole, "east"), len(line(whole, "east").full_lists())
                    sent, told = whole.sent(), len(web.line.said)
                    await drift(
                        providers["east"],
                        before,
                        price_per_hour=7.5,
                        interruption_probability=0.25,
                        allocatable=Resources({"cpu": "3", "memory": "8Gi"}),
                        profile=labelled(before, "team", "blue"),
                    )
                    await asyncio.sleep(15)
                    after = whole.machine(before.id)
                    assert (after.price_per_hour, after.interruption_probability) == (7.5, 0.25)
                    assert ("team", "blue") in after.profile.labels
                    assert after.allocatable == Resources({"cpu": "3", "memory": "8Gi"})
                    assert after.assignment == before.assignment
                    assert (after.state, after.cluster) == (before.state, before.cluster)
                    assert (whole.sent(), len(web.line.said)) == (sent, told)
                    assert len(east.full_lists()) == asked

        run(scenario())

    @pytest.mark.parametrize(
        ("field", "value", "reason"),
        [
            ("price_per_hour", -0.01, "price"),
            ("interruption_probability", 1.01, "interruption_probability"),
        ],
    )
    def test_a_changed_record_that_cannot_be_is_counted_once_and_the_last_good_one_stays(
        self, tmp_path: Path, field: str, value: float, reason: str
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=4, name="east")) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(2)
                    await asyncio.sleep(30)
                    before = whole.machines(State.CONFIGURED)[0]
                    east, asked = line(whole, "east"), len(line(whole, "east").full_lists())
                    east.reports = lambda each: (
                        dataclasses.replace(each, **{field: value})  # type: ignore[arg-type]
                        if each.id == before.id
                        else each
                    )
                    await drift(providers["east"], before, price_per_hour=7.5)
                    await asyncio.sleep(15)
                    assert whole.machine(before.id) == before
                    counted = "mainstay_shard_machines_rejected_total"
                    assert whole.metric(counted, reason=reason) == 1
                    assert not whole.journal.of(Event.MACHINE_REMOVED)
                    east.reports = None
                    await drift(providers["east"], before, price_per_hour=8.5)
                    await asyncio.sleep(15)
                    assert whole.machine(before.id).price_per_hour == 8.5
                    assert len(east.full_lists()) == asked

        run(scenario())

    @pytest.mark.parametrize(
        ("field", "value", "reason"),
        [
            ("price_per_hour", -0.01, "price"),
            ("price_per_hour", float("nan"), "price"),
            ("interruption_probability", 1.01, "interruption_probability"),
            ("interruption_probability", -0.01, "interruption_probability"),
            ("host", None, "host"),
        ],
    )
    @pytest.mark.parametrize("state", [State.IDLE, State.CONFIGURED])
    def test_a_record_that_cannot_be_is_counted_and_the_last_good_one_stays(
        self, tmp_path: Path, state: State, field: str, value: object, reason: str
    ) -> None:
        """It counts as seen: however often it is refused, the machine is not taken for gone."""

        async def scenario() -> None:
            async with sims(quick(idle=4, name="east")) as providers:
                async with running(tmp_path, providers, **FULL) as whole, whole.cluster() as web:
                    web.ask_for(2)
                    await asyncio.sleep(30)
                    before = whole.machines(state)[0]
                    line(whole, "east").reports = lambda each: (
                        dataclasses.replace(each, **{field: value})  # type: ignore[arg-type]
                        if each.id == before.id
                        else each
                    )
                    await asyncio.sleep(60)
                    assert whole.machine(before.id) == before
                    counted = "mainstay_shard_machines_rejected_total"
                    assert whole.metric(counted, reason=reason) >= 5
                    assert not whole.journal.of(Event.MACHINE_REMOVED)

        run(scenario())

    def test_a_list_says_nothing_of_a_machine_that_is_in_our_hands(self, tmp_path: Path) -> None:
        """While a call is on its way there, the provider has the machine at Idle."""

        async def scenario() -> None:
            async with sims(EAST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    east = line(whole, "east")
                    east.declares = Capabilities()
                    await asyncio.sleep(15)
                    east.travel_s = {machine.id: 8.0 for machine in whole.machines()}
                    web.ask_for(1)
                    await asyncio.sleep(7.5)
                    (ours,) = whole.machines(State.CONFIGURING)
                    assert (
                        await providers["east"].server.get(GetRequest(ours.id))
                    ).state is State.IDLE
                    skipped = [each.looked.skipped for _, each in whole.cycles[-2:]]
                    assert sum(skipped) >= 1
                    await asyncio.sleep(100)
                    assert whole.machine(ours.id).state is State.CONFIGURED
                    assert len(east.attempts(ConfigureRequest)) == 1
                    assert len(web.line.heard(BootstrapAsked)) == 1

        run(scenario())

    def test_what_is_new_to_us_is_committed_as_its_metadata_says(self, tmp_path: Path) -> None:
        """Also where nothing of it is known but what the provider echoes."""

        async def scenario() -> None:
            async with sims(EAST) as providers:
                async with running(tmp_path / "a", providers) as whole, whole.cluster() as web:
                    web.ask_for(1, priority=77)
                    await asyncio.sleep(200)
                    (before,) = whole.machines(State.CONFIGURED)
                async with running(tmp_path / "b", providers) as whole:
                    east = line(whole, "east")
                    east.reports = lambda each: (
                        dataclasses.replace(each, shard_metadata=encode(an_assignment(priority=5)))
                        if each.id == before.id
                        else each
                    )
                    await asyncio.sleep(1)
                    assert before.assignment.priority == 77
                    assert whole.machine(before.id).assignment == an_assignment(priority=5)

        run(scenario())


class TestDoubtedLists:
    @pytest.mark.parametrize("window_s", [0.05, 0.5, 5.0])
    def test_a_list_that_is_empty_for_a_moment_takes_nothing_however_often_demand_wakes_us(
        self, tmp_path: Path, window_s: float
    ) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=40, name="east")) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    line(whole, "east").declares = Capabilities()
                    web.ask_for(20)
                    await asyncio.sleep(60)
                    assert len(whole.machines(State.CONFIGURED)) == 20
                    clock, first_s = LoopClock(), list[float]()

                    def empty_for_a_moment(record: Machine) -> Machine | None:
                        first_s.append(clock.elapsed_s())
                        return None if first_s[-1] - first_s[0] < window_s else record

                    line(whole, "east").reports = empty_for_a_moment
                    for turn in range(400):
                        web.ask_for(20 + turn % 2)
                        await asyncio.sleep(0.05)
                    assert whole.journal.of(Event.LIST_HELD)
                    assert not whole.journal.of(Event.MACHINE_REMOVED)

        run(scenario())

    @pytest.mark.parametrize("serving", [1, 2, 9])
    def test_a_few_that_serve_are_neither_replaced_nor_drained_for_one_empty_list(
        self, tmp_path: Path, serving: int
    ) -> None:
        async def scenario() -> None:
            providers = sims(quick(idle=serving, name="east"), quick(slots=9, name="west"))
            async with providers as both, running(tmp_path, both, **FULL) as whole:
                async with whole.cluster() as web:
                    web.ask_for(serving)
                    await asyncio.sleep(65)
                    before = whole.machines(State.CONFIGURED)
                    assert sources(whole, State.CONFIGURED) == ["east"] * serving
                    east, sent, told = line(whole, "east"), whole.sent(), len(web.line.said)
                    once = len(east.lists) + 1
                    east.reports = lambda each: None if len(east.lists) == once else each
                    await asyncio.sleep(400)
                    assert whole.journal.of(Event.LIST_HELD) == ["east"]
                    assert whole.machines(State.CONFIGURED) == before
                    assert (whole.sent(), len(web.line.said)) == (sent, told)

        run(scenario())

    def test_what_stays_away_is_removed_a_cycle_or_two_later(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(quick(idle=40, name="east")) as providers:
                async with running(tmp_path, providers) as whole:
                    await asyncio.sleep(25)
                    line(whole, "east").declares = Capabilities()
                    line(whole, "east").reports = lambda _: None
                    await asyncio.sleep(15)
                    assert len(whole.machines()) == 40
                    await asyncio.sleep(30)
                    assert whole.machines() == []

        run(scenario())


class TestSilence:
    def test_a_step_is_not_failed_because_its_provider_is_silent(self, tmp_path: Path) -> None:
        """What was being made when it went away is there when it is back, and serves."""

        async def scenario() -> None:
            async with sims(a_provider(slots=2, name="east")) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(5)
                    web.ask_for(2)
                    await asyncio.sleep(5)
                    assert len(whole.machines(State.CREATING)) == 2
                    east = line(whole, "east")
                    east.hangs = True
                    await asyncio.sleep(4_000)
                    assert len(whole.machines(State.CREATING)) == 2
                    assert whole.journal.of(Event.PROVIDER_LOST) == ["east"]
                    east.hangs = False
                    await asyncio.sleep(300)
                    assert len(whole.machines(State.CONFIGURED)) == 2
                    assert whole.journal.of(Event.STEP_OVERDUE) == []

        run(scenario())


async def drift(provider: Sim, machine: Machine, **facts: Any) -> None:
    """What an operator of the provider does to a machine that stays where it is."""
    ledger = provider.server._ledger
    ledger.refresh(dataclasses.replace(ledger.known(machine.id).machine, **facts))
    ledger.commit()


def labelled(machine: Machine, key: str, value: str) -> Profile:
    """Its profile with one label more."""
    labels = tuple(sorted((*machine.profile.labels, (key, value))))
    return dataclasses.replace(machine.profile, labels=labels)
