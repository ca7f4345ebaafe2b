"""The processes of tenancy, each alone: several of each, each killed, and nothing is lost."""

import itertools
import json
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import nursery
import outside
from certificates import Authority
from event_stage import NatsServer, needs_nats
from mainstay.cli.client import Client
from mainstay.model.errors import MainstayError, NoCapacity, Rejected, Unavailable
from nursery import Born
from postgres import database_url, server

__all__ = ["database_url", "server"]

PATIENCE_S: Final = 90.0
_NUMBERS: Final = itertools.count(1)
PARTS: Final = ("relay", "worker", "biller", "notifier")


class Site:
    """Processes on one database and one home."""

    def __init__(self, home: Path, url: str, **environment: str) -> None:
        self.home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.at = f"127.0.0.1:{probe.getsockname()[1]}"
        self._environment = outside.environment(
            PYTHONPATH=str(outside.ROOT / "src"),
            MAINSTAY_HOME=str(home),
            MAINSTAY_API_DATABASE=url,
            MAINSTAY_API_LISTEN=self.at,
            MAINSTAY_API_AGENTS="127.0.0.1:0",
            MAINSTAY_API_SIMULATE="node-a,node-b",
            MAINSTAY_API_SIMULATE_PHASE_S="0.02",
            **{"MAINSTAY_SERVER": f"http://{self.at}", **environment},
        )

    def says(self, *words: str) -> subprocess.CompletedProcess[str]:
        return nursery.run(words, cwd=outside.ROOT, env=self._environment)

    @contextmanager
    def runs(self, *words: str) -> Iterator[Born]:
        """A process, once it has said that it is at work; killed at the end."""
        process, log = self.started(*words)
        try:
            _until(lambda: b"Ctrl-C stops it" in log.read_bytes(), log)
            yield process
        finally:
            process.kill()
            process.wait()

    def started(self, *words: str) -> tuple[Born, Path]:
        """A process, and where it says something."""
        log = self.home / f"{words[0]}-{next(_NUMBERS)}.log"
        return nursery.logged(words, log, cwd=outside.ROOT, **self._environment), log

    def client(self, role: str) -> Client:
        keys = json.loads((self.home / "tenancy/credentials.json").read_text())
        return Client(f"http://{self.at}", keys[role])

    def pages(self, part: str) -> str:
        [said] = list((self.home / "run").glob(f"{part}-*.json"))
        return str(json.loads(said.read_text())["addresses"]["http"])


def _until(holds: Any, about: object = "") -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"it never held: {about}"
        time.sleep(0.1)


@pytest.fixture
def site(tmp_path: Path, database_url: str) -> Site:
    return begun(tmp_path, database_url)


def begun(folder: Path, url: str, **environment: str) -> Site:
    made = Site(folder / "home", url, **environment)
    made.home.mkdir()
    ended = made.says("tenancy", "init")
    assert ended.returncode == 0, ended.stderr
    return made


def created(client: Client) -> str:
    body = {"sku": "h200-sxm-slice", "gpus": 1, "region": "region-1"}
    return str(client.post("/allocations", body)["allocation_id"])


def reached(client: Client, allocation: str, status: str) -> None:
    _until(lambda: client.get(f"/allocations/{allocation}")["status"] == status, status)


COUNTED: Final = {
    "relay": "mainstay_relay_",
    "worker": "mainstay_worker_beat_timestamp_seconds",
    "biller": "mainstay_biller_ok",
    "notifier": "mainstay_consumer_",
}
"""What each part counts."""


def _page(site: Site, part: str, page: str) -> str:
    with urllib.request.urlopen(f"http://{site.pages(part)}/{page}", timeout=5) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


def test_the_parts_run_alone_with_health_and_metrics_and_survive_being_killed(site: Site) -> None:
    """Each part is killed with kill -9 while there is work, and started again."""
    with ExitStack() as stack:
        api = stack.enter_context(site.runs("api"))
        client = site.client("tenant")
        waiting = created(client)  # nobody works yet: it is kept
        parts = {
            part: stack.enter_context(site.runs(part, "--http", "127.0.0.1:0")) for part in PARTS
        }
        reached(client, waiting, "active")
        for part in PARTS:
            said = {page: _page(site, part, page) for page in ("healthz", "readyz", "metrics")}
            assert COUNTED[part] in said["metrics"]
        _until(lambda: "mainstay_worker_steps_total{" in _page(site, "worker", "metrics"))
        _until(lambda: "mainstay_biller_passes_total{" in _page(site, "biller", "metrics"))
        for part, process in parts.items():
            made = created(client)
            process.send_signal(signal.SIGKILL)
            process.wait()
            stack.enter_context(site.runs(part))
            reached(client, made, "active")
        api.send_signal(signal.SIGKILL)
        api.wait()
        stack.enter_context(site.runs("api"))
        client.post(f"/allocations/{waiting}/release")
        reached(client, waiting, "released")
        told = [
            notice["event_type"]
            for notice in client.get("/notices", allocation_id=waiting)["items"]
        ]
        _until(lambda: len(client.get("/notices", allocation_id=waiting)["items"]) == 4)
        assert told[:2] == ["provisioning.requested", "provisioning.active"]
        assert site.client("admin").get("/admin/outbox/failed")["items"] == []


