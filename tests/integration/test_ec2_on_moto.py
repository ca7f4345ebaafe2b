"""EC2, as far as moto knows it: a server process on loopback, real calls, nothing of Amazon's."""

import asyncio
import base64
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

import hardware
import outside
from certificates import Authority
from mainstay.conformance.limits import Limits
from mainstay.conformance.report import Grade, Outcome, Report, remarks
from mainstay.model.calls import (
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
)
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.processes.conformance import Asked, examined
from mainstay.providers.ec2.config import Ec2Config, config_of
from mainstay.providers.ec2.provider import Credentials, connect, ec2_backend
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.server import ProviderServer
from mainstay.runtime.clock import SystemClock
from mainstay.wire.provider_server import provider_handler
from mainstay.wire.tls import Plaintext, transport
from mainstay.wire.transport import Over, serving

SECRET: Final = b"#!/bin/sh\njoin --token not-for-tags\n"
NOBODY: Final = Credentials("nobody", "nothing")
AT_WORK: Final = {State.CREATING, State.CONFIGURING, State.DRAINING, State.DELETING}

MOTO: Final = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.disable()
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
"""Ends when its standard input does: with us, whatever happens."""


@contextmanager
def moto() -> Iterator[str]:
    """Where it listens. Its thousand images are left out: it would search them at each launch."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", MOTO],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=outside.environment(MOTO_EC2_LOAD_DEFAULT_AMIS="false"),
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with moto() as address:
        yield address


def pools(endpoint: str, name: str, count: int = 2) -> Ec2Config:
    """A pool on demand and one of spot, in two zones."""
    pool = {
        "type": "m5.large", "image": "ami-12345678", "count": count, "price_per_hour": 0.096,
        "resources": {"cpu": 2, "memory": "8Gi"},
    }  # fmt: skip
    parsed = {
        "name": name,
        "region": "us-east-1",
        "endpoint": endpoint,
        "timing": {"poll_s": 0.05},
        "pool": [
            {**pool, "name": "od", "zone": "us-east-1a", "capacity": "on-demand"},
            {**pool, "name": "sp", "zone": "us-east-1b", "capacity": "spot"},
        ],
    }
    return config_of(parsed, folder=Path())


@dataclass(frozen=True)
class Lab:
    """A provider, and somebody who sees what it does at EC2."""

    config: Ec2Config
    server: ProviderServer
    client: Any

    def live(self) -> list[dict[str, Any]]:
        """Instances of this provider, as anybody may see them."""
        filters = [
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
            {"Name": "tag:mainstay:provider", "Values": [self.config.name]},
        ]
        answer = self.client.describe_instances(Filters=filters)
        return [each for held in answer["Reservations"] for each in held["Instances"]]

    def user_data(self, instance: str) -> bytes:
        answer = self.client.describe_instance_attribute(InstanceId=instance, Attribute="userData")
        return base64.b64decode(answer.get("UserData", {}).get("Value", ""))

    async def settled(self, machine: str) -> Machine:
        """The machine, when its step has ended."""
        async with asyncio.timeout(30):
            while True:
                found = await self.server.get(GetRequest(machine))
                if found.state not in AT_WORK:
                    return found
                await asyncio.sleep(0.02)

    async def created(self, machine: str) -> Machine:
        await self.server.create(CreateRequest(machine))
        return await self.settled(machine)

    async def joined(self, machine: str, **metadata: str) -> Machine:
        await self.server.configure(ConfigureRequest(machine, "web", SECRET, metadata))
        return await self.settled(machine)


CLIENTS: Final[dict[str, Any]] = {}


def client_of(config: Ec2Config) -> Any:
    """One for each endpoint: to make one costs a second."""
    if config.endpoint not in CLIENTS:
        CLIENTS[config.endpoint] = connect(config, NOBODY)
    return CLIENTS[config.endpoint]


@asynccontextmanager
async def lab(config: Ec2Config, client: Any = None) -> AsyncIterator[Lab]:
    client = client or client_of(config)
    options = Options(reconcile_interval_s=1e6, ready_poll_s=0.05)
    clock = SystemClock()
    with ec2_backend(config, clock, client=client) as backend:
        async with hardware.serving(backend, clock=clock, options=options) as server:
            yield Lab(config, server, client)


def in_lab(config: Ec2Config, scenario: Callable[[Lab], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with lab(config) as at:
            await scenario(at)

    asyncio.run(whole())


@pytest.mark.parametrize(("machine", "kind"), [("od-0", None), ("sp-0", "spot")])
def test_a_machine_goes_from_slot_to_cluster_and_back(
    endpoint: str, machine: str, kind: str | None
) -> None:
    async def scenario(at: Lab) -> None:
        idle = await at.created(machine)
        assert idle.state is State.IDLE, idle.last_error
        (parked,) = at.live()
        assert idle.host is not None
        assert parked["InstanceId"] == idle.host.ref
        assert parked.get("InstanceLifecycle") == kind
        assert parked["Placement"]["AvailabilityZone"] == idle.profile.zone
        assert at.user_data(idle.host.ref) == b""

        bound = await at.joined(machine, k="\x00\u2603")
        assert (bound.state, bound.cluster) == (State.CONFIGURED, "web"), bound.last_error
        (node,) = at.live()
        assert bound.host is not None
        assert node["InstanceId"] == bound.host.ref != idle.host.ref
        assert at.user_data(bound.host.ref) == SECRET
        assert "not-for-tags" not in str(node["Tags"])

        await at.server.drain(DrainRequest(machine))
        emptied = await at.settled(machine)
        assert emptied.state is State.IDLE, emptied.last_error
        (fresh,) = at.live()
        assert fresh["InstanceId"] not in {idle.host.ref, bound.host.ref}

        await at.server.delete(DeleteRequest(machine))
        assert (await at.settled(machine)).state is State.SPECULATIVE
        assert at.live() == []

    in_lab(pools(endpoint, f"trip-{machine}"), scenario)


def test_what_spot_costs_is_what_the_market_says(endpoint: str) -> None:
    async def scenario(at: Lab) -> None:
        spot, on_demand = [await at.server.get(GetRequest(name)) for name in ("sp-0", "od-0")]
        assert spot.price_per_hour == 0.00001  # moto's only price
        assert on_demand.price_per_hour == 0.096

    in_lab(pools(endpoint, "prices"), scenario)


def test_two_who_create_at_once_end_with_one_instance(endpoint: str) -> None:
    """Two stores, so two operations and two tokens; and moto heeds no token anyway."""

    async def scenario() -> None:
        config = pools(endpoint, "race")
        async with lab(config) as one, lab(config) as other:
            async with asyncio.TaskGroup() as both:
                both.create_task(one.created("od-0"))
                both.create_task(other.created("od-0"))
            await one.server.reconcile()
            await other.server.reconcile()
            assert len(one.live()) == 1

    asyncio.run(scenario())


class Forgetful:
    """A client that launches, and then loses the answer, once."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def run_instances(self, **asked: Any) -> Any:
        answer = self._client.run_instances(**asked)
        if not self.lost:
            self.lost += 1
            raise TimeoutError
        return answer


