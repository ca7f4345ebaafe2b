"""The four steps a provider takes, as rows over the model's own table of states."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from mainstay.model.calls import Call
from mainstay.model.machine import Machine, check
from mainstay.model.state import RULES, Presence, State, check_transition


@dataclass(frozen=True, slots=True)
class Step:
    """Where a call finds a machine, where it is while the provider works, where it ends."""

    source: State
    during: State
    after: State


# fmt: off
STEPS: Final[Mapping[Call, Step]] = MappingProxyType({
    Call.CREATE:    Step(State.SPECULATIVE, State.CREATING,    State.IDLE),
    Call.CONFIGURE: Step(State.IDLE,        State.CONFIGURING, State.CONFIGURED),
    Call.DRAIN:     Step(State.CONFIGURED,  State.DRAINING,    State.IDLE),
    Call.DELETE:    Step(State.IDLE,        State.DELETING,    State.SPECULATIVE),
})
# fmt: on

CALL_OF: Final[Mapping[State, Call]] = MappingProxyType(
    {step.during: call for call, step in STEPS.items()}
)
"""The call at work on a machine in a transitional state."""


def stepped(machine: Machine, state: State, **parts: Any) -> Machine:
    """The machine after one legal step, carrying what its new state may carry."""
    check_transition(machine.state, state, machine=machine.id)
    return placed(machine, state, **parts)


def placed(machine: Machine, state: State, **parts: Any) -> Machine:
    """The machine as it stands in a state, however it got there; one that cannot be is refused."""
    rule = RULES[state]
    cleared: dict[str, Any] = {"state": state, "last_error": ""}
    if rule.host is Presence.NEVER:
        cleared["host"] = None
    if rule.cluster is Presence.NEVER:
        cleared |= {"cluster": None, "shard_metadata": {}}
    moved = dataclasses.replace(machine, **(cleared | parts))
    check(moved)
    return moved
