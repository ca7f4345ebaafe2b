"""Routes that say when, and those by which administrators see all that is waited for."""

from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from mainstay.model.questions import Expected
from mainstay.tenancy import capacity, expected_rows
from mainstay.tenancy.expected_rows import Waits
from mainstay.tenancy.http.caller import ID_PATTERN, INSPECTS, GivenParts, Project
from mainstay.tenancy.http.capacity import CapacityRequest, CapacityRequests
from mainstay.tenancy.states import CapacityState

router: Final = APIRouter(tags=["tenant"])
admin: Final = APIRouter(prefix="/admin", tags=["admin"])

AnId = Annotated[str, Path(pattern=ID_PATTERN)]


class After(BaseModel):
    """The need of a cluster that comes first, and how long nodes of the kind take to join.

    `joining_s` is from the bootstrap of a machine until its node is given out, null if none was
    yet. `age_s` is how long the youngest has been at it now, `left_s` what is left of that, null
    if it takes longer than any did.
    """

    cluster: str
    need: str
    joining_s: float | None
    age_s: float
    left_s: float | None


class Expectation(BaseModel):
    """When, and why then; `seconds` are from now, of `about` and `not_before` only.

    `unspecified`: nothing is on its way. With `after`, a shard has to be asked about that need.
    """

    when: str
    seconds: float
    because: list[str]
    after: After | None = None

    @classmethod
    def of(cls, told: Expected, after: After | None = None) -> "Expectation":
        """From what the rows tell."""
        return cls(
            when=told.when.name.lower(),
            seconds=told.seconds,
            because=list(told.because),
            after=after,
        )


def _waits(found: Waits) -> Expectation:
    after = None if found.after is None else After(**asdict(found.after))
    return Expectation.of(found.expected, after)


@router.get("/allocations/{allocation_id}/expected")
async def of_allocation(allocation_id: AnId, parts: GivenParts, project: Project) -> Expectation:
    """When it is active, or clean, by how long that took others."""
    return Expectation.of(
        await expected_rows.of_allocation(parts.pool, allocation_id, project=project)
    )


@router.get("/capacity-requests/{request_id}/expected")
async def of_request(request_id: AnId, parts: GivenParts, project: Project) -> Expectation:
    """When it has its room: behind which need of which cluster, and what comes after it."""
    return _waits(await expected_rows.of_request(parts.pool, request_id, project=project))


class AllCapacityRequests(CapacityRequests):
    """Those of every project or of one, newest first, and how many of all wait."""

    waiting: int


@admin.get("/capacity-requests", dependencies=[INSPECTS])
async def listed(
    parts: GivenParts,
    state: CapacityState | None = None,
    project_id: Annotated[str | None, Query(pattern=ID_PATTERN)] = None,
    limit: Annotated[int, Query(ge=1, le=capacity.PAGE_MAX)] = 50,
) -> AllCapacityRequests:
    """Those of every project, or of one, newest first."""
    rows = await capacity.listed(parts.pool, project=project_id, state=state, limit=limit)
    waiting = await capacity.count_waiting(parts.pool, project=project_id)
    return AllCapacityRequests(items=[CapacityRequest.of(row) for row in rows], waiting=waiting)


@admin.get("/capacity-requests/{request_id}", dependencies=[INSPECTS])
async def shown(request_id: AnId, parts: GivenParts) -> CapacityRequest:
    """Any of them."""
    return CapacityRequest.of(await capacity.show(parts.pool, request_id, project=None))
