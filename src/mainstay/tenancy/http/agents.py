"""The listener for node agents: an app of its own, by mutual TLS, under /internal/v1.

Who calls is who the certificate of the connection says; no header is believed. Only enrolment comes
without a certificate, and only with a token.
"""

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Depends, FastAPI, Path, Query, Request, Response
from pydantic import BaseModel, Field

from mainstay import __version__
from mainstay.tenancy import enrolment, tasks
from mainstay.tenancy.authority import Authority
from mainstay.tenancy.enrolment import Application, Credentials, NotThisNode
from mainstay.tenancy.http.caller import GivenParts, Parts
from mainstay.tenancy.http.errors import install
from mainstay.tenancy.http.frame import Frame
from mainstay.tenancy.http.handshake import fingerprint_of
from mainstay.tenancy.http.shapes import Said
from mainstay.tenancy.states import TaskStatus
from mainstay.tenancy.work import TaskResult

PREFIX: Final = "/internal/v1/nodes"
PEM_MAX: Final = 8192

router: Final = APIRouter(prefix=PREFIX)
NodeId = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$")]
Printable = Annotated[str, Field(max_length=200, pattern=r"^[\x20-\x7e]*$")]
Held = Annotated[str | None, Query(max_length=8000, pattern=r"^[A-Za-z0-9._:@,-]*$")]
Pem = Annotated[str, Field(max_length=PEM_MAX, pattern=r"^[\x0a\x0d\x20-\x7e]*$")]


def authority_of(request: Request) -> Authority:
    """Who signs certificates here."""
    authority = request.app.state.authority
    assert isinstance(authority, Authority)
    return authority


async def shown(request: Request) -> str:
    """The fingerprint of the certificate that was shown; without one, nobody is let in."""
    found = fingerprint_of(request)
    if not found:
        raise NotThisNode("no client certificate was shown")
    return found


GivenAuthority = Annotated[Authority, Depends(authority_of)]
Fingerprint = Annotated[str, Depends(shown)]


class EnrolBody(Said):
    """What an agent brings to its first call."""

    node_id: Printable
    token: Printable
    csr: Pem
    agent_version: Printable = ""


class RenewBody(Said):
    """What it brings to get the next certificate."""

    csr: Pem
    agent_version: Printable = ""


class CredentialsBody(BaseModel):
    """A certificate, whom to trust, whose tasks to run."""

    certificate: str
    authority: str
    keys: dict[str, str]
    expires_at_s: float

    @classmethod
    def of(cls, given: Credentials) -> "CredentialsBody":
        """As it travels."""
        return cls(
            certificate=given.certificate.decode(),
            authority=given.authority.decode(),
            keys=dict(given.keys),
            expires_at_s=given.expires_at_s,
        )


class ResultBody(Said):
    """How a task ended."""

    status: Literal["completed", "failed"]
    output: dict[str, Any] = Field(default_factory=dict)
    error_code: Printable | None = None
    error_detail: Annotated[str, Field(max_length=2000)] | None = None


@router.post("/enroll", status_code=201)
async def enrol(body: EnrolBody, parts: GivenParts, authority: GivenAuthority) -> CredentialsBody:
    """Spend a one-time token for a certificate."""
    application = Application(
        node=body.node_id, csr=body.csr.encode(), agent_version=body.agent_version
    )
    given = await enrolment.enrol(parts.pool, authority, body.token, application)
    return CredentialsBody.of(given)


@router.post("/{node_id}/cert/renew", status_code=201)
async def renew(
    node_id: NodeId,
    body: RenewBody,
    parts: GivenParts,
    authority: GivenAuthority,
    certificate: Fingerprint,
) -> CredentialsBody:
    """The next certificate, for who shows the present one."""
    application = Application(node=node_id, csr=body.csr.encode(), agent_version=body.agent_version)
    given = await enrolment.renew(parts.pool, authority, certificate, application)
    return CredentialsBody.of(given)


@router.post("/{node_id}/tasks/wait", response_model=None)
async def wait(
    request: Request,
    node_id: NodeId,
    parts: GivenParts,
    certificate: Fingerprint,
    *,
    wait_s: Annotated[float, Query(ge=0, le=tasks.WAIT_MAX_S)] = 0.0,
    holds: Held = None,
) -> dict[str, Any] | Response:
    """The oldest task of the node, now the caller's; 204 when there is none in time.

    `holds` names the tasks that the caller has: what it was given and does not name comes again.
    """
    said = None if holds is None else frozenset(filter(None, holds.split(",")))
    poll = tasks.Poll(wait_s=wait_s, holds=said, is_gone=request.is_disconnected)
    row = await tasks.claim_for(
        parts.pool, node_id, certificate, poll, bell=parts.bell, clock=parts.clock
    )
    return Response(status_code=204) if row is None else tasks.envelope(row)


@router.get("/{node_id}/tasks")
async def in_hand(
    node_id: NodeId, parts: GivenParts, certificate: Fingerprint
) -> list[dict[str, Any]]:
    """What the caller has claimed and not ended."""
    rows = await tasks.in_hand(parts.pool, node_id, certificate)
    return [tasks.envelope(row) for row in rows]


@router.post("/{node_id}/tasks/{task_id}/result")
async def result(
    node_id: NodeId,
    task_id: NodeId,
    body: Annotated[ResultBody, Body()],
    parts: GivenParts,
    certificate: Fingerprint,
) -> dict[str, str]:
    """Say how a task ended; the same again is harmless."""
    said = TaskResult(
        status=TaskStatus(body.status),
        output=body.output,
        error_code=body.error_code,
        error_detail=body.error_detail,
    )
    row = await tasks.finish(parts.pool, node_id, certificate, task_id, said)
    return {"task_id": row["id"], "status": row["status"]}


def build(parts: Parts, authority: Authority) -> FastAPI:
    """The app for agents."""
    app = FastAPI(
        title="Mainstay, for node agents", version=__version__, openapi_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.parts, app.state.authority = parts, authority
    install(app)
    app.include_router(router)
    app.add_middleware(Frame, ids=parts.ids)
    return app
