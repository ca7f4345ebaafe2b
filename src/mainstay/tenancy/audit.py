"""Who tried what, and whether it was done: a row per attempt, in the transaction of what it did."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mainstay.model.errors import MainstayError
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Something that somebody tried to do."""

    by: str
    role: str
    action: str
    """Such as `allocation.release`."""

    target: str
    target_type: str = "allocation"
    correlation_id: str = ""
    """Empty when what was tried is not known, so that there was nothing to correlate with."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Never a secret."""

    def about(self, row: Row) -> "Attempt":
        """The same, with what the allocation is correlated by."""
        return replace(self, correlation_id=row["correlation_id"])


async def record(tx: Connection, attempt: Attempt, *, done: bool) -> None:
    """Write the row; it cannot be changed afterwards."""
    await tx.execute(
        """insert into audit (actor, actor_role, action, target_type, target_id, result,
                              correlation_id, metadata)
           values (%s, %s, %s, %s, %s, %s, %s, %s::jsonb)""",
        [
            attempt.by,
            attempt.role,
            attempt.action,
            attempt.target_type,
            attempt.target,
            "success" if done else "failure",
            attempt.correlation_id,
            json.dumps(dict(attempt.metadata)),
        ],
    )


async def refused(pool: Pool, attempt: Attempt, error: MainstayError) -> None:
    """What was refused was tried all the same; the transaction that refused it is gone."""
    async with transaction(pool) as tx:
        found = await tx.execute(
            "select correlation_id from allocations where id = %s", [attempt.target]
        )
        row = await found.fetchone()
        told = attempt if row is None else attempt.about(row)
        why = {**told.metadata, "code": error.code}
        await record(tx, replace(told, metadata=why), done=False)
