"""What would change if: zones lost, prices raised, more or less asked, another quota."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pytest

from builders import a_machine, a_need, a_need_profile, a_profile
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.engine.quota import Quota
from mainstay.engine.trial import memory_before
from mainstay.engine.whatif import (
    Difference,
    LessNeed,
    MachinesLost,
    MoreNeed,
    NeedChange,
    PriceTimes,
    QuotaSet,
    Selector,
    WhatIf,
    ZoneLost,
    changed,
    whatif,
    whatif_of,
)
from mainstay.inventory.columns import HOT
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NeedRef
from mainstay.model.errors import Rejected, UnknownMachine
from mainstay.model.ids import ClusterId, Fingerprint, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, Operator, Requirement
from mainstay.model.profile import ZONE_KEY, CapacityType
from mainstay.model.state import State

NOW = 1_000.0
WEB = ClusterId("web")
IN_ZONE_A = Selector(requirements=(Requirement(ZONE_KEY, Operator.IN, ("zone-a",)),))


def stocked(machines: Iterable[Machine]) -> Snapshot:
    inventory = Inventory()
    for machine in machines:
        inventory.add(machine, now=NOW, source="metal")
    return inventory.snapshot()


def a_fleet() -> list[Machine]:
    """Two serving machines in zone a, an idle one in zone a and one in zone b."""
    shapes = {
        "c-1": (State.CONFIGURED, "zone-a"), "c-2": (State.CONFIGURED, "zone-a"),
        "i-1": (State.IDLE, "zone-a"), "i-2": (State.IDLE, "zone-b"),
    }  # fmt: skip
    return [
        a_machine(state, id=name, profile=a_profile(zone=zone), price_per_hour=1.0)
        for name, (state, zone) in shapes.items()
    ]


def wanting(cores: int) -> Need:
    return a_need(cluster=WEB, aggregate={"cpu": cores * 1000})


def asking(*needs: Need, quota: Quota | None = None) -> Demand:
    demand = Demand(needs, frozenset({WEB}))
    return demand if quota is None else dataclasses.replace(demand, quota=quota)


def differs(
    changes: Sequence[WhatIf], demand: Demand, machines: Iterable[Machine] | None = None
) -> Difference:
    snapshot = stocked(a_fleet() if machines is None else machines)
    return whatif(snapshot, demand, Memory.empty(), Policy(), NOW, changes=changes)


class TestMachines:
    def test_a_lost_zone_leaves_a_need_short_by_what_is_gone(self) -> None:
        told = differs([ZoneLost("zone-a")], asking(wanting(16)))

        assert told.unsatisfied == (NeedChange(wanting(16).ref, {}, {"cpu": 8000}),)
        assert told.satisfied == told.moved == ()
        assert (told.actions_before, told.actions_after) == ({}, {ActionKind.BOOTSTRAP: 1})
        assert (told.cost_before, told.cost_after) == (2.0, 1.0)

    def test_machines_are_lost_by_name(self) -> None:
        told = differs([MachinesLost((MachineId("c-1"),))], asking(wanting(16)))

        assert told.actions_after == {ActionKind.BOOTSTRAP: 1}
        assert told.unsatisfied == ()

    def test_machines_are_lost_by_what_they_are(self) -> None:
        idle = Selector(states=frozenset({State.IDLE}))
        spot = Selector(capacity_types=frozenset({CapacityType.SPOT}))

        told = differs([MachinesLost(idle)], asking(wanting(24)))

        assert told.unsatisfied == (NeedChange(wanting(24).ref, {}, {"cpu": 8000}),)
        with pytest.raises(Rejected, match="no machine has "):
            differs([MachinesLost(spot)], asking())

    def test_a_machine_that_is_not_there_cannot_be_lost(self) -> None:
        with pytest.raises(UnknownMachine, match="no machine m-9"):
            differs([MachinesLost((MachineId("m-9"),))], asking())

    def test_a_zone_that_nobody_is_in_cannot_be_lost(self) -> None:
        with pytest.raises(Rejected, match="zone-z"):
            differs([ZoneLost("zone-z")], asking())

    def test_what_no_machine_has_is_left_out_and_told_beside_other_changes(self) -> None:
        elsewhere, both = ZoneLost("zone-z"), [ZoneLost("zone-z"), ZoneLost("zone-a")]

        told = differs(both, asking(wanting(16)))

        assert told.unmatched == (elsewhere.which,)
        without = dataclasses.replace(told, unmatched=())
        assert without == differs([ZoneLost("zone-a")], asking(wanting(16)))

    def test_what_another_change_has_taken_is_no_mistake(self) -> None:
        dearer = PriceTimes(IN_ZONE_A, 2.0)

        told = differs([ZoneLost("zone-a"), dearer], asking(wanting(16)))

        assert told == differs([ZoneLost("zone-a")], asking(wanting(16)))

    def test_only_the_machines_of_one_provider_may_be_meant(self) -> None:
        ours, theirs = Selector(sources=frozenset({"metal"})), Selector(sources=frozenset({"ec2"}))

        told = differs([MachinesLost(ours)], asking(wanting(8)))

        assert told.unsatisfied == (NeedChange(wanting(8).ref, {}, {"cpu": 8000}),)
        with pytest.raises(Rejected, match="no machine has "):
            differs([MachinesLost(theirs)], asking())


class TestPrices:
    def test_a_dearer_zone_is_shed_first_and_says_who_is_drained_instead(self) -> None:
        profiles = {zone: a_profile(zone=zone) for zone in ("zone-a", "zone-b")}
        machines = [
            a_machine(State.CONFIGURED, id=f"m-{zone}", profile=profiles[zone], price_per_hour=p)
            for zone, p in (("zone-a", 1.0), ("zone-b", 1.5))
        ]

        told = differs([PriceTimes(IN_ZONE_A, 2.0)], asking(wanting(8)), machines)

        assert told.drained == (MachineId("m-zone-a"),)
        assert told.spared == (MachineId("m-zone-b"),)
        assert (told.cost_before, told.cost_after) == (1.0, 1.5)

    @pytest.mark.parametrize("factor", [-1.0, float("inf"), float("nan")])
    def test_a_factor_that_makes_no_price_is_refused(self, factor: float) -> None:
        with pytest.raises(Rejected, match="cannot be multiplied by"):
            differs([PriceTimes(Selector(), factor)], asking())

    def test_a_price_beyond_all_numbers_is_refused(self) -> None:
        dear = [a_machine(id="m-1", price_per_hour=1e300)]

        with pytest.raises(Rejected, match="no longer finite"):
            differs([PriceTimes(Selector(), 1e300)], asking(), dear)


class TestDemand:
    def test_a_need_that_is_there_grows(self) -> None:
        told = differs([MoreNeed(wanting(24))], asking(wanting(16)))

        assert told.actions_after == {ActionKind.BOOTSTRAP: 2}
        assert told.unsatisfied == (NeedChange(wanting(16).ref, {}, {"cpu": 8000}),)

    def test_a_new_need_stands_where_its_priority_puts_it(self) -> None:
        urgent = a_need(cluster=WEB, profile=a_need_profile(priority=900))

        _, demand = changed((stocked([]), asking(wanting(8))), [MoreNeed(urgent)])

        assert demand.needs == (urgent, wanting(8))

    def test_less_is_asked_and_what_is_over_is_drained(self) -> None:
        told = differs([LessNeed(wanting(16).ref, {"cpu": 8000})], asking(wanting(16)))

        assert told.actions_after == {ActionKind.RECLAIM: 1}
        assert told.drained == (MachineId("c-2"),)

    def test_only_what_the_other_plan_does_not_drain_is_told(self) -> None:
        told = differs([LessNeed(wanting(8).ref, {"cpu": 8000})], asking(wanting(8)))

        assert told.actions_before == {ActionKind.RECLAIM: 1}
        assert told.drained == (MachineId("c-1"),)

    def test_a_need_that_loses_all_is_gone(self) -> None:
        less = LessNeed(wanting(16).ref, {"cpu": 99_000})

        _, demand = changed((stocked([]), asking(wanting(16))), [less])

        assert demand.needs == ()

    def test_nothing_can_be_taken_from_a_need_that_is_not_there(self) -> None:
        stranger = NeedRef(WEB, Fingerprint("f00"))

        with pytest.raises(Rejected, match="need web/f00 has nothing of what is to be taken away"):
            differs([LessNeed(stranger, {"cpu": 1})], asking(wanting(16)))

    def test_a_need_that_misses_less_is_told_with_both_amounts(self) -> None:
        told = differs([LessNeed(wanting(64).ref, {"cpu": 16_000})], asking(wanting(64)))

        assert told.moved == (NeedChange(wanting(64).ref, {"cpu": 32_000}, {"cpu": 16_000}),)

    def test_a_quota_is_set_and_lifted(self) -> None:
        place = ("metal", "")
        start = (stocked([]), asking(quota=Quota({WEB: 3}, {place: 4})))

        def after(*changes: WhatIf) -> Quota:
            return changed(start, changes)[1].quota

        assert after(QuotaSet(WEB, 5), QuotaSet(place, 6)) == Quota({WEB: 5}, {place: 6})
        assert after(QuotaSet(WEB, None), QuotaSet(place, None)) == Quota({}, {})
        with pytest.raises(Rejected, match="must not be negative"):
            after(QuotaSet(WEB, -1))


def test_changes_are_made_one_after_the_other() -> None:
    told = differs(
        [ZoneLost("zone-b"), MoreNeed(wanting(8)), PriceTimes(IN_ZONE_A, 3.0)], asking(wanting(16))
    )

    assert told.actions_after == {ActionKind.BOOTSTRAP: 1}
    assert told.cost_after == 9.0


def test_without_a_change_nothing_differs() -> None:
    told = differs([], asking(wanting(24)))

    assert told.actions_before == told.actions_after
    assert told.cost_before == told.cost_after
    assert (told.satisfied, told.unsatisfied, told.moved) == ((), (), ())
    assert (told.drained, told.spared) == ((), ())


def contents(snapshot: Snapshot) -> dict[str, Any]:
    """Every byte that a decision could read."""
    arrays = {name: getattr(snapshot, name).tobytes() for name in HOT}
    arrays |= {
        "order": snapshot.order.tobytes(),
        "machines_of_shape": snapshot.machines_of_shape.tobytes(),
        "allocatable": snapshot.shapes.allocatable.tobytes(),
        "log": snapshot.log.rows.tobytes(),
    }
    return arrays | {"revision": snapshot.revision, "by_state": dict(snapshot.by_state)}


def test_the_original_is_the_same_to_the_last_bit() -> None:
    snapshot, demand = stocked(a_fleet()), asking(wanting(16))
    before = contents(snapshot)
    changes: list[WhatIf] = [
        ZoneLost("zone-b"), MachinesLost((MachineId("c-1"),)), PriceTimes(IN_ZONE_A, 2.0),
        MoreNeed(wanting(8)), LessNeed(wanting(8).ref, {"cpu": 8000}), QuotaSet(WEB, 1),
    ]  # fmt: skip

    whatif(snapshot, demand, Memory.empty(), Policy(), NOW, changes=changes)

    assert contents(snapshot) == before
    assert demand == asking(wanting(16))


def test_a_changed_snapshot_cannot_be_written_to_and_has_no_history() -> None:
    snapshot = stocked(a_fleet())
    assert dict(snapshot.by_state) == {State.IDLE: 2, State.CONFIGURED: 2}

    lost, _ = changed((snapshot, asking()), [ZoneLost("zone-b")])

    assert lost.by_state == {State.IDLE: 1, State.CONFIGURED: 2}
    assert [lost.changes(since) for since in (0, snapshot.revision)] == [None, None]
    assert [name for name in HOT if getattr(lost, name).flags.writeable] == []


class TestOfAPlan:
    """What is asked about the plan that a shard has just made."""

    CHANGES: Final = (ZoneLost("zone-a"), MoreNeed(wanting(8)))

    def plan(self) -> Plan:
        """One that does not hold by itself: a need is short."""
        return decide(stocked(a_fleet()), asking(wanting(64)), Memory.empty(), Policy(), NOW)

    def test_it_is_told_as_from_what_the_plan_was_made_of(self) -> None:
        plan = self.plan()

        told = whatif_of(plan, changes=self.CHANGES)

        assert told == whatif(
            plan.snapshot, plan.demand, Memory.empty(), Policy(), NOW, changes=self.CHANGES
        )

    def test_nobody_works_on_what_the_next_decision_works_on(self) -> None:
        plan = self.plan()
        assert plan.world is not None
        plan.world.owner[:] = 7  # somebody decides at this moment

        whatif_of(plan, changes=self.CHANGES)
        decide(plan.snapshot, plan.demand, memory_before(plan), plan.policy, plan.since)

        assert set(plan.world.owner.tolist()) == {7}
