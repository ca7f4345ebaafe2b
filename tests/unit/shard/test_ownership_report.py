"""What a shard tells the coordinator of itself."""

from typing import Final

import pytest

from builders import a_machine, a_profile
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.inventory.inventory import Inventory
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment
from mainstay.model.coordination import Domain, FreeRow, Handed, ServingRow, ShardReport, Stray
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId, ShardId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.state import State
from mainstay.shard.ownership import report
from mainstay.shard.ownership.owned import Owned
from mainstay.wire.coordinator_codec import report_to_wire

WEB: Final = ClusterId("web")
ZONE_A: Final = Domain("zone", "a")


def inventory(*machines: Machine, source: str = "metal") -> Inventory:
    made = Inventory()
    for machine in machines:
        made.add(machine, now=0.0, source=source)
    return made


def some(
    state: State, count: int, zone: str = "zone-a", *, held: Assignment = NO_ASSIGNMENT
) -> list[Machine]:
    return [
        a_machine(
            state, id=f"{zone}-{state.name}-{n}", profile=a_profile(zone=zone), assignment=held
        )
        for n in range(count)
    ]


def a_plan(*needs: Need, quota: Quota = NO_QUOTA, machines: list[Machine] | None = None) -> Plan:
    snapshot = inventory(*machines or []).snapshot()
    demand = Demand(tuple(needs), frozenset({WEB}), quota)
    return decide(snapshot, demand, Memory.empty(), Policy(), 0.0)


def a_need(
    *requirements: Requirement, unit: int = 1000, priority: int = 0, bucket: int = 0
) -> Need:
    return Need(
        cluster=WEB,
        profile=NeedProfile(
            requirements=requirements, priority=priority, interruption_penalty_bucket=bucket
        ),
        aggregate={"cpu": 4 * unit},
        min_unit={"cpu": unit},
    )


class TestSummary:
    def test_machines_are_counted_by_type_zone_and_provider(self) -> None:
        machines = [
            *some(State.IDLE, 2),
            *some(State.SPECULATIVE, 3),
            *some(State.IDLE, 1, "zone-b"),
        ]
        told = report.summary(inventory(*machines, *some(State.CONFIGURED, 4)).snapshot())

        kind = a_profile().instance_type
        assert (told.total_machines, told.free_machines) == (10, 6)
        assert told.by_instance_type == {kind: 10}
        assert told.by_zone == {"zone-a": 9, "zone-b": 1}
        assert told.free == (
            FreeRow("metal", kind, "zone-a", 2, 3),
            FreeRow("metal", kind, "zone-b", 1, 0),
        )

    def test_what_serves_is_counted_by_what_it_is_worth(self) -> None:
        low = Assignment(priority=5, interruption_penalty_dollars=0.0)
        high = Assignment(priority=9, interruption_penalty_dollars=4.0)
        machines = [
            *some(State.CONFIGURED, 2, held=low),
            *some(State.CONFIGURED, 1, "zone-b", held=high),
        ]
        told = report.summary(inventory(*machines).snapshot())

        kind = a_profile().instance_type
        assert told.serving == (
            ServingRow("metal", kind, "zone-a", 5, 1, 2),
            ServingRow("metal", kind, "zone-b", 9, 5, 1),
        )

    def test_rows_are_bounded_and_the_largest_are_told(self) -> None:
        zones = [f"z-{number:04d}" for number in range(report.ROWS_MAX + 5)]
        machines = [m for zone in zones for m in some(State.IDLE, 2 - (zone < "z-0005"), zone)]
        told = report.summary(inventory(*machines).snapshot())

        assert len(told.free) == report.ROWS_MAX
        assert {row.zone for row in told.free} == set(zones[5:])

    def test_a_shard_without_machines_says_so(self) -> None:
        told = report.summary(Inventory().snapshot())

        assert (told.total_machines, told.free, told.serving) == (0, (), ())


class TestMissing:
    def test_a_shortfall_says_what_one_machine_must_hold(self) -> None:
        need = a_need(unit=2000, priority=7, bucket=3)
        [told] = report.missing(a_plan(need))

        assert told.deficit == {"cpu": 8000}
        assert told.min_unit == {"cpu": 2000}
        assert (told.priority, told.interruption_penalty_bucket, told.age_cycles) == (7, 3, 1)
        assert told.fingerprint == need.profile.fingerprint
        assert not told.topology
        assert not told.quota

    def test_machines_that_must_agree_never_cross_shards(self) -> None:
        [told] = report.missing(a_plan(a_need(Requirement("rack", Operator.SAME))))

        assert told.topology

    def test_what_quota_alone_stops_says_so(self) -> None:
        plan = a_plan(a_need(), quota=Quota({WEB: 0}, {}), machines=some(State.IDLE, 4))
        [told] = report.missing(plan)

        assert told.quota

    def test_a_shard_that_misses_nothing_says_nothing(self) -> None:
        assert report.missing(a_plan(a_need(), machines=some(State.IDLE, 4))) == ()


def test_domains_and_strays_are_told_in_order() -> None:
    names = [MachineId("m-2"), MachineId("m-1")]
    strays = {name: Stray(name, "metal", None, leaving=False) for name in names}
    owned = Owned(domains=frozenset({Domain("zone", "b"), ZONE_A}), here=strays)

    assert report.domains(owned) == (ZONE_A, Domain("zone", "b"))
    assert [stray.machine for stray in report.strays(owned)] == ["m-1", "m-2"]
    assert report.domains(Owned()) == ()


def test_what_others_have_is_told_with_who_reports_it_where_that_is_known() -> None:
    names = [MachineId(name) for name in ("m-2", "m-1")]
    owned = Owned(away=dict.fromkeys(names, ZONE_A), away_providers={names[0]: "metal"})

    assert report.away(owned) == (
        Handed(names[1], "", ZONE_A),
        Handed(names[0], "metal", ZONE_A),
    )


def test_of_very_many_the_first_are_told_as_far_as_there_is_room() -> None:
    """A report that is too large would not be heard, and what we have matters more."""
    many = [MachineId(f"m-{number:06}") for number in range(report.NAMED_MAX + 5)]
    away = dict.fromkeys(reversed(many), ZONE_A)
    strays = {name: Stray(name, "p" * 40, ZONE_A, leaving=True) for name in many[:-5]}

    assert [each.machine for each in report.away(Owned(away=away))] == many[:-5]
    told = report.away(Owned(away=away, here=strays))
    assert 0 < len(told) < report.NAMED_MAX
    assert [each.machine for each in told] == many[: len(told)]
    full = ShardReport(shard=ShardId("a"), away=told, strays=tuple(strays.values()))
    assert len(report_to_wire(full)) < report.NAMED_BYTES_MAX
    report.check_strays(Owned(here=strays))
    more = strays | {many[-1]: Stray(many[-1], "p", ZONE_A, leaving=True)}
    with pytest.raises(Rejected, match=r"10001 machines .* drain or move machines first"):
        report.check_strays(Owned(here=more))
