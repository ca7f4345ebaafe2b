"""The one function that moves an allocation: the edge, the guard, the time, the event."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from mainstay.model.errors import Rejected
from mainstay.tenancy import outbox
from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.states import Actor, Edge, IllegalStep, Status, edge


class AllocationNotFound(Rejected):
    """There is none with this id, or it is another project's."""

    code = "allocation_not_found"
    what_to_do = "check the id and the project"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where an allocation is to go, and what is written with it."""

    new: Status
    actor: Actor
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of its row."""

    payload: Mapping[str, Any] = field(default_factory=dict)
    """Further facts of the event."""


async def locked(tx: Connection, allocation: str) -> Row:
    """The row, locked until the transaction ends."""
    found = await tx.execute("select * from allocations where id = %s for update", [allocation])
    row = await found.fetchone()
    if row is None:
        raise AllocationNotFound(f"no allocation {allocation}")
    return row


async def move(tx: Connection, ids: Ids, row: Row, step: Step) -> Row:
    """Take one edge of the table; the row as it is then.

    Raises IllegalStep where there is none, and where somebody else has moved it since it was read:
    then nothing is written.
    """
    found = edge(Status(row["status"]), step.new, step.actor)
    moved = await _written(tx, row, found, step.changes)
    if found.event is not None:
        await outbox.append(tx, ids, _event(found, moved, step.payload))
    return moved


async def _written(tx: Connection, row: Row, found: Edge, changes: Mapping[str, Any]) -> Row:
    given = {name: value for name, value in changes.items() if name != found.stamps}
    assignments = [
        sql.SQL("{} = %({})s").format(sql.Identifier(name), sql.SQL(name)) for name in given
    ]
    statement = sql.SQL(
        "update allocations set {} where id = %(id)s and version = %(seen)s returning *"
    ).format(
        sql.SQL(", ").join(
            [
                sql.SQL("status = %(status)s"),
                sql.SQL("version = version + 1"),
                sql.SQL("{} = clock_timestamp()").format(sql.Identifier(found.stamps)),
                *assignments,
            ]
        )
    )
    values = {**given, "id": row["id"], "seen": row["version"], "status": str(found.new)}
    moved = await (await tx.execute(statement, values)).fetchone()
    if moved is None:
        raise IllegalStep(f"allocation {row['id']} was moved by somebody else meanwhile")
    return moved


def _event(found: Edge, row: Row, payload: Mapping[str, Any]) -> outbox.Event:
    assert found.event is not None
    stamped = row[found.stamps]
    return outbox.Event(
        event_type=found.event,
        key=row["id"],
        correlation_id=row["correlation_id"],
        payload={
            "allocation_id": row["id"],
            "project_id": row["project_id"],
            "account_id": row["account_id"],
            "sku": row["sku"],
            "gpus": row["gpus"],
            "capacity_shape": row["capacity_shape"],
            "node_id": row["node_id"],
            "at": stamped.isoformat(),
            **payload,
        },
    )
