"""What happened to an allocation and when, told by its rows. Nothing is stored for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from mainstay.tenancy.database.connect import Row
from mainstay.tenancy.states import EDGES, Actor, TaskStatus

_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "created_at": "requested",
        "provisioning_started_at": "provisioning_started",
        "release_retried_at": "release_retried",
    }
    | {edge.stamps: str(edge.new) for edge in EDGES if edge.name not in {"A1", "A2", "A8"}}
)
"""The column that an edge stamps, to what people call it."""

_ENDS: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.EXPIRED})


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of a timeline."""

    at: datetime
    what: str
    layer: str
    """`lifecycle` for the allocation itself, `task` for the work on its node."""

    detail: str = ""


def timeline(
    row: Row, claims: Sequence[Row], tasks: Sequence[Row], *, taken: str = ""
) -> tuple[Moment, ...]:
    """The moments in order. Those of one instant stay in the order in which they are caused.

    `taken` is why its machine was taken back, if it was.
    """
    moments = [*_lifecycle(row, claims, taken), *_tasks(tasks)]
    return tuple(sorted(moments, key=lambda moment: moment.at))


def _lifecycle(row: Row, claims: Sequence[Row], taken: str) -> Iterator[Moment]:
    for column, what in _NAMES.items():
        if row[column] is not None:
            yield Moment(row[column], what, "lifecycle", _detail(row, what, taken))
        if column == "created_at" and claims:
            at = min(claim["created_at"] for claim in claims)
            yield Moment(at, "placement_reserved", "lifecycle", row["node_id"])


def _detail(row: Row, what: str, taken: str) -> str:
    if what in {"failed", "release_failed"} and row["failure_reason"]:
        return str(row["failure_reason"])
    if what == "releasing" and row["release_initiator"] and row["release_attempt"] == 1:
        why = f": {taken}" if taken and row["release_initiator"] == Actor.ADMIN else ""
        return f"asked for by {row['release_initiator']}{why}"
    return ""


def _tasks(tasks: Sequence[Row]) -> Iterator[Moment]:
    for task in tasks:
        name = f"{task['task_type']}, attempt {task['attempt']}"
        yield Moment(task["created_at"], "node_task_queued", "task", name)
        if task["dispatched_at"] is not None:
            yield Moment(task["dispatched_at"], "node_task_dispatched", "task", name)
        yield from _phases(task)
        if task["status"] in _ENDS:
            detail = f"{name}: {task['error_code']}" if task["error_code"] else name
            yield Moment(task["ended_at"], f"node_task_{task['status']}", "task", detail)


def _phases(task: Row) -> Iterator[Moment]:
    """What the agent says of its own steps; what it does not say in our form is left out."""
    phases = (task["result"] or {}).get("phases")
    for phase in phases if isinstance(phases, list) else []:
        try:
            at = datetime.fromisoformat(phase["ended_at"])
            name = str(phase["name"])
        except (KeyError, TypeError, ValueError):
            continue
        if at.tzinfo is not None:
            yield Moment(at, name, "task", str(phase.get("status", "")))
