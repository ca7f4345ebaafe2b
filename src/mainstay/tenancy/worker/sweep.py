"""What nobody waits for: tasks that ran out, and results that came after that."""

from mainstay.tenancy import cleanup, late_results, tasks
from mainstay.tenancy.cancel import BEFORE_ACTIVE
from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.holdings import live_claims
from mainstay.tenancy.states import TaskStatus
from mainstay.tenancy.transition import locked
from mainstay.tenancy.work import GIVES, is_clean
from mainstay.tenancy.worker import plans
from mainstay.tenancy.worker.port import Workflows
from mainstay.tenancy.worker.tools import Tools, short_transaction


async def sweep(tools: Tools, workflows: Workflows) -> None:
    """Once round. Several workers may do so at a time."""
    tools.metrics.expired(len(await tasks.expire(tools.pool)))
    for late in await late_results.listed(tools.pool):
        await _deal_with(tools, workflows, late)


async def _deal_with(tools: Tools, workflows: Workflows, late: Row) -> None:
    """A host that was given up has answered after all: what it made is taken down, and proved."""
    async with short_transaction(tools.pool) as tx:
        row = await locked(tx, late["allocation_id"]) if late["allocation_id"] else None
        if row is not None and row["status"] in BEFORE_ACTIVE:
            return  # its own work has not seen yet that the task ran out
        if not await late_results.handled(tx, late["task_id"]):
            return
        if row is None or not await _may_stand(tx, row, late):
            return
        if await cleanup.late_success(tx, row) is None:
            return
        argument = {"allocation": row["id"], "given": late["attempt"]}
        await workflows.start(f"remains-{late['task_id']}", plans.REMAINS, argument)


async def _may_stand(tx: Connection, row: Row, late: Row) -> bool:
    """Whether something is on the host, or is thought to be, because of this task."""
    if late["task_type"] not in GIVES:
        return False
    if late["status"] == TaskStatus.COMPLETED or not is_clean(late["result"]):
        return True
    return bool(await live_claims(tx, row["id"]))
