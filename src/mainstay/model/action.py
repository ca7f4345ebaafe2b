"""What the engine asks for: one step of one machine."""

from dataclasses import dataclass
from enum import StrEnum

from mainstay.model.assignment import NeedRef
from mainstay.model.ids import ClusterId, MachineId


class ActionKind(StrEnum):
    """The steps there are."""

    BOOTSTRAP = "bootstrap"
    """Idle to Configured, for a cluster."""

    PROVISION = "provision"
    """Speculative to Creating, for a need."""

    PREEMPT = "preempt"
    """Configured to Idle, because a higher priority needs it."""

    RECLAIM = "reclaim"
    """Configured to Idle, because nobody needs it where it is."""

    DELETE = "delete"
    """Idle to Speculative, because nobody has needed it for long enough."""


@dataclass(frozen=True, slots=True)
class Action:
    """One step."""

    kind: ActionKind
    machine: MachineId

    cluster: ClusterId | None
    """Where a machine goes, or, when it is drained, where it is; none for a deletion."""

    need: NeedRef | None
    """The need it is acquired or drained for."""

    grace_s: int = 0
    """How long its workloads have to leave."""
