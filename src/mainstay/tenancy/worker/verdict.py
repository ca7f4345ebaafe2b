"""What the end of an agent's task means for its allocation. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstay.tenancy.database.connect import Row
from mainstay.tenancy.settle import PROOF
from mainstay.tenancy.states import TaskStatus
from mainstay.tenancy.work import RETRYABLE, is_clean

UNREACHABLE: Final = "agent_unreachable"
"""The task ran out before any agent had it."""

EXPIRED: Final = "task_expired"
"""The task ran out in the hands of an agent: nothing is known of the host."""

NOT_READY: Final = "not_ready"
"""The agent says that it is done, and not that it is ready."""

NOT_PROVED: Final = "proof_incomplete"
_NOT_ADDRESS: Final = frozenset({"ready", "phases"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Why there is nothing for the tenant."""

    code: str
    phase: str
    reason: str
    clean: bool
    retryable: bool
    touched: bool = True
    """Whether anything may have been done on the host."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The tenant can have it, there."""

    connection: Mapping[str, Any]


def of_given(task: Row) -> Ready | Failed:
    """How an attempt to give something to a tenant ended."""
    result = _result(task)
    match TaskStatus(task["status"]):
        case TaskStatus.COMPLETED if result.get("ready") is True:
            return Ready({k: v for k, v in result.items() if k not in _NOT_ADDRESS})
        case TaskStatus.COMPLETED:
            return Failed(
                code=NOT_READY,
                phase="report",
                reason="the agent ended without saying that it is ready",
                clean=False,
                retryable=False,
            )
        case TaskStatus.FAILED:
            return Failed(
                code=str(task["error_code"]),
                phase=str(result.get("phase", "")),
                reason=str(task["error_detail"] or task["error_code"]),
                clean=is_clean(result),
                retryable=task["error_code"] in RETRYABLE,
            )
        case TaskStatus.EXPIRED if task["dispatched_at"] is None:
            return Failed(
                code=UNREACHABLE,
                phase="dispatch",
                reason="no agent of the node asked for the work in time",
                clean=False,
                retryable=True,
                touched=False,
            )
        case TaskStatus.EXPIRED:
            return Failed(
                code=EXPIRED,
                phase="host",
                reason="the agent took the work and did not end it in time",
                clean=False,
                retryable=False,
            )
        case TaskStatus.QUEUED | TaskStatus.DISPATCHED:
            raise AssertionError(f"task {task['id']} has not ended")


@dataclass(frozen=True, slots=True)
class TakenBack:
    """How an attempt to clean up ended."""

    proof: Mapping[str, Any] | None
    """What was said of it, whole or in part; None if nothing was."""

    is_proved: bool
    reason: str
    """Why it is not proved; empty if it is."""


def of_taken_back(task: Row) -> TakenBack:
    """A proof counts only when the agent ended well and all of it is true."""
    result = _result(task)
    said = {part: result[part] for part in (*PROOF, "hard_stopped") if part in result}
    proof = {**said, "task_id": task["id"]} if said else None
    missing = ", ".join(part for part in PROOF if result.get(part) is not True)
    match TaskStatus(task["status"]):
        case TaskStatus.COMPLETED if not missing:
            return TakenBack(proof, is_proved=True, reason="")
        case TaskStatus.COMPLETED:
            return TakenBack(proof, is_proved=False, reason=f"{NOT_PROVED}: {missing}")
        case TaskStatus.FAILED:
            reason = f"{task['error_code']}: {task['error_detail'] or 'no detail'}"
            return TakenBack(proof, is_proved=False, reason=reason)
        case TaskStatus.EXPIRED:
            code = UNREACHABLE if task["dispatched_at"] is None else EXPIRED
            return TakenBack(proof, is_proved=False, reason=f"{code}: no result in time")
        case TaskStatus.QUEUED | TaskStatus.DISPATCHED:
            raise AssertionError(f"task {task['id']} has not ended")


def _result(task: Row) -> Mapping[str, Any]:
    return task["result"] if isinstance(task["result"], dict) else {}
