"""When nothing has changed, the plan is the plan."""

from builders import a_machine, a_need, a_need_profile
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.model.profile import CapacityType
from mainstay.model.state import State

WEB = ClusterId("web")


def decided(snapshot: Snapshot, demand: Demand, memory: Memory, now: float = 0.0) -> Plan:
    return decide(snapshot, demand, memory, Policy(), now)


def wanting(*needs: Need) -> Demand:
    return Demand(tuple(needs), frozenset({WEB}))


def a_small_need(cpu: int) -> Need:
    return a_need(cluster=WEB, profile=a_need_profile(), aggregate={"cpu": cpu}, min_unit={})


def test_the_same_inputs_give_the_same_object() -> None:
    snapshot, demand = Inventory().snapshot(), wanting()
    plan = decided(snapshot, demand, Memory.empty())

    assert decided(snapshot, demand, plan.memory) is plan


def test_what_goes_short_grows_older_although_nothing_changed() -> None:
    snapshot, demand = Inventory().snapshot(), wanting(a_small_need(1000))
    plan = decided(snapshot, demand, Memory.empty())

    again = decided(snapshot, demand, plan.memory)

    assert [shortfall.age for shortfall in plan.shortfalls] == [1]
    assert [shortfall.age for shortfall in again.shortfalls] == [2]


def test_a_hold_that_runs_out_is_seen_although_nothing_changed() -> None:
    inventory = Inventory()
    spot = a_machine(State.IDLE)
    profile = type(spot.profile)(spot.profile.instance_type, capacity_type=CapacityType.SPOT)
    inventory.add(a_machine(State.IDLE, profile=profile), now=0.0)
    snapshot, demand = inventory.snapshot(), wanting()
    plan = decided(snapshot, demand, Memory.empty(), now=0.0)

    assert decided(snapshot, demand, plan.memory, now=59.9) is plan
    assert [a.kind for a in decided(snapshot, demand, plan.memory, now=60.0).actions] == ["delete"]


def test_another_policy_is_another_plan() -> None:
    snapshot, demand = Inventory().snapshot(), wanting()
    plan = decided(snapshot, demand, Memory.empty())

    other = decide(snapshot, demand, plan.memory, Policy(hold_spot_s=1.0), 0.0)

    assert other is not plan


def test_losing_the_memory_changes_no_action() -> None:
    inventory = Inventory()
    inventory.add(a_machine(State.IDLE), now=0.0)
    snapshot, demand = inventory.snapshot(), wanting(a_small_need(1))
    plan = decided(snapshot, demand, Memory.empty())

    assert decided(snapshot, demand, Memory.empty()).actions == plan.actions
