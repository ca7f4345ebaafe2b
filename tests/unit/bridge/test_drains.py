"""What is written down of a drain: by whomever it was said, and however late."""

import math
from typing import Any

from mainstay.bridge.drains import GRACE_S_MAX, Drains
from mainstay.model.frames import Drain, NodeState, ReclaimTold
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.state import State
from mainstay.runtime.clock import StepClock


def stands(state: State, drain: Drain | None = None) -> NodeState:
    return NodeState(machine=MachineId("m"), cluster=ClusterId("tenants"), state=state, drain=drain)


def written(drains: Drains) -> tuple[Any, ...] | None:
    """Grace and notice that are left, and the reason."""
    found = drains.of("m")
    if found is None:
        return None
    told = found.told(drains.clock.elapsed_s(), 8.0)
    return told.grace_s, told.release_in_s, told.reason


def test_a_grace_runs_from_when_it_was_said() -> None:
    clock = StepClock(100.0)
    drains = Drains(clock)
    drains.told(ReclaimTold("i", ("m",), 30, 9))

    assert written(drains) == (30.0, 22.0, "taken by demand of priority 9, with 30 s of grace")
    clock.advance(25.0)
    assert written(drains) == (5.0, 0.0, "taken by demand of priority 9, with 30 s of grace")
    clock.advance(25.0)
    assert written(drains) == (0.0, 0.0, "taken by demand of priority 9, with 30 s of grace")


def test_the_state_of_a_machine_says_it_to_whoever_missed_the_instruction() -> None:
    drains = Drains(StepClock(100.0))
    drains.heard(stands(State.DRAINING))
    assert written(drains) is None

    drains.heard(stands(State.DRAINING, Drain(20.25)))
    assert written(drains) == (20.25, 12.25, "no longer needed, with 20 s of grace left")


def test_the_instruction_is_not_overruled_by_the_state_that_follows() -> None:
    drains = Drains(StepClock(100.0))
    drains.told(ReclaimTold("i", ("m", "n"), 30))
    drains.heard(stands(State.DRAINING, Drain(29.9)))

    assert written(drains) == (30.0, 22.0, "no longer needed, with 30 s of grace")


def test_of_a_machine_that_serves_on_or_is_in_no_life_nothing_is_kept() -> None:
    """A shard that died between telling and draining: the next drain is another one."""
    drains = Drains(StepClock(100.0))
    drains.told(ReclaimTold("i", ("m",), 30, 9))
    drains.heard(stands(State.CONFIGURED))
    assert written(drains) is None

    drains.told(ReclaimTold("i", ("m", "n"), 30, 9))
    drains.tidy({"n"})
    assert set(drains.of_machine) == {"n"}


def test_a_grace_that_no_date_can_hold_is_a_long_one() -> None:
    drains = Drains(StepClock(100.0))
    drains.told(ReclaimTold("i", ("m",), 2**62))
    assert drains.of("m") is not None
    found = written(drains)
    assert found is not None
    assert math.isclose(found[0], GRACE_S_MAX)
    drains.told(ReclaimTold("i", ("m",), -5))
    found = written(drains)
    assert found is not None
    assert found[:2] == (0.0, 0.0)
