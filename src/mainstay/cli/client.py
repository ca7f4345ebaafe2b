"""How commands ask the API: plain HTTP, one answer or one error of ours."""

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlencode

from mainstay.config.load import contexts_file, home_directory, outside, read_sources
from mainstay.model.errors import MainstayError, NoCapacity, Rejected, Unavailable
from mainstay.tenancy import credentials
from mainstay.wire.api_reach import api_trust, no_answer

PREFIX: Final = "/api/v1"
PATIENCE_S: Final = 30.0
SILENCE_S: Final = 60.0
"""A stream that does not even say that it is there for so long is broken."""


class Client:
    """Calls with a key. A mutation gets an idempotency key of its own, unless one is given."""

    def __init__(
        self,
        server: str,
        key: str,
        *,
        ca: str = "",
        insecure: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._server, self._key = server.rstrip("/"), key
        self._patience_s = patience_s
        trust = api_trust(server, ca=ca, insecure=insecure)
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
        )

    def get(self, path: str, **query: object) -> Any:
        """What is there."""
        return self._asked("GET", path + _query(query))

    def post(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        **query: object,
    ) -> Any:
        """Have something done."""
        return self._asked("POST", path + _query(query), body, key or str(uuid.uuid4()))

    def delete(self, path: str, **query: object) -> Any:
        """Have something taken away."""
        return self._asked("DELETE", path + _query(query), None, str(uuid.uuid4()))

    def events(self, path: str, *, after: int = 0, **query: object) -> Iterator[dict[str, Any]]:
        """Notices behind a position as they come, empty when there was none for a while.

        It ends where the stream does, or breaks off.
        """
        request = self._request("GET", path + _query(query))
        request.add_header("Last-Event-ID", str(after))
        with suppress(OSError, HTTPException), self._opened(request, SILENCE_S) as stream:
            for line in stream:
                if line.startswith(b"data: ") and line.endswith(b"\n"):
                    event: dict[str, Any] = json.loads(line[6:])
                    yield event
                elif line.startswith(b":"):
                    yield {}

    def _asked(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, key: str = ""
    ) -> Any:
        request = self._request(method, path)
        if key:
            request.add_header("X-Idempotency-Key", key)
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        with self._opened(request, self._patience_s) as answer:
            try:
                return json.loads(answer.read())
            except (OSError, HTTPException) as error:
                raise Unavailable(no_answer(self._server, error)) from error

    def _request(self, method: str, path: str) -> urllib.request.Request:
        try:
            request = urllib.request.Request(f"{self._server}{PREFIX}{path}", method=method)
        except ValueError as error:
            raise Rejected(f"not an address of a server: {self._server}") from error
        request.add_header("Authorization", f"Bearer {self._key}")
        return request

    def _opened(self, request: urllib.request.Request, patience_s: float) -> Any:
        try:
            return self._opener.open(request, timeout=patience_s)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error.code, error.read()) from error
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            why = getattr(error, "reason", error)
            raise Unavailable(no_answer(self._server, why)) from error


def client(role: str, server: str | None = None, *, patience_s: float = PATIENCE_S) -> Client:
    """By what was said, the environment, or what `mainstay tenancy init` has left here."""
    key = outside("MAINSTAY_KEY") or credentials.kept(home_directory(), role)
    if key is None:
        raise Rejected("no key: set MAINSTAY_KEY, or run `mainstay tenancy init`")
    ca, insecure = outside("MAINSTAY_TLS_CA") or "", outside("MAINSTAY_INSECURE") == "1"
    return Client(server or _found(), key, ca=ca, insecure=insecure, patience_s=patience_s)


def _found() -> str:
    """What the environment, the chosen context or a process on this machine says."""
    from mainstay.processes.finding import API, Where, find_api

    where = Where(
        process=API,
        home=home_directory(),
        contexts=contexts_file(),
        environment=read_sources().environment,
    )
    return find_api(where)


def _query(query: Mapping[str, object]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _refusal(status: int, content: bytes) -> MainstayError:
    """The error that the server named, in one line."""
    try:
        said = json.loads(content)
        code, message, details = said["code"], said["message"], said["details"]
    except (ValueError, KeyError, TypeError):
        return Unavailable(f"the server answered {status} and nothing that we understand")
    if status >= 500 or status == 429:
        return Unavailable(f"{message} ({code}, {said.get('correlation_id')})")
    other = details.get("nearest_alternative")
    advice = details.get("what_to_do", "")
    if other:
        advice = f"free now: {other['gpus']} x {other['sku']} in {other['region']}"
    kind = NoCapacity if code == "sku_unavailable" else Rejected
    return kind(f"{message} ({code})", what_to_do=advice)
