"""What a node's agent can be told to do, in which phases it does it, and why it may fail.

Nothing else runs on a node: a type that is not here is refused there without any effect.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from mainstay.model.errors import Rejected
from mainstay.tenancy.states import TaskStatus


class TaskType(StrEnum):
    """The kinds of work for an agent."""

    VM_PROVISION = "slice.vm_provision"
    VM_RELEASE = "slice.vm_release"
    PROVISION_USER = "allocation.provision_user"
    DEPROVISION_USER = "allocation.deprovision_user"
    TOPOLOGY_DISCOVER = "slice.topology_discover"
    HEALTH_PROBE = "diag.health_probe"


class Phase(StrEnum):
    """One step on the host; its name is what a tenant and an operator see when it fails."""

    VERIFY_TASK = "verify_task"
    LEASE_ACQUIRE = "lease_acquire"
    PREFLIGHT = "preflight"
    IMAGE_ENSURE = "image_ensure"
    DISK_PREPARE = "disk_prepare"
    VFIO_BIND = "vfio_bind"
    NETWORK_RESERVE = "network_reserve"
    CLOUD_INIT_SEED = "cloud_init_seed"
    VM_DEFINE_START = "vm_define_start"
    SSH_WAIT = "ssh_wait"
    GUEST_MARKER_WAIT = "guest_marker_wait"
    USER_CREATE = "user_create"
    KEYS_INSTALL = "keys_install"

    GRACEFUL_STOP = "graceful_stop"
    DESTROY = "destroy"
    UNDEFINE = "undefine"
    VFIO_UNBIND = "vfio_unbind"
    SESSIONS_END = "sessions_end"
    USER_REMOVE = "user_remove"
    WIPE = "wipe"
    NETWORK_DROP = "network_drop"
    LEASE_RELEASE = "lease_release"

    LOOK = "look"
    REPORT = "report"


P = Phase

PHASES: Final = {
    TaskType.VM_PROVISION: (
        P.VERIFY_TASK, P.LEASE_ACQUIRE, P.PREFLIGHT, P.IMAGE_ENSURE, P.DISK_PREPARE, P.VFIO_BIND,
        P.NETWORK_RESERVE, P.CLOUD_INIT_SEED, P.VM_DEFINE_START, P.SSH_WAIT, P.GUEST_MARKER_WAIT,
        P.REPORT,
    ),
    TaskType.VM_RELEASE: (
        P.VERIFY_TASK, P.GRACEFUL_STOP, P.DESTROY, P.UNDEFINE, P.VFIO_UNBIND, P.WIPE,
        P.NETWORK_DROP, P.LEASE_RELEASE, P.REPORT,
    ),
    TaskType.PROVISION_USER: (
        P.VERIFY_TASK, P.LEASE_ACQUIRE, P.PREFLIGHT, P.USER_CREATE, P.KEYS_INSTALL, P.SSH_WAIT,
        P.REPORT,
    ),
    TaskType.DEPROVISION_USER: (
        P.VERIFY_TASK, P.SESSIONS_END, P.USER_REMOVE, P.WIPE, P.LEASE_RELEASE, P.REPORT,
    ),
    TaskType.TOPOLOGY_DISCOVER: (P.VERIFY_TASK, P.LOOK, P.REPORT),
    TaskType.HEALTH_PROBE: (P.VERIFY_TASK, P.LOOK, P.REPORT),
}  # fmt: skip
"""In order. After `report` the control plane knows; before it, only the host does."""

GIVES: Final = frozenset({TaskType.VM_PROVISION, TaskType.PROVISION_USER})
"""Types after which a tenant has something."""

TAKES_BACK: Final = frozenset({TaskType.VM_RELEASE, TaskType.DEPROVISION_USER})
"""Types that must prove what they cleaned."""


class ErrorCode(StrEnum):
    """Why a task failed, as the agent says it."""

    LEASE_CONFLICT = "lease_conflict"
    """Another allocation has the hardware, in the host's own books."""

    IMAGE_DOWNLOAD_FAILED = "image_download_failed"
    IMAGE_SHA_MISMATCH = "image_sha_mismatch"
    VFIO_NOT_BOUND = "vfio_not_bound"
    SSH_TIMEOUT = "ssh_timeout"
    MARKER_MISSING = "marker_missing"
    WIPE_FAILED = "wipe_failed"
    AGENT_RESTARTED = "agent_restarted"
    """It died at work, and undid what it had begun when it came back."""

    BAD_SIGNATURE = "bad_signature"
    WRONG_NODE = "wrong_node"
    TASK_EXPIRED = "task_expired"
    UNKNOWN_TASK_TYPE = "unknown_task_type"


RETRYABLE: Final = frozenset(
    {ErrorCode.LEASE_CONFLICT, ErrorCode.IMAGE_DOWNLOAD_FAILED, ErrorCode.AGENT_RESTARTED}
)
"""What another attempt may cure."""

REFUSALS: Final = frozenset(
    {
        ErrorCode.BAD_SIGNATURE,
        ErrorCode.WRONG_NODE,
        ErrorCode.TASK_EXPIRED,
        ErrorCode.UNKNOWN_TASK_TYPE,
    }
)
"""Said before anything was touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What an agent says when it is done."""

    status: TaskStatus
    """Completed or failed."""

    output: dict[str, Any] = field(default_factory=dict)
    """What it found, made or proves; on failure the phase, and whether the undo was clean."""

    error_code: str | None = None
    error_detail: str | None = None

    def __post_init__(self) -> None:
        if self.status not in {TaskStatus.COMPLETED, TaskStatus.FAILED}:
            raise Rejected(f"a result is completed or failed, not {self.status}")
        if (self.status is TaskStatus.FAILED) != (self.error_code is not None):
            raise Rejected("a result has an error_code if it failed, and only then")


def is_clean(result: object) -> bool:
    """Whether a failed task says that it left nothing behind on the host."""
    return isinstance(result, dict) and result.get("clean") is True