def test_a_lost_answer_does_not_become_a_second_instance(endpoint: str) -> None:
    async def scenario() -> None:
        config = pools(endpoint, "lost")
        client = Forgetful(client_of(config))
        async with lab(config, client) as at:
            assert (await at.created("od-0")).state is State.IDLE
            assert client.lost == 1
            assert len(at.live()) == 1

    asyncio.run(scenario())


def test_a_provider_that_lost_its_store_reads_from_tags_what_it_had(endpoint: str) -> None:
    config = pools(endpoint, "memory")
    echo = {f"key-{number}": "\u2603" * number for number in range(55)}

    async def before(at: Lab) -> None:
        await at.created("od-0")
        await at.joined("od-0", **echo)
        await at.created("sp-0")

    async def after(at: Lab) -> None:
        bound = await at.server.get(GetRequest("od-0"))
        assert (bound.state, bound.cluster) == (State.CONFIGURED, "web")
        assert dict(bound.shard_metadata) == echo
        assert (await at.server.get(GetRequest("sp-0"))).state is State.IDLE
        await at.server.drain(DrainRequest("od-0"))
        assert (await at.settled("od-0")).state is State.IDLE

    in_lab(config, before)
    in_lab(config, after)


def test_an_instance_that_somebody_ended_takes_its_machine_with_it(endpoint: str) -> None:
    async def scenario(at: Lab) -> None:
        host = (await at.created("sp-0")).host
        assert host is not None
        at.client.terminate_instances(InstanceIds=[host.ref])
        await at.server.reconcile()
        assert await hardware.ids(at.server) == ["od-0", "od-1", "sp-0+1", "sp-1"]

    in_lab(pools(endpoint, "loss"), scenario)


"""For the second time: what differs is only the line, and moto is slow."""


async def conformance(config: Ec2Config, server_over: Over, client_over: Over) -> Report:
    async with (
        lab(config) as at,
        serving([provider_handler(at.server)], "127.0.0.1:0", server_over) as address,
    ):
        limits = Limits(poll_s=0.1)
        report = await examined(Asked(address=address, over=client_over, limits=limits))
        assert at.live() == []
        return report


@pytest.mark.parametrize("secured", [False, True], ids=["plaintext", "mutual TLS"])
def test_it_conforms(tmp_path: Path, *, secured: bool) -> None:
    ours: Over = Plaintext()
    theirs: Over = Plaintext()
    if secured:
        authority = Authority(tmp_path)
        ours = transport(authority.flags("bigfleet://shard/s-0", name="it"), "example.org:1")
        theirs = transport(authority.flags("bigfleet://admin", name="me"), "example.org:1")

    with moto() as address:  # one of its own: it never forgets, and gets slower
        report = asyncio.run(conformance(pools(address, "aws", 64), ours, theirs))

    said = "\n".join(remarks(report))
    assert report.grade is Grade.CONFORMANT, said
    assert report.counts[Outcome.PASSED] >= 90, said
    assert list(report.left) == []
