"""What goes wrong on a simulated host, to order."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mainstay.tenancy.work import ErrorCode, Phase


class Fault(StrEnum):
    """One way to go wrong."""

    LEASE_CONFLICT = "lease_conflict"
    DOWNLOAD_FAILS = "download_fails"
    SHA_MISMATCH = "sha_mismatch"
    VFIO_NOT_BOUND = "vfio_not_bound"
    SSH_TIMEOUT = "ssh_timeout"
    MARKER_MISSING = "marker_missing"
    WIPE_FAILS = "wipe_fails"

    UNDO_FAILS = "undo_fails"
    """A failed attempt leaves something behind, and says so."""

    HARD_STOP = "hard_stop"
    """The guest does not stop when asked; it is destroyed."""

    WRONG_PROOF = "wrong_proof"
    """All parts are there, and none of them is a plain `true`."""

    PARTIAL_PROOF = "partial_proof"
    """Completed, it says, and the disk is not wiped."""

    DUPLICATE_RESULT = "duplicate_result"
    """Every result is said twice."""

    CONTRADICTORY_RESULT = "contradictory_result"
    """Every result is said again, otherwise."""


@dataclass(frozen=True, slots=True)
class Failing:
    """Where a fault shows, and as what."""

    phase: Phase
    code: ErrorCode
    detail: str


FAILING: Final[Mapping[Fault, Failing]] = {
    Fault.LEASE_CONFLICT: Failing(
        Phase.LEASE_ACQUIRE, ErrorCode.LEASE_CONFLICT, "another allocation holds the GPU"
    ),
    Fault.DOWNLOAD_FAILS: Failing(
        Phase.IMAGE_ENSURE, ErrorCode.IMAGE_DOWNLOAD_FAILED, "connection reset while downloading"
    ),
    Fault.SHA_MISMATCH: Failing(
        Phase.IMAGE_ENSURE, ErrorCode.IMAGE_SHA_MISMATCH, "image is not what the catalogue says"
    ),
    Fault.VFIO_NOT_BOUND: Failing(
        Phase.VFIO_BIND, ErrorCode.VFIO_NOT_BOUND, "GPU is bound to another driver"
    ),
    Fault.SSH_TIMEOUT: Failing(
        Phase.SSH_WAIT, ErrorCode.SSH_TIMEOUT, "guest does not answer on port 22"
    ),
    Fault.MARKER_MISSING: Failing(
        Phase.GUEST_MARKER_WAIT, ErrorCode.MARKER_MISSING, "guest never said that it is ready"
    ),
    Fault.WIPE_FAILS: Failing(Phase.WIPE, ErrorCode.WIPE_FAILED, "disk refuses to be wiped"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What happens to the tasks of one agent."""

    named: frozenset[Fault] = frozenset()
    times: int | None = None
    """So many tasks are hit, then it is cured; None: it never is."""

    chance: float = 1.0
    """That a task is hit, by the agent's own randomness."""

    dies_in: Phase | None = None
    """The agent dies as this phase begins; what it did before stays on the host."""

    phase_s: float = 0.0
    """How long a phase takes, roughly."""

    slow: Mapping[Phase, float] | None = None
    """Phases that take so many seconds more."""


HEALTHY: Final = Faults()


def faults(*named: Fault, times: int | None = None) -> Faults:
    """These faults, for all tasks or for the first few."""
    return Faults(named=frozenset(named), times=times)


class AgentDied(Exception):
    """The simulated process is gone; nothing of it runs any more, nothing is tidied up."""
