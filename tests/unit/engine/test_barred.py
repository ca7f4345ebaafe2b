"""What is barred: who is named, and what is told of it besides the plan."""

import dataclasses
from typing import Final

import pytest

from builders import a_need
from mainstay.engine.asked import ask
from mainstay.engine.audit import differences
from mainstay.engine.barred import NOTHING_BARRED, Barred, Offer, barred_rows
from mainstay.engine.certificate import Filter
from mainstay.engine.decide import decide
from mainstay.engine.explain import Standing, explain_machine, explain_need
from mainstay.engine.hints import Confidence, hints
from mainstay.engine.plan import Memory, Plan, Unmet
from mainstay.engine.policy import Policy
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.profile import ZONE_KEY, CapacityType, HostRef, Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State
from oracles.fleets import NOW, RACK, world_of

UNSPECIFIED: Final = CapacityType.UNSPECIFIED
M: Final = tuple(MachineId(f"m-{number}") for number in range(4))
FLEET: Final = (
    (State.IDLE, "za", "r-1", 5.0), (State.SPECULATIVE, "za", "r-2", 1.0),
    (State.CONFIGURED, "zb", "r-1", 1.0), (State.IDLE, "", None, 7.0),
)  # fmt: skip
WEB: Final = a_need(aggregate={"cpu": 100_000})


def machines() -> list[Machine]:
    return [
        Machine(
            id=id_,
            state=state,
            profile=Profile(
                "m5",
                zone,
                resources=Resources({"cpu": "4", "memory": "16Gi"}),
                labels=((RACK, rack),) if rack else (),
            ),
            host=None if state is State.SPECULATIVE else HostRef("sim", id_),
            cluster=WEB.cluster if state is State.CONFIGURED else None,
            price_per_hour=price,
        )
        for id_, (state, zone, rack, price) in zip(M, FLEET, strict=True)
    ]


def snapshot() -> Snapshot:
    return world_of(machines()).inventory().snapshot()


def decided(barred: Barred) -> Plan:
    world = world_of(machines(), [WEB], barred=barred)
    return decide(world.inventory().snapshot(), world.demand, Memory.empty(), Policy(), NOW)


def named(barred: Barred) -> list[MachineId]:
    seen = snapshot()
    rows = barred_rows(seen, barred)
    return [] if rows is None else [id_ for id_ in M if rows[list(seen.ids).index(id_)]]


@pytest.mark.parametrize(
    ("barred", "expected"),
    [
        (NOTHING_BARRED, []),
        (Barred(sources=frozenset({"sim"})), [M[0], M[1], M[3]]),
        (Barred(sources=frozenset({"ec2"})), []),
        (Barred(values=frozenset({(RACK, "r-1")})), [M[0]]),
        (Barred(values=frozenset({(ZONE_KEY, "za")})), [M[0], M[1]]),
        (Barred(values=frozenset({(ZONE_KEY, "r-1"), (RACK, "za")})), []),
        (Barred(values=frozenset({(RACK, "")})), []),
        (Barred(values=frozenset({(RACK, "r-1"), (RACK, "r-2")})), [M[0], M[1]]),
        (Barred(machines=frozenset({M[2], M[3], MachineId("ghost")})), [M[3]]),
        (Barred(offers=frozenset({Offer("sim", "m5", "za", UNSPECIFIED)})), [M[1]]),
        (Barred(offers=frozenset({Offer("ec2", "m5", "za", UNSPECIFIED)})), []),
        (Barred(offers=frozenset({Offer("sim", "m5", "zb", UNSPECIFIED)})), []),
        (Barred(offers=frozenset({Offer("sim", "m5", "za", CapacityType.SPOT)})), []),
    ],
)
def test_only_idle_and_speculative_machines_are_barred(
    barred: Barred, expected: list[MachineId]
) -> None:
    assert named(barred) == expected


def test_a_hint_counts_what_can_be_had_now() -> None:
    [before] = hints(snapshot(), ask([WEB]))
    [after] = hints(snapshot(), ask([WEB]), Barred(machines=frozenset({M[0], M[3]})))

    assert (before.count, before.confidence, before.cost_per_hour) == (3, Confidence.HIGH, 5.0)
    assert (after.count, after.confidence, after.cost_per_hour) == (1, Confidence.MEDIUM, 1.0)


def test_a_plan_gives_hints_without_what_is_barred() -> None:
    [hint] = decided(Barred(sources=frozenset({"sim"}))).hints

    assert hint.confidence is Confidence.NONE


def test_a_machine_that_is_barred_says_so_and_one_that_serves_does_not() -> None:
    plan = decided(Barred(values=frozenset({(RACK, "r-1")})))

    assert explain_machine(plan, M[0]).standing is Standing.BARRED
    assert explain_machine(plan, M[1]).standing is Standing.ACQUIRED
    assert explain_machine(plan, M[2]).standing is Standing.SERVES


def test_the_funnel_has_a_step_for_bars_while_some_machine_is_barred() -> None:
    plan = decided(Barred(machines=frozenset({M[0]})))
    [short] = plan.unsatisfied
    certificate = explain_need(plan, short.need.ref, relax=False)

    assert certificate.verdict is short.reason is Unmet.BARRED
    [step] = [step for step in certificate.funnel if step.filter is Filter.BARRED]
    assert (step.left, step.lifted) == (0, 1)
    assert certificate.nearest is not None
    assert certificate.nearest.machine == M[0]

    free = explain_need(decided(NOTHING_BARRED), short.need.ref, relax=False)
    assert Filter.BARRED not in {step.filter for step in free.funnel}


def test_a_bar_costs_no_new_look_at_the_demand() -> None:
    plan = decided(NOTHING_BARRED)
    demand = dataclasses.replace(plan.demand, barred=Barred(machines=frozenset({M[0]})))

    after = decide(plan.snapshot, demand, plan.memory, Policy(), NOW)

    assert after.walk is plan.walk
    assert after.actions != plan.actions
    assert differences(after, plan.memory, NOW) == ()
