"""Results that came after their task had expired: kept, looked at once, and they revive nothing."""

from typing import Final

from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction

AT_ONCE: Final = 1000


async def listed(pool: Pool) -> list[Row]:
    """Those that nobody has looked at yet."""
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select late.*, task.node_id, task.allocation_id, task.task_type, task.attempt,
                      task.params, task.correlation_id
               from late_results late join node_tasks task on task.id = late.task_id
               where late.handled_at is null order by late.received_at limit %s""",
            [AT_ONCE],
        )
        return await found.fetchall()


async def handled(tx: Connection, task: str) -> bool:
    """Mark it, in the transaction of what is done about it; False if somebody else has."""
    changed = await tx.execute(
        """update late_results set handled_at = clock_timestamp()
           where task_id = %s and handled_at is null""",
        [task],
    )
    return changed.rowcount == 1
