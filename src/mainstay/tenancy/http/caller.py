"""Who calls, and whether they may: API keys and tokens in, one `Caller` out.

Roles are a table from what a route does to who may. A tenant's project comes from the key or the
token and from nowhere else, so that there is no way to name another one.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from fastapi import Depends, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from mainstay.model.errors import Rejected
from mainstay.runtime.clock import Clock
from mainstay.tenancy import api_keys, audit
from mainstay.tenancy.api_keys import PREFIX, Role
from mainstay.tenancy.attempts import Who
from mainstay.tenancy.bell import Bell
from mainstay.tenancy.database.connect import Pool
from mainstay.tenancy.http.errors import correlation_of
from mainstay.tenancy.http.limits import RateLimit
from mainstay.tenancy.http.tokens import TokenInvalid, Tokens
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.request import UnknownProject
from mainstay.tenancy.signing import Signer
from mainstay.tenancy.states import NotYours

ID_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$"


class TokenMissing(Rejected):
    """Nobody said who calls."""

    code = "token_missing"
    what_to_do = "send `Authorization: Bearer` with an API key or a token"


class AdminRequired(Rejected):
    """This is for administrators."""

    code = "admin_required"
    what_to_do = "ask an administrator"


class ProjectMissing(Rejected):
    """Who sees every project must say which one is meant."""

    code = "validation_error"
    what_to_do = "add ?project_id="


class Doing(StrEnum):
    """What a route does."""

    READ = "read"
    USE = "use"
    MANAGE = "manage"
    INSPECT = "inspect"
    OPERATE = "operate"


MAY: Final[Mapping[Doing, frozenset[Role]]] = {
    Doing.READ: frozenset(Role),
    Doing.USE: frozenset({Role.TENANT, Role.MEMBER, Role.ADMIN}),
    Doing.MANAGE: frozenset({Role.TENANT, Role.ADMIN}),
    Doing.INSPECT: frozenset({Role.ADMIN, Role.READONLY}),
    Doing.OPERATE: frozenset({Role.ADMIN}),
}

_PRIVILEGED: Final = frozenset({Doing.INSPECT, Doing.OPERATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All that routes are given from outside."""

    pool: Pool
    ids: Ids
    bell: Bell
    rate: RateLimit
    clock: Clock
    signer: Signer
    tokens: Tokens | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls."""

    name: str
    """`key:<id>` or `oidc:<subject>`: what idempotency keys, limits and the audit go by."""

    role: Role
    project: str | None
    """None: every one."""

    correlation_id: str

    @property
    def who(self) -> Who:
        """For the audit."""
        return Who(name=self.name, role=str(self.role), correlation_id=self.correlation_id)


def parts_of(request: Request) -> Parts:
    """What the app was built with."""
    parts = request.app.state.parts
    assert isinstance(parts, Parts)
    return parts


GivenParts = Annotated[Parts, Depends(parts_of)]

_BEARER: Final = HTTPBearer(
    auto_error=False, description="An API key (`msk_...`) or a token of the identity provider."
)
Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


async def caller_of(request: Request, parts: GivenParts, bearer: Bearer) -> Caller:
    """Find out who calls; count the call."""
    if bearer is None or not bearer.credentials:
        raise TokenMissing("who are you?")
    caller = await _known(parts, bearer.credentials, correlation_of(request))
    parts.rate.take(caller.name)
    return caller


async def _known(parts: Parts, secret: str, correlation_id: str) -> Caller:
    if secret.startswith(PREFIX):
        row = await api_keys.holder(parts.pool, secret)
        if row is None:
            raise TokenInvalid("no such API key, or it has ended")
        return Caller(
            name=f"key:{row['id']}",
            role=Role(row["role"]),
            project=row["project_id"],
            correlation_id=correlation_id,
        )
    if parts.tokens is None:
        raise TokenInvalid("not an API key, and no identity provider is configured")
    holder = await parts.tokens.holder(secret)
    return Caller(
        name=f"oidc:{holder.subject}",
        role=holder.role,
        project=holder.project,
        correlation_id=correlation_id,
    )


AnyCaller = Annotated[Caller, Depends(caller_of)]


def _who_may(doing: Doing) -> Callable[[Request, Parts, Caller], Awaitable[Caller]]:
    async def check(request: Request, parts: GivenParts, caller: AnyCaller) -> Caller:
        if caller.role in MAY[doing]:
            return caller
        error: Rejected = (
            AdminRequired(f"{caller.role} may not do this")
            if doing in _PRIVILEGED
            else NotYours(f"{caller.role} may not do this")
        )
        if doing is not Doing.READ:
            what = f"{request.method} {request.url.path}"[:200]
            attempt = caller.who.tries("authz.deny", "route", what, {"needs": str(doing)})
            await audit.refused(parts.pool, attempt, error)
        raise error

    return check


READS: Final = Depends(_who_may(Doing.READ))
USES: Final = Depends(_who_may(Doing.USE))
MANAGES: Final = Depends(_who_may(Doing.MANAGE))
INSPECTS: Final = Depends(_who_may(Doing.INSPECT))
OPERATES: Final = Depends(_who_may(Doing.OPERATE))

Reader = Annotated[Caller, READS]
User = Annotated[Caller, USES]
Manager = Annotated[Caller, MANAGES]
Operator = Annotated[Caller, OPERATES]

ProjectId = Annotated[
    str | None,
    Query(
        pattern=ID_PATTERN,
        description="Which project; needed by those who see every one, and by nobody else.",
    ),
]


async def project_of(caller: AnyCaller, project_id: ProjectId = None) -> str:
    """The project a call is about."""
    if caller.project is None:
        if project_id is None:
            raise ProjectMissing(f"{caller.role} sees every project: say which one")
        return project_id
    if project_id not in {None, caller.project}:
        raise UnknownProject(f"no such project: {project_id}")
    return caller.project


Project = Annotated[str, Depends(project_of)]
