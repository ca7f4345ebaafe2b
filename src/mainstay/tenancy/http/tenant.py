"""Routes of tenants: allocations, SSH keys, the catalogue, money."""

import dataclasses
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from mainstay.tenancy import creation, money, offers, projects, release, ssh_keys, views
from mainstay.tenancy.http import shapes
from mainstay.tenancy.http.caller import (
    ID_PATTERN,
    MANAGES,
    READS,
    GivenParts,
    Project,
    Reader,
    User,
)
from mainstay.tenancy.http.once import Mutation
from mainstay.tenancy.http.shapes import INT8_MAX, picked
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.request import Order
from mainstay.tenancy.states import Actor, Status

router: Final = APIRouter(tags=["tenant"])

AllocationId = Annotated[str, Path(pattern=ID_PATTERN)]
Limit = Annotated[int, Query(ge=1, le=views.PAGE_MAX)]


@router.post("/allocations", status_code=201, response_model=shapes.Allocation)
async def create(
    body: shapes.NewAllocation, parts: GivenParts, caller: User, project: Project, once: Mutation
) -> JSONResponse:
    """Ask for capacity: all of it, or `sku_unavailable` with the reason and what else there is."""
    order = Order(
        project=project,
        by=caller.name,
        sku=body.sku,
        gpus=body.gpus,
        region=body.region,
        ssh_keys=tuple(body.ssh_key_ids),
        correlation_id=caller.correlation_id,
    )

    async def work(ids: Ids) -> shapes.Allocation:
        made = await creation.requested(parts.pool, ids, order, is_first=once.is_first)
        return shapes.Allocation.of(made)

    return await once.answer(work, status=201)


@router.get("/allocations")
async def listed(
    parts: GivenParts,
    project: Project,
    status: Status | None = None,
    cursor: Annotated[str | None, Query(max_length=400)] = None,
    limit: Limit = 50,
) -> shapes.Allocations:
    """Allocations of the project, newest first."""
    query = views.Query(project=project, status=status, cursor=cursor, limit=limit)
    return shapes.Allocations.of(await views.page(parts.pool, query))


@router.get("/allocations/{allocation_id}")
async def show(
    allocation_id: AllocationId, parts: GivenParts, project: Project
) -> shapes.AllocationDetail:
    """One allocation with its claims, how to reach it, and the proof of its clean-up."""
    found = await views.show(parts.pool, allocation_id, project=project)
    return shapes.AllocationDetail.shown(found)


@router.get("/allocations/{allocation_id}/timeline")
async def timeline(
    allocation_id: AllocationId, parts: GivenParts, project: Project
) -> shapes.Timeline:
    """What happened to it and when, told by its rows."""
    found = await views.show(parts.pool, allocation_id, project=project)
    return shapes.Timeline(
        allocation_id=allocation_id,
        status=found.allocation["status"],
        moments=[shapes.Line.of(moment) for moment in found.timeline],
    )


@router.get("/allocations/{allocation_id}/bill")
async def bill(
    allocation_id: AllocationId, parts: GivenParts, project: Project
) -> shapes.AllocationBill:
    """What it has cost, over all months."""
    found = await money.bill_of(parts.pool, project, allocation_id)
    return shapes.AllocationBill(**dataclasses.asdict(found))


@router.post("/allocations/{allocation_id}/release", response_model=shapes.Allocation)
async def give_back(
    allocation_id: AllocationId, parts: GivenParts, caller: User, project: Project, once: Mutation
) -> JSONResponse:
    """Give it back; before it is active this cancels it. Said again, it changes nothing."""

    async def work(ids: Ids) -> shapes.Allocation:
        row = await release.release(
            parts.pool, ids, allocation_id, actor=Actor.TENANT, by=caller.name, project=project
        )
        return shapes.Allocation.of(row)

    return await once.answer(work)


@router.get("/ssh-keys")
async def ssh_key_list(parts: GivenParts, project: Project) -> shapes.SshKeys:
    """The SSH keys of the project."""
    rows = await ssh_keys.listed(parts.pool, project)
    return shapes.SshKeys(items=[shapes.SshKey(**picked(shapes.SshKey, row)) for row in rows])


@router.post("/ssh-keys", status_code=201, response_model=shapes.SshKey, dependencies=[MANAGES])
async def ssh_key_add(
    body: shapes.NewSshKey, parts: GivenParts, project: Project, once: Mutation
) -> JSONResponse:
    """Add the public half of an SSH key."""

    async def work(ids: Ids) -> shapes.SshKey:
        row = await ssh_keys.add(parts.pool, ids, project, body.name, body.public_key)
        return shapes.SshKey(**picked(shapes.SshKey, row))

    return await once.answer(work, status=201)


@router.delete("/ssh-keys/{key_id}", response_model=shapes.Done, dependencies=[MANAGES])
async def ssh_key_remove(
    key_id: AllocationId, parts: GivenParts, project: Project, once: Mutation
) -> JSONResponse:
    """Remove an SSH key that no allocation names."""

    async def work(_: Ids) -> shapes.Done:
        await ssh_keys.remove(parts.pool, project, key_id)
        return shapes.Done(id=key_id)

    return await once.answer(work)


@router.get("/me")
async def me(caller: Reader) -> shapes.Me:
    """Who the caller is."""
    return shapes.Me(name=caller.name, role=str(caller.role), project_id=caller.project)


@router.get("/projects")
async def project_list(
    parts: GivenParts,
    caller: Reader,
    after: Annotated[str, Query(max_length=128, pattern=r"^[\x20-\x7e]*$")] = "",
    limit: Limit = 100,
) -> shapes.Projects:
    """The caller's project, or a page of all of them for who sees all."""
    rows = await projects.listed(parts.pool, project=caller.project, after=after, limit=limit)
    return shapes.Projects(items=[shapes.Project(**picked(shapes.Project, row)) for row in rows])


@router.get("/catalog", dependencies=[READS])
async def catalog(parts: GivenParts) -> shapes.Catalog:
    """What can be asked for, what it costs, and what is free."""
    found = await offers.offers(parts.pool)
    return shapes.Catalog(
        skus=[shapes.Sku(**picked(shapes.Sku, row)) for row in found.skus],
        regions=[shapes.Region(**row) for row in found.regions],
        rooms=[shapes.Room(**dataclasses.asdict(room)) for room in found.rooms],
    )


@router.get("/billing/balance")
async def balance(parts: GivenParts, project: Project) -> shapes.Balance:
    """What the account has that pays for the project, and how long it lasts."""
    found = await money.balance_of(parts.pool, project)
    return shapes.Balance(**dataclasses.asdict(found))


@router.get("/billing/usage")
async def usage(
    parts: GivenParts,
    project: Project,
    after: Annotated[int, Query(ge=0, le=INT8_MAX)] = 0,
    limit: Limit = 100,
) -> shapes.Usage:
    """What was metered for the project's allocations."""
    rows = await money.usage_of(parts.pool, project, after=after, limit=limit)
    found = [shapes.UsageRecord(**picked(shapes.UsageRecord, row)) for row in rows]
    return shapes.Usage(items=found)


@router.get("/billing/statement")
async def statement(
    parts: GivenParts,
    project: Project,
    month: Annotated[str | None, Query(pattern=r"^[0-9]{4}-[0-9]{2}$")] = None,
) -> shapes.Statement:
    """The bill of a month, such as 2026-11; the present one by default."""
    found = await money.statement_of(parts.pool, project, month)
    return shapes.Statement(**dataclasses.asdict(found))
