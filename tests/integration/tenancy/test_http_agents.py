"""Agents over the network: real mutual TLS, the certificate of the connection, nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mainstay.config.api import ApiConfig
from mainstay.model.errors import Rejected, Unavailable
from mainstay.processes.api import _for_agents
from mainstay.processes.tenancy import Around, Ground
from mainstay.runtime.clock import SystemClock
from mainstay.tenancy import discovery, enrolment, signing, tasks
from mainstay.tenancy.agent_faults import HEALTHY
from mainstay.tenancy.agent_sim import SimulatedAgent
from mainstay.tenancy.attempts import Who
from mainstay.tenancy.authority import Authority, new_key
from mainstay.tenancy.bell import listening
from mainstay.tenancy.bus_postgres import PostgresBus
from mainstay.tenancy.database.connect import transaction
from mainstay.tenancy.enrolment import Application, EnrolmentRefused, NotThisNode
from mainstay.tenancy.http.agent_client import HttpAgentApi
from mainstay.tenancy.http.caller import Parts
from mainstay.tenancy.http.limits import RateLimit
from mainstay.tenancy.signing import Signer
from mainstay.tenancy.states import TaskStatus
from mainstay.tenancy.tasks import NotTheClaimer, ResultConflict, Task
from mainstay.tenancy.work import TaskResult, TaskType
from postgres import database_url, pool_of, server
from tenants import NEW, furnish, node, rows, value

__all__ = ["database_url", "server"]

CLOCK = SystemClock()
WHO = Who(name="test", role="admin", correlation_id="c")
DONE = TaskResult(status=TaskStatus.COMPLETED, output={"healthy": True})


@dataclass(frozen=True)
class Net:
    """A listener, and what is needed to talk to it."""

    ground: Ground
    authority: Authority
    url: str

    def api(self) -> HttpAgentApi:
        return HttpAgentApi(self.url, self.authority.pem)

    async def token(self, name: str) -> str:
        async with transaction(self.ground.pool) as tx:
            return await enrolment.invite(tx, name)

    async def agent(self, name: str, api: HttpAgentApi | None = None) -> SimulatedAgent:
        agent = SimulatedAgent(api or self.api(), name, HEALTHY, CLOCK, Random(1))
        await agent.enrol(await self.token(name))
        return agent

    async def queue(self, name: str = "node-a", attempt: int = 1) -> str:
        async with transaction(self.ground.pool) as tx:
            return await tasks.enqueue(
                tx,
                NEW,
                self.ground.signer,
                Task(node=name, allocation=None, type=TaskType.HEALTH_PROBE, attempt=attempt,
                     expires_in_s=60, correlation_id="c"),
            )  # fmt: skip


@asynccontextmanager
async def network(url: str, home: Path) -> AsyncIterator[Net]:
    async with pool_of(url) as pool, listening(url) as bell:
        await furnish(pool)
        await node(pool, "node-a")
        await node(pool, "node-b")
        signer = Signer(home / "signing")
        async with transaction(pool) as tx:
            await signing.ensure_active(tx, NEW, signer)
        ground = Ground(
            config=ApiConfig(agents="127.0.0.1:0"),
            around=Around(home, CLOCK, lambda _: None),
            url=url,
            pool=pool,
            bell=bell,
            bus=PostgresBus(pool),
            ids=NEW,
            signer=signer,
        )
        rate = RateLimit(CLOCK, per_s=1000, burst=1000)
        parts = Parts(pool=pool, ids=NEW, bell=bell, rate=rate, clock=CLOCK, signer=signer)
        authority = ground.authority()
        async with _for_agents(ground, parts, authority) as at:
            yield Net(ground, authority, f"https://{at}")


def on_net(url: str, home: Path, test: Any) -> None:
    async def inside() -> None:
        async with network(url, home) as net:
            await test(net)

    asyncio.run(inside())


def test_an_agent_enrols_once_works_and_says_the_result(database_url: str, tmp_path: Path) -> None:
    async def scenario(net: Net) -> None:
        api = net.api()
        agent = await net.agent("node-a", api)
        task = await net.queue()

        result = await agent.once(wait_s=5)

        assert result is not None
        assert result.status is TaskStatus.COMPLETED
        pool = net.ground.pool
        assert await value(pool, "select status from node_tasks where id = %s", [task]) == (
            "completed"
        )
        assert result == agent.host.results[task]
        await api.result("node-a", task, result)  # the same again is harmless
        with pytest.raises(ResultConflict):
            await api.result("node-a", task, DONE)

    on_net(database_url, tmp_path, scenario)


def test_a_token_is_good_once_and_for_its_node_only(database_url: str, tmp_path: Path) -> None:
    async def scenario(net: Net) -> None:
        token = await net.token("node-a")
        _, csr = new_key()
        for name in ("node-b", "nobody"):
            with pytest.raises(EnrolmentRefused):
                await net.api().enrol(token, Application(node=name, csr=csr))
        await net.api().enrol(token, Application(node="node-a", csr=csr))
        with pytest.raises(EnrolmentRefused):
            await net.api().enrol(token, Application(node="node-a", csr=csr))

    on_net(database_url, tmp_path, scenario)


def test_without_a_certificate_there_is_nothing_but_enrolment(
    database_url: str, tmp_path: Path
) -> None:
    async def scenario(net: Net) -> None:
        await net.queue()
        stranger = net.api()
        with pytest.raises(NotThisNode):
            await stranger.wait("node-a", wait_s=0)
        with pytest.raises(NotThisNode):
            await stranger.in_hand("node-a")
        with pytest.raises(NotThisNode):
            await stranger.result("node-a", "tsk_x", DONE)

        assert await value(net.ground.pool, "select status from node_tasks") == "queued"

    on_net(database_url, tmp_path, scenario)


def test_15_a_wait_with_another_nodes_certificate_gets_nothing(
    database_url: str, tmp_path: Path
) -> None:
    async def scenario(net: Net) -> None:
        api = net.api()
        await net.agent("node-b", api)
        await net.queue("node-a")

        with pytest.raises(NotThisNode):
            await api.wait("node-a", wait_s=0)

        assert await value(net.ground.pool, "select status from node_tasks") == "queued"

    on_net(database_url, tmp_path, scenario)


def test_15_of_ten_waits_at_the_same_time_one_gets_the_task(
    database_url: str, tmp_path: Path
) -> None:
    async def scenario(net: Net) -> None:
        api = net.api()
        await net.agent("node-a", api)
        await net.queue("node-a")

        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(api.wait("node-a", wait_s=0)) for _ in range(10)]

        assert sum(wait.result() is not None for wait in waits) == 1
        [held] = await api.in_hand("node-a")
        assert held["task_type"] == "diag.health_probe"

    on_net(database_url, tmp_path, scenario)


def test_16_a_result_by_another_certificate_is_refused(database_url: str, tmp_path: Path) -> None:
    async def scenario(net: Net) -> None:
        first, second = net.api(), net.api()
        await net.agent("node-a", first)
        task = await net.queue("node-a")
        assert await first.wait("node-a", wait_s=0) is not None
        await net.agent("node-a", second)  # enrolled anew: the first certificate is no more

        with pytest.raises(NotTheClaimer):
            await second.result("node-a", task, DONE)
        with pytest.raises(NotThisNode):
            await first.result("node-a", task, DONE)

        assert await value(net.ground.pool, "select status from node_tasks") == "dispatched"

    on_net(database_url, tmp_path, scenario)


def test_a_certificate_of_another_authority_does_not_get_through_the_handshake(
    database_url: str, tmp_path: Path
) -> None:
    async def scenario(net: Net) -> None:
        forger = Authority(tmp_path / "forger", CLOCK)
        key, csr = new_key()
        api = net.api()
        api.present(forger.issue(csr, "node-a").pem, key)

        with pytest.raises(Unavailable):
            await api.wait("node-a", wait_s=0)
        with pytest.raises(Unavailable):
            await HttpAgentApi(net.url, forger.pem).in_hand("node-a")

    on_net(database_url, tmp_path, scenario)


def test_a_long_poll_is_answered_as_soon_as_there_is_work(
    database_url: str, tmp_path: Path
) -> None:
    async def scenario(net: Net) -> None:
        api = net.api()
        await net.agent("node-a", api)
        await net.ground.bell.heard.wait()
        waiting = asyncio.ensure_future(api.wait("node-a", wait_s=20))
        await asyncio.sleep(0.3)
        task = await net.queue("node-a")

        async with asyncio.timeout(4):
            found = await waiting

        assert found is not None
        assert found["task_id"] == task

    on_net(database_url, tmp_path, scenario)


def test_a_poll_that_was_cut_takes_no_task_along(database_url: str, tmp_path: Path) -> None:
    async def scenario(net: Net) -> None:
        api = net.api()
        await net.agent("node-a", api)
        await net.ground.bell.heard.wait()
        cut = asyncio.ensure_future(api.wait("node-a", wait_s=20))
        await asyncio.sleep(0.3)
        cut.cancel()  # closes the connection; the server still waits for work
        await asyncio.wait([cut])
        await asyncio.sleep(0.3)
        task = await net.queue("node-a")

        async with asyncio.timeout(10):
            found = await api.wait("node-a", wait_s=8)

        assert found is not None
        assert found["task_id"] == task

    on_net(database_url, tmp_path, scenario)


def test_a_renewed_certificate_takes_over_when_it_is_used(
    database_url: str, tmp_path: Path
) -> None:
    async def scenario(net: Net) -> None:
        api = net.api()
        agent = await net.agent("node-a", api)
        before = agent.host.certificate, agent.host.key
        await net.queue("node-a")
        await agent.renew()
        assert await api.wait("node-a", wait_s=0) is not None

        api.present(*before)
        with pytest.raises(NotThisNode):
            await api.in_hand("node-a")

    on_net(database_url, tmp_path, scenario)


def test_what_an_agent_finds_waits_for_approval(database_url: str, tmp_path: Path) -> None:
    async def scenario(net: Net) -> None:
        agent = await net.agent("node-a")
        await rows(net.ground.pool, "delete from slots where node_id = 'node-a' returning id")
        ground = net.ground
        asked = discovery.Discovery(ground.pool, NEW, ground.signer, ground.bell)

        async with asyncio.TaskGroup() as group:
            group.create_task(agent.once(wait_s=10))
            found = await asked.of("node-a", WHO)

        assert [row["slot_index"] for row in found] == list(range(8))
        assert {row["status"] for row in found} == {"discovered"}
        assert found[3]["pci_address"] == "0000:04:00.0"

    on_net(database_url, tmp_path, scenario)


@pytest.mark.parametrize(
    "said",
    [None, {}, {"slots": "all"}, {"slots": [{}]}, {"slots": [{"slot_index": 0, "numa_node": "0"}]}],
)
def test_what_an_agent_says_is_checked_before_it_is_believed(said: Any) -> None:
    with pytest.raises(Rejected):
        discovery.found_slots(said)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "127.0.0.1:1", "https://"])
def test_agents_talk_by_https_only(url: str) -> None:
    with pytest.raises(Rejected, match="not an address"):
        HttpAgentApi(url, b"")