def test_a_signal_stops_the_api_with_a_stream_open_and_nothing_is_left_behind(site: Site) -> None:
    with site.runs("api", "--all") as process:
        events = site.client("tenant").events("/notices/stream")
        made = created(site.client("tenant"))
        assert next(events)["allocation_id"] == made

        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=30) == 0
        assert list((site.home / "run").iterdir()) == []
        assert not _is_open(site.at)


def _is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


NODES: Final = (("get", "nodes"), ("admin", "nodes"))


class TestCommands:
    def test_errors_of_the_server_are_one_line_with_the_right_code(self, site: Site) -> None:
        away = site.says("alloc", "list")
        with site.runs("api"):
            wrong = site.says("alloc", "create", "--sku", "x", "--region", "region-1")
            none = site.says("alloc", "show", "alc_none")
            listed = site.says("alloc", "list", "-o", "json")

        assert away.returncode == 3
        assert "is `mainstay api` running?" in away.stderr
        assert wrong.returncode == none.returncode == 1
        assert "sku_unavailable" in wrong.stderr
        assert "allocation_not_found" in none.stderr
        assert all(ended.stderr.count("\n") == 1 for ended in (away, wrong, none))
        assert json.loads(listed.stdout) == []

    def test_a_watched_list_goes_on_when_the_api_is_back(self, site: Site) -> None:
        with site.runs("api"):
            before = created(site.client("tenant")).encode()
            watching, log = site.started("get", "allocations", "--watch", "-o", "json")
            _until(lambda: before in log.read_bytes(), log)
        _until(lambda: b"is `mainstay api` running?" in log.read_bytes(), log)
        with site.runs("api"):
            after = created(site.client("tenant")).encode()
            _until(lambda: after in log.read_bytes(), log)
        watching.send_signal(signal.SIGINT)

        assert watching.wait(timeout=PATIENCE_S) == 0

    def test_a_watched_allocation_goes_on_over_an_outage_and_tells_nothing_twice(
        self, site: Site
    ) -> None:
        """The API is killed with kill -9 while somebody listens to its stream."""
        with site.runs("api", "--all"):
            made = created(site.client("tenant"))
            watching, log = site.started("alloc", "watch", made, "--until", "released")
            reached(site.client("tenant"), made, "active")
            _until(lambda: "active" in log.read_text(), log)
        _until(lambda: "is `mainstay api` running?" in log.read_text(), log)
        with site.runs("api", "--all"):
            site.client("tenant").post(f"/allocations/{made}/release")
            assert watching.wait(timeout=PATIENCE_S) == 0, log.read_text()
            told = json.loads(site.says("alloc", "timeline", made, "-o", "json").stdout)

        said = log.read_text().splitlines()
        complaint, *more = [line for line in said if line.startswith("mainstay: ")]
        assert (complaint.endswith(": it is asked again for 10 minutes"), more) == (True, [])
        said.remove(complaint)
        assert [line.split("  ")[0] for line in said] == [each["at"] for each in told]

    def test_the_same_nouns_list_the_same_and_what_is_made_can_be_data(self, site: Site) -> None:
        words = ("alloc", "create", "--sku", "h200-sxm-slice", "--region", "region-1")
        with site.runs("api"):
            (made,) = json.loads(site.says(*words, "-o", "json").stdout)
            name = made["allocation_id"]
            site.says(*words)
            lists = {
                noun: site.says(*noun.split(), "-o", "json").stdout
                for noun in ("alloc list", "get allocations", "admin nodes", "get nodes")
            }
            one = site.says("get", "allocation", name, "-o", "name")
            unknown = site.says("get", "node", "node-z")
            (released,) = json.loads(site.says("alloc", "release", name, "-o", "json").stdout)

        assert len(json.loads(lists["alloc list"])) == 2
        assert lists["alloc list"] == lists["get allocations"]
        assert [node["id"] for node in json.loads(lists["get nodes"])] == ["node-a", "node-b"]
        assert lists["admin nodes"] == lists["get nodes"]
        assert (one.returncode, one.stdout) == (0, f"{name}\n")
        assert unknown.returncode == 1
        assert unknown.stderr == "mainstay: no node node-z: `mainstay get nodes` lists them\n"
        assert (released["allocation_id"], released["cancel_requested"]) == (name, True)

    def test_retired_nodes_are_listed_for_who_asks_and_found_by_name(self, site: Site) -> None:
        with site.runs("api"):
            site.client("admin").post("/admin/nodes/node-b/step", {"step": "retire"})
            usual = site.says("get", "nodes", "-o", "name").stdout
            every = [site.says(*noun, "--retired", "-o", "name").stdout for noun in NODES]
            named = site.says("get", "node", "node-b", "-o", "name")

        assert usual == "node-a\n"
        assert every == ["node-a\nnode-b\n"] * 2
        assert (named.returncode, named.stdout) == (0, "node-b\n")

    def test_what_an_operator_changes_can_be_data(self, site: Site) -> None:
        with site.runs("api"):
            tenant = site.client("tenant")
            made = created(tenant)
            placed = tenant.get(f"/allocations/{made}")["node_id"]
            (free,) = {"node-a", "node-b"} - {placed}
            slot = ("admin", "slot-disable", free, "0")
            said = site.says(*slot).stdout
            again = site.says(*slot, "-o", "json")
            assert again.returncode == 0, again.stderr
            (disabled,) = json.loads(again.stdout)
            (forced,) = json.loads(site.says("admin", "force-release", made, "-o", "json").stdout)

        assert said == "disabled\n"
        assert (disabled["status"], disabled["slot_index"]) == ("disabled", 0)
        assert (forced["allocation_id"], forced["cancel_requested"]) == (made, True)

    def test_init_twice_changes_nothing_and_keys_are_for_us_alone(self, site: Site) -> None:
        path = site.home / "tenancy/credentials.json"
        before = path.read_text()

        again = site.says("tenancy", "init")

        assert "Catalogue: nothing new." in again.stdout
        assert path.read_text() == before
        assert path.stat().st_mode & 0o077 == 0

    def test_the_client_raises_what_the_server_says(self, site: Site) -> None:
        with site.runs("api"):
            with pytest.raises(NoCapacity):
                site.client("tenant").post(
                    "/allocations", {"sku": "h200-sxm-slice", "gpus": 3, "region": "region-1"}
                )
            with pytest.raises(Rejected, match="token_invalid"):
                Client(f"http://{site.at}", "msk_wrong").get("/me")
        with pytest.raises(Unavailable):
            site.client("tenant").get("/me")
        with pytest.raises(MainstayError, match="not an address"):
            Client("nowhere", "k").get("/me")


