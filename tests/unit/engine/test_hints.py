"""Hints: what else a cluster could have."""

from builders import a_machine, a_need, a_need_profile, a_profile
from mainstay.engine.asked import ask
from mainstay.engine.hints import Confidence, hints
from mainstay.inventory.inventory import Inventory
from mainstay.model.machine import Machine
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY
from mainstay.model.state import State

GP = a_need_profile(requirements=(Requirement(INSTANCE_TYPE_KEY, Operator.IN, ("gp-4",)),))


def stocked(*machines: Machine) -> Inventory:
    inventory = Inventory()
    for machine in machines:
        inventory.add(machine, now=0.0)
    return inventory


def a_gp(number: int, state: State, price: float) -> Machine:
    return a_machine(
        state, id=f"m-{number}", profile=a_profile(instance_type="gp-4"), price_per_hour=price
    )


def test_idle_machines_give_high_confidence_at_the_lowest_idle_price() -> None:
    inventory = stocked(
        a_gp(1, State.IDLE, 3.0), a_gp(2, State.IDLE, 2.0), a_gp(3, State.SPECULATIVE, 1.0)
    )

    [hint] = hints(inventory.snapshot(), ask([a_need(profile=GP)]))

    assert (hint.count, hint.confidence, hint.cost_per_hour) == (3, Confidence.HIGH, 2.0)


def test_slots_alone_give_medium_confidence() -> None:
    [hint] = hints(stocked(a_gp(1, State.SPECULATIVE, 1.5)).snapshot(), ask([a_need(profile=GP)]))

    assert (hint.count, hint.confidence, hint.cost_per_hour) == (1, Confidence.MEDIUM, 1.5)


def test_what_serves_others_gives_none() -> None:
    [hint] = hints(stocked(a_gp(1, State.CONFIGURED, 1.0)).snapshot(), ask([a_need(profile=GP)]))

    assert (hint.count, hint.confidence) == (0, Confidence.NONE)


def test_a_cluster_gets_one_hint_for_each_kind_of_need() -> None:
    needs = tuple(
        a_need(cluster=cluster, profile=GP, group=group) for cluster in "ab" for group in ("", "g")
    )

    told = hints(stocked(a_gp(1, State.IDLE, 1.0)).snapshot(), ask(needs))

    assert [hint.cluster for hint in told] == ["a", "b"]
