"""Routes of administrators: allocations of every project, events that failed, money, the audit.

Nothing here needs SQL by hand: what gets stuck is freed by these.
"""

import dataclasses
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from mainstay.tenancy import (
    audit_log,
    catalogue,
    cleanup,
    failed_events,
    money,
    projects,
    release,
    views,
)
from mainstay.tenancy.attempts import attempted
from mainstay.tenancy.audit_log import Search
from mainstay.tenancy.billing.account import AMOUNT_MINOR_MAX, Correction, Credit
from mainstay.tenancy.http import shapes
from mainstay.tenancy.http.caller import ID_PATTERN, INSPECTS, Caller, GivenParts, Operator, Parts
from mainstay.tenancy.http.once import Mutation, Once
from mainstay.tenancy.http.shapes import INT4_MAX, INT8_MAX, Id, Said, Text, picked
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.projects import NewProject
from mainstay.tenancy.states import Status

router: Final = APIRouter(prefix="/admin", tags=["admin"])

AnId = Annotated[str, Path(pattern=ID_PATTERN)]
AnyId = Annotated[str | None, Query(pattern=ID_PATTERN)]
Limit = Annotated[int, Query(ge=1, le=200)]
Position = Annotated[int, Query(ge=0, le=INT8_MAX)]
Before = Annotated[int | None, Query(ge=0, le=INT8_MAX)]
Minor = Annotated[int, Field(ge=-AMOUNT_MINOR_MAX, le=AMOUNT_MINOR_MAX)]


@router.get("/allocations", dependencies=[INSPECTS])
async def allocations(
    parts: GivenParts,
    project_id: AnyId = None,
    status: Status | None = None,
    cursor: Annotated[str | None, Query(max_length=400)] = None,
    limit: Limit = 50,
) -> shapes.Allocations:
    """Allocations of every project, newest first; `status=release_failed` is what needs a hand."""
    query = views.Query(project=project_id, status=status, cursor=cursor, limit=limit)
    return shapes.Allocations.of(await views.page(parts.pool, query))


@router.get("/allocations/{allocation_id}", dependencies=[INSPECTS])
async def allocation(allocation_id: AnId, parts: GivenParts) -> shapes.AllocationDetail:
    """Any allocation."""
    found = await views.show(parts.pool, allocation_id, project=None)
    return shapes.AllocationDetail.shown(found)


