"""Routes for capacity that is waited for."""

from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from mainstay.tenancy import capacity
from mainstay.tenancy.capacity import WAIT_S, WAIT_S_MAX, Wish
from mainstay.tenancy.database.connect import Row
from mainstay.tenancy.http import shapes
from mainstay.tenancy.http.caller import ID_PATTERN, GivenParts, Project, User
from mainstay.tenancy.http.once import Mutation
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.request import Order
from mainstay.tenancy.states import CapacityState

router: Final = APIRouter(tags=["tenant"])


class NewCapacityRequest(shapes.NewAllocation):
    """The same, and how long to wait for it."""

    wait_s: int = Field(default=WAIT_S, ge=1, le=WAIT_S_MAX)


class CapacityRequest(BaseModel):
    """Capacity that is waited for; `allocation_id` is what it became."""

    request_id: str
    project_id: str
    state: CapacityState
    sku: str
    gpus: int
    region: str
    reason: str
    allocation_id: str | None
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    correlation_id: str

    @classmethod
    def of(cls, row: Row) -> "CapacityRequest":
        """From its row."""
        same = cls.model_fields.keys() & row.keys()
        return cls(**{name: row[name] for name in same}, request_id=row["id"])


class CapacityRequests(BaseModel):
    """Those of a project, newest first."""

    items: list[CapacityRequest]


RequestId = Annotated[str, Path(pattern=ID_PATTERN)]


@router.post("/capacity-requests", status_code=201, response_model=CapacityRequest)
async def ask(
    body: NewCapacityRequest, parts: GivenParts, caller: User, project: Project,
    once: Mutation,
) -> JSONResponse:  # fmt: skip
    """Ask for capacity and wait for it; `sku_unavailable` at once when nobody brings any."""
    order = Order(
        project=project,
        by=caller.name,
        sku=body.sku,
        gpus=body.gpus,
        region=body.region,
        ssh_keys=tuple(body.ssh_key_ids),
        correlation_id=caller.correlation_id,
    )

    async def work(ids: Ids) -> CapacityRequest:
        row = await capacity.ask(parts.pool, ids, Wish(order=order, wait_s=body.wait_s))
        return CapacityRequest.of(row)

    return await once.answer(work, status=201)


@router.get("/capacity-requests")
async def listed(
    parts: GivenParts,
    project: Project,
    limit: Annotated[int, Query(ge=1, le=capacity.PAGE_MAX)] = 100,
) -> CapacityRequests:
    """Those of the project, newest first."""
    rows = await capacity.listed(parts.pool, project=project, limit=limit)
    return CapacityRequests(items=[CapacityRequest.of(row) for row in rows])


@router.get("/capacity-requests/{request_id}")
async def show(request_id: RequestId, parts: GivenParts, project: Project) -> CapacityRequest:
    """One of them, with its allocation once there is one."""
    row = await capacity.show(parts.pool, request_id, project=project)
    return CapacityRequest.of(row)


@router.post("/capacity-requests/{request_id}/cancel", response_model=CapacityRequest)
async def cancel(
    request_id: RequestId, parts: GivenParts, caller: User, project: Project, once: Mutation
) -> JSONResponse:
    """Wait no longer; said too late it changes nothing."""
    del caller  # who may use

    async def work(_: Ids) -> CapacityRequest:
        row = await capacity.cancel(parts.pool, request_id, project=project)
        return CapacityRequest.of(row)

    return await once.answer(work)
