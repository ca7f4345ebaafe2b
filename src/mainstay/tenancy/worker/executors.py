"""Who is alive: each worker process says so every second, and the others take over from the dead.

The engine does not do that by itself. A worker that only seemed dead loses nothing but its turn:
the engine lets it note nothing any more, and every step stands being run twice.
"""

from typing import Final

from mainstay.tenancy.database.connect import Pool
from mainstay.tenancy.worker.port import Workflows
from mainstay.tenancy.worker.tools import short_transaction

_LOCK: Final = 0x6D61696E_72656170
"""Of the database, for the one who takes over at a time."""

_FORGET_S: Final = 3600.0


async def beat(pool: Pool, executor: str) -> None:
    """Say that this executor lives. It must be said before its engine starts."""
    async with short_transaction(pool) as tx:
        await tx.execute(
            """insert into executors (id) values (%s)
               on conflict (id) do update set seen_at = clock_timestamp()""",
            [executor],
        )


async def leave(pool: Pool, executor: str) -> None:
    """Say that it is going: what it has in hand is taken over at once."""
    async with short_transaction(pool) as tx:
        await tx.execute("delete from executors where id = %s", [executor])


async def take_over(pool: Pool, workflows: Workflows, *, dead_after_s: float) -> list[str]:
    """Resume the work of all who have not been seen for a while; its ids.

    One at a time does so. A second would look at what the first had read, and wake work that
    somebody living has taken up meanwhile.
    """
    async with short_transaction(pool) as tx:
        turn = await tx.execute("select pg_try_advisory_xact_lock(%s) as ours", [_LOCK])
        row = await turn.fetchone()
        if row is None or not row["ours"]:
            return []
        unfinished = await workflows.unfinished()
        found = await tx.execute(
            """select id from executors
               where seen_at > clock_timestamp() - make_interval(secs => %s)""",
            [dead_after_s],
        )
        alive = {executor["id"] for executor in await found.fetchall()}
        orphans = [work.workflow_id for work in unfinished if work.executor not in alive]
        for workflow_id in orphans:
            await workflows.resume(workflow_id)
        await tx.execute(
            """delete from executors
               where seen_at < clock_timestamp() - make_interval(secs => %s)""",
            [max(_FORGET_S, dead_after_s)],
        )
    return orphans
