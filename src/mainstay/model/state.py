"""The states of a machine and the table of its legal transitions. Docs and tests derive from here.

`RULES` says what each state is and what a machine in it may carry; `MOVES` says where it may go.
That work in progress may fail is computed from `RULES`, not listed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Final

from typing_extensions import override

from mainstay.model.errors import IllegalTransition


class State(IntEnum):
    """Where a machine is in its life. Zero is a guard: a zeroed record is no machine at all."""

    UNSPECIFIED = 0
    SPECULATIVE = 1
    CREATING = 2
    IDLE = 3
    CONFIGURING = 4
    CONFIGURED = 5
    DRAINING = 6
    DELETING = 7
    FAILED = 8

    @override
    def __str__(self) -> str:
        return self.name.capitalize()

    @override
    def __format__(self, format_spec: str) -> str:
        return format(str(self), format_spec)


class Kind(Enum):
    """What sort of state it is, for whoever decides."""

    GUARD = "guard"
    STABLE = "stable"
    TRANSITIONAL = "transitional"
    TERMINAL = "terminal"


class Presence(Enum):
    """Whether a machine in a state carries something."""

    NEVER = "never"
    MAY = "may"
    ALWAYS = "always"


class Parts(Enum):
    """How much of an assignment a machine in a state may carry."""

    NONE = "nothing"
    NEED = "fingerprint, group, intended cluster"
    ALL = "those, priority, both penalties"
    DRAINED = "all of those, the need it is drained for"


@dataclass(frozen=True, slots=True)
class Rule:
    """One state: what it is and what a machine in it carries."""

    kind: Kind
    host: Presence
    cluster: Presence
    assignment: Parts
    meaning: str


S, K, P, A = State, Kind, Presence, Parts

# fmt: off
RULES: Final[Mapping[State, Rule]] = MappingProxyType({
    S.UNSPECIFIED: Rule(K.GUARD,        P.NEVER,  P.NEVER,  A.NONE,    "no state; never legal"),
    S.SPECULATIVE: Rule(K.STABLE,       P.NEVER,  P.NEVER,  A.NONE,    "quota slot, no hardware"),
    S.CREATING:    Rule(K.TRANSITIONAL, P.NEVER,  P.NEVER,  A.NEED,    "provider runs Create"),
    S.IDLE:        Rule(K.STABLE,       P.ALWAYS, P.NEVER,  A.NONE,    "hardware, serving nobody"),
    S.CONFIGURING: Rule(K.TRANSITIONAL, P.ALWAYS, P.MAY,    A.ALL,     "provider runs Configure"),
    S.CONFIGURED:  Rule(K.STABLE,       P.ALWAYS, P.ALWAYS, A.ALL,     "serving a cluster"),
    S.DRAINING:    Rule(K.TRANSITIONAL, P.ALWAYS, P.ALWAYS, A.DRAINED, "provider runs Drain"),
    S.DELETING:    Rule(K.TRANSITIONAL, P.ALWAYS, P.NEVER,  A.NONE,    "provider runs Delete"),
    S.FAILED:      Rule(K.TERMINAL,     P.MAY,    P.MAY,    A.DRAINED, "a transition failed"),
})

MOVES: Final[Mapping[State, frozenset[State]]] = MappingProxyType({
    S.SPECULATIVE: frozenset({S.CREATING}),
    S.CREATING:    frozenset({S.IDLE}),
    S.IDLE:        frozenset({S.CONFIGURING, S.DELETING}),
    S.CONFIGURING: frozenset({S.CONFIGURED, S.IDLE}),  # IDLE: the provider was never touched
    S.CONFIGURED:  frozenset({S.DRAINING}),
    S.DRAINING:    frozenset({S.IDLE}),
    S.DELETING:    frozenset({S.SPECULATIVE}),
})
# fmt: on

STABLE: Final = frozenset(state for state, rule in RULES.items() if rule.kind is Kind.STABLE)
TRANSITIONAL: Final = frozenset(s for s, rule in RULES.items() if rule.kind is Kind.TRANSITIONAL)

NEXT: Final[Mapping[State, frozenset[State]]] = MappingProxyType({
    state: MOVES.get(state, frozenset()) | ({S.FAILED} if state in TRANSITIONAL else frozenset())
    for state in State
})  # fmt: skip

EDGES: Final = tuple((old, new) for old in State for new in sorted(NEXT[old]))
"""Every legal edge, in the order of the states."""

_BY_NUMBER: Final[Mapping[int, State]] = MappingProxyType({int(state): state for state in State})


def is_stable(state: State) -> bool:
    """Whether the engine may start a transition from here; Failed rests, and is not stable."""
    return state in STABLE


def can_transition(old: State, new: State) -> bool:
    """Whether the table has this edge."""
    return new in NEXT[old]


def check_transition(old: State, new: State, *, machine: str = "") -> None:
    """Refuse an edge the table does not have, naming the machine if told."""
    if new not in NEXT[old]:
        of = f" of machine {machine}" if machine else ""
        legal = ", ".join(map(str, sorted(NEXT[old]))) or "nowhere"
        raise IllegalTransition(f"illegal transition{of}: {old} -> {new} ({old} goes to: {legal})")


def state_name(number: int) -> str:
    """The name of a state; a number that is none shows as itself, so corruption is visible."""
    state = _BY_NUMBER.get(number)
    return f"State({number})" if state is None else str(state)


def state_of(number: int) -> State | None:
    """The state with this number, if there is one."""
    return _BY_NUMBER.get(number)
