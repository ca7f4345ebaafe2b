"""Bare metal from a file: always there, never deleted, touched only by commands."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hardware import ids, serving
from mainstay.model.calls import (
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    Status,
    status_of,
)
from mainstay.model.errors import IllegalTransition, MainstayError, Rejected
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.server import ProviderServer
from mainstay.providers.static.backend import StaticBackend
from mainstay.providers.static.hosts import read
from mainstay.runtime.clock import SystemClock

ONE = """
[[host]]
name = "rack1-7"
type = "h100-8"
zone = "zone-a"
address = "10.0.0.7"
resources = {cpu = 192, memory = "2048Gi", "nvidia.com/gpu" = 8}
labels = {rack = "rack1"}
"""
TWO = ONE + ONE.replace("rack1-7", "rack1-8").replace("10.0.0.7", "10.0.0.8")


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.toml"
    path.write_text(ONE)
    return path


def with_hosts(path: Path, scenario: Callable[[ProviderServer], Awaitable[None]]) -> None:
    async def whole() -> None:
        options = Options(reconcile_interval_s=1e6, ready_poll_s=0.0)
        backend = StaticBackend(path)
        async with serving(backend, clock=SystemClock(), options=options) as server:
            await scenario(server)

    asyncio.run(whole())


def there(path: Path) -> bool:
    return path.exists()


def edit(path: Path, text: str) -> None:
    path.write_text(text)


async def settled(server: ProviderServer) -> State:
    """The state it comes to rest in, when a command has ended."""
    async with asyncio.timeout(30):
        while True:
            machine = await server.get(GetRequest("rack1-7"))
            if machine.state not in {State.CONFIGURING, State.DRAINING}:
                return machine.state
            await asyncio.sleep(0.005)


def test_a_host_of_the_file_is_an_idle_bare_metal_machine(hosts: Path) -> None:
    async def scenario(server: ProviderServer) -> None:
        machine = await server.get(GetRequest("rack1-7"))
        assert machine.state is State.IDLE
        assert machine.profile.capacity_type is CapacityType.BARE_METAL
        assert machine.host is not None
        assert (machine.host.provider, machine.host.ref) == ("static", "10.0.0.7")
        assert machine.profile.resources.units["nvidia.com/gpu"] == 8
        assert machine.price_per_hour == 0.0

    with_hosts(hosts, scenario)


def test_delete_is_not_supported_and_create_finds_nothing_to_create(hosts: Path) -> None:
    async def scenario(server: ProviderServer) -> None:
        with pytest.raises(MainstayError, match="rack1-7") as refusal:
            await server.delete(DeleteRequest("rack1-7"))
        assert status_of(refusal.value) is Status.UNIMPLEMENTED
        with pytest.raises(IllegalTransition):
            await server.create(CreateRequest("rack1-7"))

    with_hosts(hosts, scenario)


def test_commands_join_and_empty_a_host(hosts: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    hosts.write_text(
        ONE + "[commands]\n"
        f"configure = ['sh', '-c', 'cat > {told}; echo {{cluster}} {{host}} >> {told}']\n"
        f"drain = ['sh', '-c', 'echo {{grace_s}} >> {told}']\n"
    )

    async def scenario(server: ProviderServer) -> None:
        await server.configure(ConfigureRequest("rack1-7", "web", b"blob\n"))
        assert await settled(server) is State.CONFIGURED
        await server.drain(DrainRequest("rack1-7", 9))
        assert await settled(server) is State.IDLE

    with_hosts(hosts, scenario)

    assert told.read_text() == "blob\nweb 10.0.0.7\n9\n"


def test_a_command_that_fails_fails_the_machine_with_what_it_said(hosts: Path) -> None:
    hosts.write_text(ONE + "[commands]\nconfigure = ['sh', '-c', 'echo no disk >&2; exit 3']\n")

    async def scenario(server: ProviderServer) -> None:
        await server.configure(ConfigureRequest("rack1-7", "web"))
        assert await settled(server) is State.FAILED
        error = (await server.get(GetRequest("rack1-7"))).last_error
        assert error == "configure: sh ended with code 3: no disk"

    with_hosts(hosts, scenario)


def test_a_command_that_is_not_there_fails_the_machine(hosts: Path) -> None:
    hosts.write_text(ONE + "[commands]\nconfigure = ['no-such-program']\n")

    async def scenario(server: ProviderServer) -> None:
        await server.configure(ConfigureRequest("rack1-7", "web"))
        assert await settled(server) is State.FAILED
        assert "cannot run no-such-program" in (await server.get(GetRequest("rack1-7"))).last_error

    with_hosts(hosts, scenario)


def test_a_node_is_asked_until_it_has_joined(hosts: Path, tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = f"echo x >> {count}; test $(wc -l < {count}) -ge 3 || exit 75"
    joins = f"configure = ['sh', '-c', 'echo joined >> {count}.joined']"
    hosts.write_text(f"{ONE}[commands]\n{joins}\nready = ['sh', '-c', '{script}']\n")

    async def scenario(server: ProviderServer) -> None:
        await server.configure(ConfigureRequest("rack1-7", "web"))
        assert await settled(server) is State.CONFIGURED

    with_hosts(hosts, scenario)

    assert count.read_text() == "x\n" * 3
    assert count.with_name("count.joined").read_text() == "joined\n"


def test_a_command_does_not_go_on_when_nobody_waits_for_it(hosts: Path, tmp_path: Path) -> None:
    number = tmp_path / "pid"
    script = f"echo $$ > {number}.part; mv {number}.part {number}; exec sleep 1000"
    hosts.write_text(f"{ONE}[commands]\nconfigure = ['sh', '-c', '{script}']\n")

    async def scenario(server: ProviderServer) -> None:
        await server.configure(ConfigureRequest("rack1-7", "web"))
        async with asyncio.timeout(30):
            while not there(number):  # noqa: ASYNC110 - another process's file
                await asyncio.sleep(0.005)

    with_hosts(hosts, scenario)

    with pytest.raises(ProcessLookupError):
        os.kill(int(number.read_text()), 0)


def test_editing_the_file_adds_and_removes_machines(hosts: Path) -> None:
    async def scenario(server: ProviderServer) -> None:
        edit(hosts, TWO)
        await server.reconcile()
        assert await ids(server) == ["rack1-7", "rack1-8"]
        edit(hosts, ONE)
        await server.reconcile()
        assert await ids(server) == ["rack1-7"]

    with_hosts(hosts, scenario)


def test_a_broken_edit_changes_nothing_and_shows_in_health(hosts: Path) -> None:
    async def scenario(server: ProviderServer) -> None:
        edit(hosts, "[[host")
        with pytest.raises(Rejected, match="not TOML"):
            await server.reconcile()
        assert "not TOML" in server.health.why
        assert await ids(server) == ["rack1-7"]

    with_hosts(hosts, scenario)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[host", "not TOML"),
        ("host = 3", "written as"),
        ("[hosts]", "unknown key: hosts"),
        (ONE.replace("zone-a", ""), "host 'rack1-7' has no zone"),
        (ONE.replace("address", "adress"), "unknown key: adress"),
        (ONE.replace("192", "1.5"), "cpu = 1.5"),
        (ONE.replace('"h100-8"', "8"), "type of host 'rack1-7' must be a str: 8"),
        (ONE.replace("2048Gi", "lots"), "lots"),
        (ONE + "[commands]\nconfigure = 'sh'", "list of words: configure = 'sh'"),
        (ONE + "[commands]\nreboot = ['sh']", "unknown key: reboot"),
    ],
)
def test_a_wrong_file_is_refused_by_name(hosts: Path, text: str, why: str) -> None:
    hosts.write_text(text)

    with pytest.raises(Rejected, match=why):
        read(hosts)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="cannot be read"):
        read(tmp_path / "nowhere.toml")
