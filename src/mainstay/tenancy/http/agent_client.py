"""The four calls of an agent over HTTPS, with the certificate it goes by.

One connection a call: a long poll that is cancelled is closed at once.
"""

import asyncio
import json
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from mainstay.model.errors import Fenced, MainstayError, Rejected, Unavailable
from mainstay.runtime.http_call import NoAnswer, http_call
from mainstay.tenancy.agent_api import Envelope
from mainstay.tenancy.enrolment import Application, Credentials, EnrolmentRefused, NotThisNode
from mainstay.tenancy.http.agents import PREFIX
from mainstay.tenancy.tasks import (
    WAIT_MAX_S,
    NotTheClaimer,
    ResultConflict,
    TaskNotFound,
    TaskOver,
)
from mainstay.tenancy.work import TaskResult

PATIENCE_S: Final = 10.0

_ERRORS: Final[Mapping[str, type[MainstayError]]] = {
    kind.code: kind
    for kind in (
        EnrolmentRefused, NotThisNode, NotTheClaimer, ResultConflict, TaskNotFound, TaskOver,
    )
}  # fmt: skip


class HttpAgentApi:
    """The control plane, across the network."""

    def __init__(self, url: str, authority: bytes) -> None:
        """`authority` is the certificate that the listener's own must be signed by."""
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise Rejected(f"not an address of the listener for agents: {url} (https://HOST:PORT)")
        self._host, self._port = parts.hostname, parts.port or 443
        self._authority = authority.decode()
        self._context = self._trusting()

    async def enrol(self, token: str, application: Application) -> Credentials:
        """Spend a one-time token."""
        said = {"node_id": application.node, "token": token, **_asked(application)}
        return _credentials(await self._call("POST", f"{PREFIX}/enroll", said))

    async def renew(self, application: Application) -> Credentials:
        """The next certificate, for who shows the present one."""
        path = f"{PREFIX}/{_written(application.node)}/cert/renew"
        return _credentials(await self._call("POST", path, _asked(application)))

    def present(self, certificate: bytes, key: bytes) -> None:
        """Show this certificate from now on."""
        context = self._trusting()
        with tempfile.TemporaryDirectory(prefix="mainstay-agent-") as folder:
            path = Path(folder) / "own.pem"
            path.touch(mode=0o600)
            path.write_bytes(key + certificate)
            context.load_cert_chain(path)
        self._context = context

    async def wait(
        self, node: str, *, wait_s: float, holds: frozenset[str] | None = None
    ) -> Envelope | None:
        """A task that is now ours, or None when there is none in time."""
        wait_s = min(wait_s, WAIT_MAX_S)
        path = f"{PREFIX}/{_written(node)}/tasks/wait?wait_s={wait_s:.3f}"
        if holds is not None:
            path += f"&holds={_written(','.join(sorted(holds)))}"
        found: Envelope | None = await self._call("POST", path, patience_s=wait_s + PATIENCE_S)
        return found

    async def in_hand(self, node: str) -> list[Envelope]:
        """Tasks that were ours before we died."""
        found: list[Envelope] = await self._call("GET", f"{PREFIX}/{_written(node)}/tasks")
        return found

    async def result(self, node: str, task: str, result: TaskResult) -> None:
        """Say how a task ended; the same again is harmless."""
        said = {
            "status": str(result.status),
            "output": result.output,
            "error_code": result.error_code,
            "error_detail": result.error_detail,
        }
        await self._call("POST", f"{PREFIX}/{_written(node)}/tasks/{_written(task)}/result", said)

    def _trusting(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._authority)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context

    async def _call(
        self,
        method: str,
        path: str,
        said: Mapping[str, Any] | None = None,
        *,
        patience_s: float = PATIENCE_S,
    ) -> Any:
        body = b"" if said is None else json.dumps(said).encode()
        try:
            async with asyncio.timeout(patience_s):
                request = _request(method, path, self._host, body)
                status, content = await http_call(
                    self._host, self._port, request, over=self._context
                )
        except NoAnswer as error:
            why = type(error).__name__
            raise Unavailable(f"no answer from {self._host}:{self._port}: {why}") from error
        return _answered(status, content)


def _request(method: str, path: str, host: str, body: bytes) -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def _answered(status: int, content: bytes) -> Any:
    if status == 204:
        return None
    try:
        found = json.loads(content)
    except ValueError as error:
        raise Unavailable(f"an answer that is not JSON, with status {status}") from error
    if status < 300:
        return found
    code, message = str(found.get("code", "")), str(found.get("message", ""))
    if status >= 500 or status == 429:
        raise Unavailable(message)
    kind = _ERRORS.get(code, Fenced if status == 409 else Rejected)
    raise kind(message)


def _asked(application: Application) -> dict[str, str]:
    return {"csr": application.csr.decode(), "agent_version": application.agent_version}


def _credentials(found: Mapping[str, Any]) -> Credentials:
    return Credentials(
        certificate=found["certificate"].encode(),
        authority=found["authority"].encode(),
        keys=found["keys"],
        expires_at_s=found["expires_at_s"],
    )


def _written(identity: str) -> str:
    return quote(identity, safe="")
