"""The life of a machine as a node of tenancy: the table of its steps, and which one is due. Pure.

One row of `bridge_nodes` is one life: a machine that comes back is the next incarnation, with a
node row of its own, so that nothing of the life before is believed of it. What is due follows from
what is known now, never from what happened: an event that was missed changes nothing in the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from mainstay.model.state import State


class Life(StrEnum):
    """Where a machine is on its way through tenancy."""

    JOINING = "joining"
    """It was told how to join; nobody can have a part of it."""

    OPEN = "open"
    """Its agent has enrolled and its slots are given out."""

    DRAINING = "draining"
    """It gets nothing new; what is held is released."""

    RETIRED = "retired"
    """Over. The next time it is another node."""


class Name(StrEnum):
    """The steps."""

    ASK = "ask"
    OPEN = "open"
    CLOSE = "close"
    GIVE_UP = "give_up"
    WARN = "warn"
    RELEASE = "release"
    BURY = "bury"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True)
class Step:
    """One step. Each is one transaction, or several of which each can be taken again."""

    name: Name
    old: frozenset[Life]
    """Empty: there was no such life."""

    new: Life
    when: str
    does: str


L, N = Life, Name

STEPS: Final = (
    Step(N.ASK, frozenset(), L.JOINING,
         "the shard asks for the bootstrap of a machine",
         "node row with a token for one enrolment; what is left of an earlier life is closed"),
    Step(N.OPEN, frozenset({L.JOINING}), L.OPEN,
         "the machine is Configured and its agent has called",
         "slots available"),
    Step(N.CLOSE, frozenset({L.JOINING, L.OPEN}), L.DRAINING,
         "a drain is told, or the machine is Draining, Failed or gone",
         "node draining: no new allocation; the reason and the grace are recorded"),
    Step(N.GIVE_UP, frozenset({L.JOINING}), L.DRAINING,
         "nobody has enrolled in time",
         "the same, with that reason"),
    Step(N.WARN, frozenset({L.DRAINING}), L.DRAINING,
         "an allocation there was not told yet",
         "its tenant is told why and until when"),
    Step(N.RELEASE, frozenset({L.DRAINING}), L.DRAINING,
         "the time to clean up has come",
         "release asked for, or cancelled what is not active; the reason in the audit"),
    Step(N.BURY, frozenset({L.DRAINING}), L.DRAINING,
         "the machine is gone and something is still held",
         "released or failed on the word of its provider: nobody can have it again"),
    Step(N.RETIRE, frozenset({L.DRAINING}), L.RETIRED,
         "nothing is held",
         "node retired, its token void"),
)  # fmt: skip
"""The whole of it."""

BY_NAME: Final[Mapping[Name, Step]] = MappingProxyType({step.name: step for step in STEPS})

GONE: Final = frozenset({State.IDLE, State.SPECULATIVE, State.CREATING, State.DELETING})
"""States of a machine that serves nobody: its provider has emptied it."""

LEAVING: Final = frozenset({State.DRAINING, State.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long what may still come is waited for."""

    join_s: float = 900.0
    """From the bootstrap to the first call of the agent."""

    settle_s: float = 10.0
    """After a session began, or a bootstrap was answered: until what is not said is believed."""

    gone_after_s: float = 300.0
    """A machine that neither the shard names nor its agent speaks for is gone after this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that is known of one life at one moment."""

    life: Life
    asked_s: float
    """How long ago it was last told how to join."""

    heard: State | None
    """What the shard said of the machine in this session; None: nothing yet."""

    session_s: float
    """How long this session has lasted; 0: there is none."""

    is_gone: bool = False
    """It was found gone before, and that is written down."""

    agent_speaks: bool = False
    """The agent has enrolled, and the node is open."""

    silent_s: float = 0.0
    """How long ago the agent last called; since the bootstrap if it never did."""

    untold: int = 0
    """Allocations there whose tenants do not know yet."""

    to_release: int = 0
    """Allocations that hold something and are not on their way out."""

    held: int = 0
    """Allocations that hold something."""

    release_in_s: float = 0.0


def due(known: Known, patience: Patience) -> Name | None:
    """The step to take now; None: none."""
    match known.life:
        case Life.JOINING:
            return _joining(known, patience)
        case Life.OPEN:
            return Name.CLOSE if is_leaving(known, patience) else None
        case Life.DRAINING:
            return _draining(known, patience)
        case Life.RETIRED:
            return None


def is_leaving(known: Known, patience: Patience) -> bool:
    """Whether it serves us no longer, or soon will not."""
    return known.heard in LEAVING or is_gone(known, patience)


def is_gone(known: Known, patience: Patience) -> bool:
    """Whether nothing of ours can run there any more.

    The shard says so; or, since it tells nobody of what left while nobody listened, it has not
    named the machine for long and the agent is silent for as long. One of them alone is no proof.
    """
    if known.is_gone:
        return True
    if known.heard in GONE:  # what was said before the bootstrap may arrive after it
        return known.life is not Life.JOINING or known.asked_s > patience.settle_s
    absent_s = known.session_s if known.heard is None else 0.0
    return min(absent_s, known.silent_s, known.asked_s) > patience.gone_after_s


def _joining(known: Known, patience: Patience) -> Name | None:
    if is_leaving(known, patience):
        return Name.CLOSE
    if known.heard is State.CONFIGURED and known.agent_speaks:
        return Name.OPEN
    late = known.asked_s > patience.join_s and not known.agent_speaks
    return Name.GIVE_UP if late and known.session_s > patience.settle_s else None


def _draining(known: Known, patience: Patience) -> Name | None:
    if known.untold:
        return Name.WARN
    if known.held and is_gone(known, patience):
        return Name.BURY
    if known.to_release and known.release_in_s <= 0:
        return Name.RELEASE
    return None if known.held else Name.RETIRE
