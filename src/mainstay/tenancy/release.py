"""An allocation is given back: by its tenant, by billing or by an admin, as often as they say so.

One call for all: what is active is released, what could not be cleaned is tried again, what is not
active yet is cancelled, and what is on its way or done stays as it is.
"""

from mainstay.model.errors import Rejected
from mainstay.tenancy import audit, cancel, settle
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.states import Actor, NotYours, Status
from mainstay.tenancy.transition import AllocationNotFound


async def release(
    pool: Pool, ids: Ids, allocation: str, *, actor: Actor, by: str, project: str | None
) -> Row:
    """The allocation as it is afterwards. `project` None is for those who see every project.

    Refused: a failed allocation (it was never given), and whoever the table does not name.
    Another project's allocation does not exist.
    """
    try:
        async with transaction(pool) as tx:
            row = await _seen(tx, allocation, actor, project)
            return await given_back(tx, ids, row, actor=actor, by=by)
    except Rejected as error:
        await audit.refused(pool, _attempt(actor, by, allocation), error)
        raise


async def given_back(tx: Connection, ids: Ids, row: Row, *, actor: Actor, by: str) -> Row:
    """The same of a row that is locked, as a part of more; what is refused is the caller's."""
    moved = await _moved(tx, ids, row, actor)
    await audit.record(tx, _attempt(actor, by, row["id"]).about(row), done=True)
    return moved


async def force_release(pool: Pool, ids: Ids, allocation: str, *, by: str) -> Row:
    """The same by an admin, for any project: clean-up runs again, and is proved again."""
    return await release(pool, ids, allocation, actor=Actor.ADMIN, by=by, project=None)


retry = release
"""After `release_failed` one says the same again."""


async def _seen(tx: Connection, allocation: str, actor: Actor, project: str | None) -> Row:
    """The row, locked, if this actor may know of it."""
    if actor is Actor.TENANT and project is None:
        raise NotYours("a tenant sees allocations of a project only: name it")
    found = await tx.execute(
        """select * from allocations
           where id = %(id)s and (%(project)s::text is null or project_id = %(project)s)
           for update""",
        {"id": allocation, "project": project},
    )
    row = await found.fetchone()
    if row is None:
        raise AllocationNotFound(f"no allocation {allocation}")
    return row


async def _moved(tx: Connection, ids: Ids, row: Row, actor: Actor) -> Row:
    if row["status"] in cancel.BEFORE_ACTIVE:
        return await cancel.intend(tx, row, actor)
    if _is_done(row, actor):
        return row
    return await settle.releasing(tx, ids, row, actor)


def _is_done(row: Row, actor: Actor) -> bool:
    """Whether what is asked for is under way or behind us already."""
    match Status(row["status"]):
        case Status.RELEASING | Status.RELEASED:
            return True
        case Status.RELEASE_FAILED:
            return actor is Actor.BILLING  # nobody pays any more
        case Status.FAILED:
            return row["cancel_requested_by"] is not None
        case Status.REQUESTED | Status.PROVISIONING | Status.ACTIVE:
            return False


def _attempt(actor: Actor, by: str, allocation: str) -> audit.Attempt:
    forced = actor in {Actor.ADMIN, Actor.BILLING}
    action = "allocation.force_release" if forced else "allocation.release"
    return audit.Attempt(by=by, role=str(actor), action=action, target=allocation)