@router.post("/allocations/{allocation_id}/force-release", response_model=shapes.Allocation)
async def force_release(
    allocation_id: AnId, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Release it: clean-up runs, again if need be, and must be proved."""

    async def work(ids: Ids) -> shapes.Allocation:
        row = await release.force_release(parts.pool, ids, allocation_id, by=caller.name)
        return shapes.Allocation.of(row)

    return await once.answer(work)


class Cleanup(Said):
    """What an administrator knows of the node."""

    runtime_verified_absent: bool


@router.post("/allocations/{allocation_id}/force-cleanup", response_model=shapes.Allocation)
async def force_cleanup(
    allocation_id: AnId, body: Cleanup, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Give up what is stuck before it was active; its slots are free only if nothing runs there."""
    absent = body.runtime_verified_absent

    async def work(ids: Ids) -> shapes.Allocation:
        row = await cleanup.force_cleanup(
            parts.pool, ids, allocation_id, runtime_verified_absent=absent, by=caller.name
        )
        return shapes.Allocation.of(row)

    return await once.answer(work)


class GaveUp(BaseModel):
    """A consumer that could not."""

    consumer: str
    attempts: int
    error: str


class FailedEvent(BaseModel):
    """An event that waits for a decision."""

    event_id: str
    event_type: str
    key: str
    position: int
    status: str
    attempts: int
    error: str
    gave_up: list[GaveUp]
    created_at: datetime
    held: int


class FailedEvents(BaseModel):
    """A page, oldest first; go on after the last position."""

    items: list[FailedEvent]


class Decision(Said):
    """Why."""

    reason: Text = ""


@router.get("/outbox/failed", dependencies=[INSPECTS])
async def failed(parts: GivenParts, after: Position = 0, limit: Limit = 100) -> FailedEvents:
    """Events that the bus or a consumer refused too often."""
    found = await failed_events.failed(parts.pool, after=after, limit=limit)
    return FailedEvents(items=[FailedEvent(**dataclasses.asdict(event)) for event in found])


@router.post("/outbox/{event_id}/requeue", response_model=shapes.Done)
async def requeue(
    event_id: AnId, body: Decision, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Begin anew with a failed event."""
    return await _decided(failed_events.requeue, parts, caller, (event_id, body.reason), once)


@router.post("/outbox/{event_id}/discard", response_model=shapes.Done)
async def discard(
    event_id: AnId, body: Decision, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Give a failed event up for good: the later ones of its key go on."""
    return await _decided(failed_events.discard, parts, caller, (event_id, body.reason), once)


async def _decided(
    decide: Callable[..., Awaitable[None]],
    parts: Parts,
    caller: Caller,
    what: tuple[str, str],
    once: Once,
) -> JSONResponse:
    event_id, reason = what
    operator = failed_events.Operator(
        name=caller.name,
        role=str(caller.role),
        correlation_id=caller.correlation_id,
        reason=reason,
    )

    async def work(_: Ids) -> shapes.Done:
        await decide(parts.pool, event_id, operator)
        return shapes.Done(id=event_id)

    return await once.answer(work)


class NewProjectBody(Said):
    """A project; without an account it gets one of its own."""

    name: Text
    account_id: Id | None = None
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    low_balance_minor: Minor = 0
    priority: int = Field(default=0, ge=-INT4_MAX, le=INT4_MAX)


@router.post("/projects", status_code=201, response_model=shapes.Project)
async def new_project(
    body: NewProjectBody, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Make a project."""
    new = NewProject(
        name=body.name,
        account=body.account_id,
        currency=body.currency,
        low_balance_minor=body.low_balance_minor,
        priority=body.priority,
    )

    async def work(ids: Ids) -> shapes.Project:
        row = await projects.create(parts.pool, ids, new, caller.who)
        return shapes.Project(**picked(shapes.Project, row))

    return await once.answer(work, status=201)


class NewCredit(Said):
    """Money that came in."""

    amount_minor: int = Field(ge=1, le=AMOUNT_MINOR_MAX)
    payment_key: Id
    """Of the payment: the same is booked once, whatever the idempotency key."""

    reason: Text = ""


class Booking(BaseModel):
    """A row of the ledger."""

    id: int
    account_id: str
    amount_minor: int
    currency: str
    kind: str
    allocation_id: str | None
    corrects_id: int | None
    reason: str
    created_at: datetime


@router.post("/accounts/{account_id}/credits", status_code=201, response_model=Booking)
async def credit(
    account_id: AnId, body: NewCredit, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Book money that came in. What ended for want of it does not begin again by itself."""
    booked = Credit(
        account=account_id,
        amount_minor=body.amount_minor,
        key=body.payment_key,
        reason=body.reason,
        correlation_id=caller.correlation_id,
    )

    async def work(ids: Ids) -> Booking:
        row = await money.credit(parts.pool, ids, booked, caller.who)
        return Booking(**picked(Booking, row))

    return await once.answer(work, status=201)


class NewCorrection(Said):
    """What makes an entry right."""

    amount_minor: Minor
    key: Id
    reason: Annotated[Text, Field(min_length=1)]


@router.post("/ledger/{entry}/corrections", status_code=201, response_model=Booking)
async def correct(
    entry: Annotated[int, Path(ge=1, le=INT8_MAX)],
    body: NewCorrection,
    parts: GivenParts,
    caller: Operator,
    once: Mutation,
) -> JSONResponse:
    """Correct an entry by another one; the entry stays."""
    made = Correction(entry=entry, amount_minor=body.amount_minor, key=body.key, reason=body.reason)

    async def work(ids: Ids) -> Booking:
        row = await money.correct(parts.pool, ids, made, caller.who)
        return Booking(**picked(Booking, row))

    return await once.answer(work, status=201)


class LoadedCatalogue(BaseModel):
    """How many entries of each table were made, changed, or there already."""

    made: dict[str, int]
    changed: dict[str, int]
    same: dict[str, int]


@router.post("/catalogue", response_model=LoadedCatalogue)
async def load_catalogue(
    body: dict[str, Any], parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Load a catalogue: the tables of the TOML file as JSON. All of it, or nothing."""

    async def work(_: Ids) -> LoadedCatalogue:
        attempt = caller.who.tries("catalogue.load", "catalogue", "catalogue")
        async with attempted(parts.pool, attempt) as tx:
            loaded = await catalogue.load_in(tx, body)
        return LoadedCatalogue(**dataclasses.asdict(loaded))

    return await once.answer(work)


class AuditRow(BaseModel):
    """Something that somebody tried."""

    id: int
    at: datetime
    actor: str
    actor_role: str
    action: str
    target_type: str
    target_id: str
    result: str
    correlation_id: str
    metadata: dict[str, Any]


class AuditRows(BaseModel):
    """A page, newest first; go on before the last id."""

    items: list[AuditRow]


_Searched = Annotated[str | None, Query(max_length=200, pattern=r"^[\x20-\x7e]*$")]


@router.get("/audit", dependencies=[INSPECTS])
async def audit(
    parts: GivenParts,
    action: _Searched = None,
    target: _Searched = None,
    before: Before = None,
    limit: Limit = 100,
) -> AuditRows:
    """Who tried what, and whether it was done."""
    search = Search(action=action, target=target, before=before, limit=limit)
    rows = await audit_log.read(parts.pool, search)
    return AuditRows(items=[AuditRow(**picked(AuditRow, row)) for row in rows])
