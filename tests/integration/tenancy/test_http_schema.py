"""The API keeps to its own document, whatever is sent: by Schemathesis, over a real socket."""

import asyncio
import importlib
import importlib.util
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import outside
from callers import Stage, staged
from mainstay.processes.web import serving_app
from mainstay.tenancy.http import live
from mainstay.tenancy.http.app import bare
from postgres import database_url, pool_of, server
from tenants import active, furnish, node

__all__ = ["database_url", "server"]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed"
)

EXAMPLES: Final = 6
OPERATIONS: Final = sorted(
    (path, method) for path, found in bare().openapi()["paths"].items() for method in found
)


class Running:
    """An API in a thread of its own, and the keys to it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ready, self._stop = threading.Event(), threading.Event()
        self.at = self.admin = self.tenant = ""

    @contextmanager
    def here(self) -> Iterator["Running"]:
        thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        thread.start()
        assert self._ready.wait(60)
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    async def _serve(self) -> None:
        async with pool_of(self._url) as pool:
            await furnish(pool)
            await node(pool)
            await active(pool)
            async with staged(pool) as stage, serving_app(stage.app, "127.0.0.1:0", {}) as at:
                self._know(stage, at)
                await asyncio.to_thread(self._stop.wait)

    def _know(self, stage: Stage, at: str) -> None:
        self.at, self.admin, self.tenant = f"http://{at}", stage.admin.secret, stage.tenant.secret
        self._ready.set()


def test_every_operation_keeps_to_the_document(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "STREAM_S", 0.05)
    budget = settings(
        max_examples=outside.examples(EXAMPLES),
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    tried: dict[tuple[str, str], set[int]] = {}
    schemathesis = importlib.import_module("schemathesis")  # for seconds: not where it is collected
    with Running(database_url).here() as running:
        schema = schemathesis.openapi.from_dict(bare().openapi())
        schema.config.update(base_url=running.at)

        def check(case: Any) -> None:
            key = running.admin if "/admin/" in case.operation.path else running.tenant
            answer = case.call(headers={"Authorization": f"Bearer {key}"})
            case.validate_response(answer, checks=checks())
            seen = tried.setdefault((case.operation.path, case.operation.method), set())
            seen.add(answer.status_code)
            if answer.status_code >= 400:
                envelope = json.loads(answer.content)
                assert envelope.keys() == {"code", "message", "correlation_id", "details"}

        for found in schema.get_all_operations():
            budget(given(case=found.ok().as_strategy())(check))()

    assert sorted(tried) == OPERATIONS
    reached = {place for place, seen in tried.items() if min(seen) < 300}
    assert ("/api/v1/allocations", "get") in reached
    assert len(reached) > 15


def checks() -> list[Any]:
    """What an answer must keep to."""
    schemathesis = importlib.import_module("schemathesis")
    found = importlib.import_module("schemathesis.specs.openapi.checks")
    return [
        schemathesis.checks.not_a_server_error,
        found.status_code_conformance,
        found.content_type_conformance,
        found.response_schema_conformance,
    ]
