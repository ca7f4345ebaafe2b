"""`mainstay get money --by tenant`: a shard that pays, an API that says who holds what."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from typing_extensions import override

from live_shard import NOW_S, started
from mainstay.cli import exits, main
from mainstay.processes.announce import announced

Captured = pytest.CaptureFixture[str]

CREATED: Final = datetime.fromtimestamp(NOW_S - 3_600, UTC).isoformat()
NODE: Final = {"id": "c-000.1", "machine": "c-000", "gpus_total": 8, "status": "active",
               "created_at": CREATED, "last_seen_at": None, "retired_at": None}  # fmt: skip
ALLOCATION: Final = {
    "allocation_id": "a-1", "project_id": "blue", "status": "active", "gpus": 2,
    "node_id": "c-000.1", "price": {"gpu_hour_minor": 250, "currency": "USD"},
    "created_at": CREATED, "active_at": CREATED, "releasing_at": None, "released_at": None,
    "failed_at": None,
}  # fmt: skip


class Api(BaseHTTPRequestHandler):
    """One node and, on two pages, two allocations of it."""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        query = parse_qs(asked.query)
        node = {**NODE, "outages": [] if "outages" in query else None}
        answer: dict[str, Any] = {"items": [node] if "after" not in query else []}
        if asked.path.endswith("/allocations"):
            more = "cursor" not in query
            held = ALLOCATION if more else {**ALLOCATION, "project_id": "red", "gpus": 1}
            answer = {"items": [held], "next_cursor": "second" if more else None}
        said = self.headers["Authorization"] == "Bearer key-of-admin"
        self.send_response(200 if said else 401)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    @override
    def log_message(self, *_: Any) -> None:
        """Nothing is written."""


@contextmanager
def an_api() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def a_shard(home: Path) -> Iterator[None]:
    """One whose cluster `web` stands for tenants."""
    process = started(home, "s-0")
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MAINSTAY_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("MAINSTAY_KEY", "key-of-admin")
    with (
        a_shard(tmp_path),
        an_api() as url,
        announced(tmp_path, "api", "0", {"addresses": {"api": url}}),
        announced(tmp_path, "bridge", "web", {"addresses": {}, "cluster": "web"}),
    ):
        yield tmp_path


def test_projects_what_nobody_holds_and_the_whole(home: Path, capsys: Captured) -> None:
    assert main.dispatch(["get", "money", "--by", "tenant", "-o", "json"]) == exits.DONE
    shown = capsys.readouterr()
    rows = {row["name"]: row for row in json.loads(shown.out)}

    assert list(rows) == ["blue", "red", "(unclaimed)", "(all)"]
    assert (rows["blue"]["gpus"], rows["blue"]["spend_per_hour"]) == (2, 10**9 // 4)
    assert (rows["red"]["gpus"], rows["red"]["spend_per_hour"]) == (1, 10**9 // 8)
    assert rows["(unclaimed)"]["gpus"] == 5
    parts = [row for name, row in rows.items() if name != "(all)"]
    for column in ("spend_per_hour", "spent"):
        assert sum(row[column] for row in parts) == rows["(all)"][column] > 0
    for column in ("waste_per_hour", "waste", "saving_per_hour", "saving"):
        assert sum(row[column] for row in parts) == rows["(all)"][column]
    assert rows["(all)"]["earns_per_hour"] == {"USD": 750}
    assert "Tenants are cluster web; counted for" in shown.err

    assert main.dispatch(["money", "--by", "tenant"]) == exits.DONE
    header, first, *_ = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert header == [
        "TENANT", "GPUS", "$/HOUR", "SPENT", "WASTE/HOUR", "WASTE", "SAVES/HOUR", "SAVED",
        "PAYS/HOUR", "PAID",
    ]  # fmt: skip
    assert first[:3] == ["blue", "2", "0.25"]
    assert first[8] == "$5.00"
