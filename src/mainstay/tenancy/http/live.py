"""Notices: a page by cursor, or a stream of server-sent events that goes on where it broke off."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from mainstay.tenancy import notices
from mainstay.tenancy.bell import Channel
from mainstay.tenancy.database.connect import Row
from mainstay.tenancy.http.caller import ID_PATTERN, GivenParts, Parts, Project
from mainstay.tenancy.http.shapes import INT8_MAX, Notice, Notices, picked
from mainstay.tenancy.notices import PAGE_MAX

router: Final = APIRouter(tags=["tenant"])

HEARTBEAT_S: Final = 15.0
STREAM_S: Final = 900.0
"""A stream ends after this and is opened again: a key that was revoked hears no more."""

RETRY_MS: Final = 1000

Cursor = Annotated[int, Query(ge=0, le=INT8_MAX, description="The last position seen.")]
LastSeen = Annotated[
    int | None, Header(alias="Last-Event-ID", ge=0, le=INT8_MAX, description="Wins over `after`.")
]
AllocationId = Annotated[
    str | None, Query(pattern=ID_PATTERN, description="Of this allocation only.")
]


@router.get("/notices")
async def page(
    parts: GivenParts,
    project: Project,
    after: Cursor = 0,
    allocation_id: AllocationId = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> Notices:
    """What happened since a position, oldest first."""
    rows = await notices.since(
        parts.pool, project, after=after, allocation=allocation_id, limit=limit
    )
    items = [Notice(**picked(Notice, row)) for row in rows]
    return Notices(items=items, next_cursor=items[-1].position if items else after)


@router.get(
    "/notices/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream(
    parts: GivenParts,
    project: Project,
    after: Cursor = 0,
    allocation_id: AllocationId = None,
    last_event_id: LastSeen = None,
) -> StreamingResponse:
    """The same, as it happens. The id of an event is its position."""
    start = after if last_event_id is None else last_event_id
    told = _told(parts, project, start, allocation_id)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(told, media_type="text/event-stream", headers=headers)


async def _told(
    parts: Parts, project: str, after: int, allocation: str | None
) -> AsyncIterator[str]:
    clock = parts.clock
    until_s = clock.elapsed_s() + STREAM_S
    yield f"retry: {RETRY_MS}\n\n"
    quiet_since_s = clock.elapsed_s()
    with parts.bell.wait(Channel.NOTICED, project) as wait:
        while clock.elapsed_s() < until_s:
            rows = await notices.since(parts.pool, project, after=after, allocation=allocation)
            for row in rows:
                after = row["position"]
                quiet_since_s = clock.elapsed_s()
                yield _event(row)
            if rows:
                continue
            if clock.elapsed_s() - quiet_since_s >= HEARTBEAT_S:
                quiet_since_s = clock.elapsed_s()
                yield ": still here\n\n"
            await wait.rings(at_most_s=HEARTBEAT_S)


def _event(row: Row) -> str:
    body = Notice(**picked(Notice, row)).model_dump(mode="json")
    return f"id: {row['position']}\nevent: {row['event_type']}\ndata: {json.dumps(body)}\n\n"
