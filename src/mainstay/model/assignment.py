"""Which need a machine is committed to: one value whose parts may be absent, cleared as one.

The parts arrive over a machine's life: the need and the cluster it is meant for when it is created
for somebody, priority and both penalties when it is configured, the need it is drained for while it
drains. `cluster` here is an intention; the binding is the machine's own `cluster` field.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.state import RULES, Parts, State


@dataclass(frozen=True, slots=True)
class NeedRef:
    """Names one need of one cluster: what an in-flight machine is credited to."""

    cluster: ClusterId
    fingerprint: Fingerprint
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a machine is committed to. None means: this part is not known."""

    fingerprint: Fingerprint | None = None
    group: str | None = None
    cluster: ClusterId | None = None
    priority: int | None = None
    interruption_penalty_dollars: float | None = None
    reclamation_penalty_dollars: float | None = None
    drained_for: NeedRef | None = None

    def __bool__(self) -> bool:
        return self != NO_ASSIGNMENT


PRIORITY_MIN: Final = -(2**31)
PRIORITY_MAX: Final = 2**31 - 1


def is_priority(number: int) -> bool:
    """Whether it fits the 32 bits that a priority has on the wire."""
    return PRIORITY_MIN <= number <= PRIORITY_MAX


PART_NAMES: Final = tuple(field.name for field in dataclasses.fields(Assignment))
NO_ASSIGNMENT: Final = Assignment()

_NEED_PARTS: Final = ("fingerprint", "group", "cluster")

PARTS_ALLOWED: Final[dict[Parts, tuple[str, ...]]] = {
    Parts.NONE: (),
    Parts.NEED: _NEED_PARTS,
    Parts.ALL: tuple(name for name in PART_NAMES if name != "drained_for"),
    Parts.DRAINED: PART_NAMES,
}


_PARTS_FORBIDDEN: Final = tuple(
    tuple(name for name in PART_NAMES if name not in PARTS_ALLOWED[RULES[state].assignment])
    for state in State
)


def parts_allowed(state: State) -> tuple[str, ...]:
    """The parts a machine in this state may carry."""
    return PARTS_ALLOWED[RULES[state].assignment]


def overlay(assignment: Assignment, newer: Assignment) -> Assignment:
    """`assignment` with every part that `newer` knows; what `newer` does not know stays."""
    return dataclasses.replace(assignment, **_known(newer))


def fill(assignment: Assignment, echo: Assignment) -> Assignment:
    """`assignment` with only its absent parts taken from `echo`: what we know ourselves wins."""
    return overlay(echo, assignment)


def restrict(assignment: Assignment, state: State) -> Assignment:
    """Only the parts that a machine in `state` may carry; nothing at Idle."""
    allowed = parts_allowed(state)
    return Assignment(**{k: v for k, v in _known(assignment).items() if k in allowed})


def excess_parts(assignment: Assignment, state: State) -> tuple[str, ...]:
    """The parts that a machine in `state` must not carry."""
    forbidden = _PARTS_FORBIDDEN[state]
    return tuple([name for name in forbidden if getattr(assignment, name) is not None])


def carried(known: Assignment, echo: Assignment, state: State) -> Assignment:
    """A reported machine's commitment: our memory, filled from the echo, as `state` allows."""
    return restrict(fill(known, echo), state)


def _known(assignment: Assignment) -> dict[str, Any]:
    return {name: value for name in PART_NAMES if (value := getattr(assignment, name)) is not None}
