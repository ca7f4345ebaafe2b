"""The API of tenants over HTTP, as the dashboard asks it: one connection a call, one deadline."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from mainstay.dashboard.html import written_query
from mainstay.model.errors import MainstayError, NoCapacity, Rejected, Unavailable
from mainstay.runtime.http_call import NoAnswer, http_call

PREFIX: Final = "/api/v1"
PATIENCE_S: Final = 10.0


class RemoteTenancy:
    """Calls with a key. Raises only MainstayError."""

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise Rejected(f"not an address of the API of tenants: {url[:120]}")
        self._url, self._key = url, key
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._over = ssl.create_default_context() if parts.scheme == "https" else None

    async def get(self, path: str, **query: object) -> Any:
        """What is there."""
        return await self._asked("GET", path + written_query(query), b"", "")

    async def post(self, path: str, body: Mapping[str, Any], *, key: str, **query: object) -> Any:
        """Have something done, once for each key."""
        sent = json.dumps(body).encode() if body else b""
        return await self._asked("POST", path + written_query(query), sent, key)

    async def _asked(self, method: str, path: str, body: bytes, key: str) -> Any:
        head = [
            f"{method} {PREFIX}{path} HTTP/1.1", f"Host: {self._host}:{self._port}",
            "Connection: close", f"Authorization: Bearer {self._key}",
            f"Content-Length: {len(body)}",
        ]  # fmt: skip
        if body:
            head.append("Content-Type: application/json")
        if key:
            head.append(f"X-Idempotency-Key: {_printable(key)}")
        try:
            async with asyncio.timeout(PATIENCE_S):
                request = "\r\n".join(head).encode("ascii") + b"\r\n\r\n" + body
                told = await http_call(self._host, self._port, request, over=self._over)
        except (*NoAnswer, UnicodeError) as error:
            why = f"no answer from {self._url}: {str(error) or 'too late'}"
            raise Unavailable(f"{why} (is `mainstay api` running?)") from error
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
