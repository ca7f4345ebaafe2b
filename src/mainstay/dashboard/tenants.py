"""The API of tenants over HTTP, as the dashboard asks it: one connection a call, one deadline."""

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from mainstay.dashboard.html import written_query
from mainstay.model.errors import MainstayError, NoCapacity, Rejected, Unavailable
from mainstay.runtime.http_call import NoAnswer, http_call
from mainstay.wire.api_reach import PORTS, api_trust, no_answer

PREFIX: Final = "/api/v1"
PATIENCE_S: Final = 10.0


class RemoteTenancy:
    """Calls with a key. Raises only MainstayError."""

    def __init__(self, url: str, key: str, *, ca: str = "", insecure: bool = False) -> None:
        self._over = api_trust(url, ca=ca, insecure=insecure)
        parts = urlsplit(url)
        self._url, self._key = url, key
        self._host = parts.hostname or ""
        self._port = parts.port or PORTS[parts.scheme]

    async def get(self, path: str, **query: object) -> Any:
        """What is there."""
        return await self._asked("GET", path + written_query(query))

    async def post(
        self, path: str, body: Mapping[str, Any], *, key: str, by: str, **query: object
    ) -> Any:
        """Have something done, once for each key; the audit there tells the call by who it was."""
        sent = json.dumps(body).encode() if body else b""
        told = (
            f"X-Idempotency-Key: {_printable(key)}",
            f"X-Correlation-Id: dashboard:{_printable(by)}:{secrets.token_hex(4)}",
        )
        return await self._asked("POST", path + written_query(query), sent, told)

    async def _asked(
        self, method: str, path: str, body: bytes = b"", headers: Sequence[str] = ()
    ) -> Any:
        head = [
            f"{method} {PREFIX}{path} HTTP/1.1", f"Host: {self._host}:{self._port}",
            "Connection: close", f"Authorization: Bearer {self._key}",
            f"Content-Length: {len(body)}", *headers,
        ]  # fmt: skip
        if body:
            head.append("Content-Type: application/json")
        try:
            async with asyncio.timeout(PATIENCE_S):
                request = "\r\n".join(head).encode("ascii") + b"\r\n\r\n" + body
                told = await http_call(self._host, self._port, request, over=self._over)
        except (*NoAnswer, UnicodeError) as error:
            raise Unavailable(no_answer(self._url, error)) from error
        return _understood(*told)


def _printable(key: str) -> str:
    return "".join(c for c in key if "!" <= c <= "~")[:200]


def _understood(status: int, content: bytes) -> Any:
    try:
        found = json.loads(content)
    except ValueError as error:
        raise Unavailable(f"the API of tenants answered {status}, and not in JSON") from error
    if status < 300:
        return found
    raise _refusal(status, found if isinstance(found, dict) else {})


def _refusal(status: int, found: Mapping[str, Any]) -> MainstayError:
    message, code = str(found.get("message", status)), str(found.get("code", ""))
    details = found.get("details")
    other = details.get("nearest_alternative") if isinstance(details, dict) else None
    if isinstance(other, dict):
        message += f"; free now: {other.get('gpus')} x {other.get('sku')} in {other.get('region')}"
    if status >= 500 or status == 429:
        return Unavailable(message)
    return NoCapacity(message) if code == "sku_unavailable" else Rejected(message)
