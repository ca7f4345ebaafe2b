"""Routes of API keys: a tenant's own, and every one for administrators."""

from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from mainstay.tenancy import api_keys
from mainstay.tenancy.api_keys import OF_A_PROJECT, NewKey, Role
from mainstay.tenancy.database.connect import Row
from mainstay.tenancy.http.caller import (
    ID_PATTERN,
    MANAGES,
    OPERATES,
    Caller,
    GivenParts,
    Manager,
    Operator,
    Parts,
    Project,
)
from mainstay.tenancy.http.once import Mutation, Once
from mainstay.tenancy.http.shapes import Id, Said, Text, picked
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.states import NotYours

tenant: Final = APIRouter(tags=["tenant"])
admin: Final = APIRouter(prefix="/admin", tags=["admin"])

YEAR_S: Final = 366 * 24 * 3600
SECRET: Final = frozenset({"secret"})
KeyId = Annotated[str, Path(pattern=ID_PATTERN)]


class NewApiKey(Said):
    """A key to be made."""

    role: Role
    name: Text = ""
    valid_s: int | None = Field(default=None, ge=60, le=10 * YEAR_S)


class NewApiKeyOfAny(NewApiKey):
    """The same for any project, or for none."""

    project_id: Id | None = None


class ApiKey(BaseModel):
    """A key without its secret."""

    id: str
    role: Role
    project_id: str | None
    name: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class MadeApiKey(ApiKey):
    """A key that was just made. The secret is shown once; null when this answer is repeated."""

    secret: str | None


class ApiKeys(BaseModel):
    """The newest keys first."""

    items: list[ApiKey]


@tenant.get("/api-keys", dependencies=[MANAGES])
async def listed(parts: GivenParts, project: Project) -> ApiKeys:
    """The API keys of the project."""
    return _all(await api_keys.listed(parts.pool, project=project))


@tenant.post("/api-keys", status_code=201, response_model=MadeApiKey)
async def create(
    body: NewApiKey, parts: GivenParts, caller: Manager, project: Project, once: Mutation
) -> JSONResponse:
    """Make an API key for the project."""
    if body.role not in OF_A_PROJECT:
        raise NotYours(f"a project's key is for a tenant or a member, not for {body.role}")
    new = NewKey(role=body.role, project=project, name=body.name, valid_s=body.valid_s)
    return await _made(parts, caller, new, once)


@tenant.delete("/api-keys/{key_id}", response_model=ApiKey)
async def revoke(
    key_id: KeyId, parts: GivenParts, caller: Manager, project: Project, once: Mutation
) -> JSONResponse:
    """End an API key of the project, now."""
    return await _revoked(parts, caller, key_id, project, once)


@admin.get("/api-keys", dependencies=[OPERATES])
async def listed_of_all(parts: GivenParts) -> ApiKeys:
    """API keys of every project."""
    return _all(await api_keys.listed(parts.pool, project=None))


@admin.post("/api-keys", status_code=201, response_model=MadeApiKey)
async def create_of_any(
    body: NewApiKeyOfAny, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Make an API key of any role."""
    new = NewKey(role=body.role, project=body.project_id, name=body.name, valid_s=body.valid_s)
    return await _made(parts, caller, new, once)


@admin.delete("/api-keys/{key_id}", response_model=ApiKey)
async def revoke_of_any(
    key_id: KeyId, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """End any API key, now."""
    return await _revoked(parts, caller, key_id, None, once)


async def _made(parts: Parts, caller: Caller, new: NewKey, once: Once) -> JSONResponse:
    async def work(ids: Ids) -> MadeApiKey:
        row, secret = await api_keys.create(parts.pool, ids, new, caller.who)
        return MadeApiKey(**picked(ApiKey, row), secret=secret)

    return await once.answer(work, status=201, secret=SECRET)


async def _revoked(
    parts: Parts, caller: Caller, key_id: str, project: str | None, once: Once
) -> JSONResponse:
    async def work(_: Ids) -> ApiKey:
        row = await api_keys.revoke(parts.pool, key_id, project=project, who=caller.who)
        return ApiKey(**picked(ApiKey, row))

    return await once.answer(work)


def _all(rows: list[Row]) -> ApiKeys:
    return ApiKeys(items=[ApiKey(**picked(ApiKey, row)) for row in rows])