def test_an_api_beyond_loopback_needs_a_certificate(site: Site) -> None:
    ended = site.says("api", "--listen", "0.0.0.0:0")

    assert ended.returncode == 1
    assert "on loopback only without a certificate" in ended.stderr


def made_by_command(site: Site) -> str:
    """An allocation, by who names no server: the command finds the one that runs here."""
    made = site.says("alloc", "create", "--sku", "h200-sxm-slice", "--region", "region-1")
    assert made.returncode == 0, made.stderr
    watched = site.says("alloc", "watch", made.stdout.strip(), "--until", "active")
    assert watched.returncode == 0, watched.stderr
    assert site.says("admin", "nodes").returncode == 0
    return watched.stdout


def test_over_tls_a_command_that_names_no_server_gets_an_allocation(
    tmp_path: Path, database_url: str
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.write([])
    site = begun(tmp_path, database_url, MAINSTAY_SERVER="", SSL_CERT_FILE=str(authority.path))
    with site.runs("api", "--all", "--tls-cert", str(cert), "--tls-key", str(key)):
        assert " active" in made_by_command(site)
        with pytest.raises(Unavailable):
            site.client("tenant").get("/me")  # in plain text


@needs_nats
def test_over_nats_an_allocation_becomes_active(tmp_path: Path, database_url: str) -> None:
    nats = NatsServer(tmp_path / "nats")
    nats.start()
    try:
        site = begun(tmp_path, database_url, MAINSTAY_SERVER="")
        with site.runs("api", "--all", "--bus", nats.url):
            assert " active" in made_by_command(site)
    finally:
        nats.kill()
