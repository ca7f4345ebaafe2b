"""Valid values in one call: a test names only what it is about."""

from collections.abc import Mapping
from typing import Any, Final, TypedDict, Unpack

from mainstay.model.assignment import Assignment, NeedRef
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.machine import Machine
from mainstay.model.need import Need, NeedProfile, Requirement, Spread
from mainstay.model.profile import CapacityType, HostRef, Profile, labels_of
from mainstay.model.resources import Resources, Units
from mainstay.model.state import State

REAL_STATES: Final = tuple(state for state in State if state is not State.UNSPECIFIED)
"""Every state but the guard."""

A_HOST: Final = HostRef("metal", "rack-1/host-1")
A_CLUSTER: Final = ClusterId("web")
A_FINGERPRINT: Final = Fingerprint("00112233445566778899aabbccddeeff")
A_NEED_REF: Final = NeedRef(ClusterId("batch"), Fingerprint("ffeeddccbbaa99887766554433221100"))

_HOST: Final[Mapping[str, Any]] = {"host": A_HOST}
_BOUND: Final[Mapping[str, Any]] = {"host": A_HOST, "cluster": A_CLUSTER}

# The least that a machine in each state must carry.
_CARRIED: Final[Mapping[State, Mapping[str, Any]]] = {
    State.UNSPECIFIED: {},
    State.SPECULATIVE: {},
    State.CREATING: {},
    State.IDLE: _HOST,
    State.CONFIGURING: _HOST,
    State.CONFIGURED: _BOUND,
    State.DRAINING: _BOUND,
    State.DELETING: _HOST,
    State.FAILED: {"last_error": "create timed out"},
}


class MachineParts(TypedDict, total=False):
    """What a test may say about a machine; plain strings will do for ids."""

    id: str
    profile: Profile
    host: HostRef | None
    cluster: str | None
    allocatable: Resources
    price_per_hour: float
    interruption_probability: float
    assignment: Assignment
    last_error: str
    shard_metadata: Mapping[str, str]


def a_machine(state: State = State.IDLE, **given: Unpack[MachineParts]) -> Machine:
    """A valid machine that carries only what its state must; UNSPECIFIED is never valid."""
    parts: dict[str, Any] = {"id": "m-1", "profile": a_profile(), **_CARRIED[state], **given}
    return Machine(state=state, **parts)


class ProfileParts(TypedDict, total=False):
    """What a test may say about a machine's profile."""

    instance_type: str
    zone: str
    capacity_type: CapacityType
    resources: Mapping[str, str]
    labels: Mapping[str, str]


def a_profile(**given: Unpack[ProfileParts]) -> Profile:
    """The profile of an on-demand machine with 8 cores and 32 GiB."""
    return Profile(
        instance_type=given.get("instance_type", "m5.2xlarge"),
        zone=given.get("zone", "zone-a"),
        capacity_type=given.get("capacity_type", CapacityType.ON_DEMAND),
        resources=Resources(given.get("resources", {"cpu": "8", "memory": "32Gi"})),
        labels=labels_of(given.get("labels", {})),
    )


class AssignmentParts(TypedDict, total=False):
    """What a test may say about an assignment; a part given as None is not known."""

    fingerprint: str | None
    group: str | None
    cluster: str | None
    priority: int | None
    interruption_penalty_dollars: float | None
    reclamation_penalty_dollars: float | None
    drained_for: NeedRef | None


def an_assignment(**given: Unpack[AssignmentParts]) -> Assignment:
    """What a Configured machine carries: every part but `drained_for`."""
    parts: dict[str, Any] = {
        "fingerprint": A_FINGERPRINT,
        "group": "",
        "cluster": A_CLUSTER,
        "priority": 100,
        "interruption_penalty_dollars": 16.0,
        "reclamation_penalty_dollars": 0.5,
        **given,
    }
    return Assignment(**parts)


class NeedProfileParts(TypedDict, total=False):
    """What a test may say about the identity of demand."""

    requirements: tuple[Requirement, ...]
    spread: tuple[Spread, ...]
    priority: int
    interruption_penalty_bucket: int
    reclamation_penalty_bucket: int


def a_need_profile(**given: Unpack[NeedProfileParts]) -> NeedProfile:
    """The identity of a plain need: any machine will do, priority 100, no penalties."""
    parts: dict[str, Any] = {"priority": 100, **given}
    return NeedProfile(**parts)


class NeedParts(TypedDict, total=False):
    """What a test may say about a need; amounts are in units (milli-cores, KiB, pieces)."""

    cluster: str
    profile: NeedProfile
    aggregate: Units
    min_unit: Units
    arrival_nanos: int
    group: str


def a_need(**given: Unpack[NeedParts]) -> Need:
    """Eight cores for cluster `web`, in pieces of one core."""
    parts: dict[str, Any] = {
        "cluster": A_CLUSTER,
        "profile": a_need_profile(),
        "aggregate": {"cpu": 8000},
        "min_unit": {"cpu": 1000},
        **given,
    }
    return Need(**parts)
