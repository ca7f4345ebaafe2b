"""The coordinator's rows of the failure table, with real processes: shards go on as before, and
what was begun is finished when everybody is back. There is no step by hand in any of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from coordinators import ZONE, coordinator, dialed, eventually, in_a_file, led, on_etcd, to_assign
from etcd_servers import etcd_servers
from fault_proxy import fault_proxy
from linked_shards import (
    Owners,
    connected,
    heard,
    machines,
    needs,
    provider,
    rows,
    serves,
    shard,
)
from mainstay.model.coordination import Domain
from mainstay.model.coordinator_calls import CoordinatorDone, MoveDomainRequest
from mainstay.model.coordinator_views import ClusterBindingQuery, DomainQuery, InstructionQuery
from mainstay.model.errors import Unavailable
from mainstay.wire.coordinator_client import RemoteCoordinator
from mainstay.wire.coordinator_dialer import CoordinatorDialer
from outside import soak_factor
from running import Home, Process, at_home

EAST: Final = Domain(ZONE, "use1-az2")
WEST: Final = Domain(ZONE, "use1-az4")
EMPTY: Final = Domain(ZONE, "use1-az6")
MACHINES: Final = 8
BOUND: Final = 6
"""So many serve while a zone moves: more than one zone has, so some of them lie in either."""

FLEET: Final = """
name = "sim"
latency_s = { create = 0.05, configure = 0.05, drain = 0.05, delete = 0.05 }

[[pool]]
capacity = "Reserved"
type = "m5.large"
zone = "use1-az2"
slots = 4

[[pool]]
capacity = "Reserved"
type = "m5.large"
zone = "use1-az4"
slots = 4
"""

SETTINGS: Final = """
[shard]
report_interval_s = 0.3
cycle_interval_s = 0.2

[coordinator]
report_interval_s = 0.3
rebalance = false
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    (tmp_path / "mainstay.toml").write_text(SETTINGS)
    (tmp_path / "fleet.toml").write_text(FLEET)
    with at_home(tmp_path) as found:
        yield found


async def held(dialer: CoordinatorDialer) -> dict[str, str]:
    """Who has which zone for sure."""
    found = await dialer.ask(lambda remote: remote.domains(DomainQuery()))
    names = {EAST.value: "east", WEST.value: "west", EMPTY.value: "empty"}
    return {names[row.value]: row.shard for row in found.rows if row.state == "held"}


def to_move(to: str) -> Callable[[RemoteCoordinator], Awaitable[CoordinatorDone]]:
    """The question that moves the western zone."""
    return lambda remote: remote.move_domain(MoveDomainRequest(key=ZONE, value=WEST.value, to=to))


def owns(dialer: CoordinatorDialer, **zones: str) -> Callable[[], Awaitable[bool]]:
    async def said() -> bool:
        return await held(dialer) == zones

    return said


def _is_not_ready(process: Process) -> Callable[[], Awaitable[bool]]:
    """Asks whether it says so, which it does when its time as a leader is over."""

    async def said() -> bool:
        return process.page("/readyz")[0] == 503

    return said


@pytest.mark.needs("etcd-server")
def test_without_a_quorum_shards_go_on_and_new_ones_wait(home: Home) -> None:
    async def scenario() -> None:
        with etcd_servers(home.path / "etcd") as etcd:
            sim = provider(home)
            only = coordinator(home, "c-0", *on_etcd(etcd.endpoints))
            a = shard(home, "a", sim, only.grpc)
            async with connected(a, "web") as web, dialed(only) as dialer:
                web.set_needs(needs(2, "web"))
                await eventually(heard(dialer, "a"))
                await eventually(serves(a, 2))

                etcd.kill(0, 1)
                await eventually(lambda: _is_refused(dialer))
                web.set_needs(needs(5, "web"))
                b = shard(home, "b", sim, only.grpc)
                await eventually(serves(a, 5))
                assert a.page("/readyz")[0] == 200
                assert b.page("/readyz")[0] == 200
                await eventually(_is_not_ready(only))

                etcd.start(0, 1)
                await eventually(heard(dialer, "a", "b"))
                bound = await dialer.ask(lambda remote: remote.clusters(ClusterBindingQuery()))
                assert [(row.cluster, row.shard) for row in bound.rows] == [("web", "a")]
                await eventually(serves(a, 5))

    async def _is_refused(dialer: CoordinatorDialer) -> bool:
        try:
            await dialer.ask(lambda remote: remote.assign_domain(EAST, "a"))
        except Unavailable:
            return True
        return False

    asyncio.run(scenario())


def test_a_shard_that_is_cut_off_goes_on_and_hears_afterwards_what_it_was_told(
    home: Home,
) -> None:
    async def scenario() -> None:
        sim = provider(home)
        only = coordinator(home, "c-0", *in_a_file(home))
        with fault_proxy(only.grpc) as proxy:
            a = shard(home, "a", sim, proxy.address)
            async with connected(a, "web") as web, dialed(only) as dialer:
                web.set_needs(needs(2, "web"))
                await eventually(heard(dialer, "a"))
                await eventually(serves(a, 2))

                proxy.hang()
                before = (await rows(dialer))["a"].last_heartbeat_ns
                await dialer.ask(lambda remote: remote.assign_domain(EAST, "a"))
                web.set_needs(needs(4, "web"))
                await eventually(serves(a, 4))
                cycles = a.metric("mainstay_shard_cycle_seconds_count")
                await eventually(lambda: _later(a, cycles))
                assert (await rows(dialer))["a"].last_heartbeat_ns - before < 1_000_000_000
                assert (await rows(dialer))["a"].instructions == 1
                assert len(await machines(a)) == MACHINES

                proxy.cut()
                proxy.pass_all()
                await eventually(owns(dialer, east="a"))
                waiting = await dialer.ask(lambda remote: remote.instructions(InstructionQuery()))
                assert waiting.rows == ()
                await eventually(serves(a, 4))

    async def _later(process: Process, cycles: float) -> bool:
        return process.metric("mainstay_shard_cycle_seconds_count") > cycles + 3

    asyncio.run(scenario())


def test_membership_that_was_lost_comes_back_with_the_next_heartbeat(home: Home) -> None:
    async def scenario() -> None:
        sim = provider(home)
        first = coordinator(home, "c-0", *in_a_file(home))
        a = shard(home, "a", sim, first.grpc)
        async with connected(a, "web") as web, dialed(first) as dialer:
            web.set_needs(needs(2, "web"))
            await eventually(heard(dialer, "a"))
            for zone in (EAST, WEST):
                await dialer.ask(to_assign(zone, "a"))
            await eventually(owns(dialer, east="a", west="a"))
            await eventually(serves(a, 2))
            old = (await rows(dialer))["a"]

            first.kill()
            for path in home.path.glob("shared.db*"):
                path.unlink()
            web.set_needs(needs(4, "web"))
            again = coordinator(home, "c-0", *in_a_file(home), listen=first.grpc)
            await eventually(heard(dialer, "a"))

            assert await held(dialer) == {"east": "a", "west": "a"}
            new = (await rows(dialer))["a"]
            assert (new.address, new.clusters, new.takes_all) == (old.address, 1, False)
            await dialer.ask(lambda remote: remote.unassign_domain(WEST))
            await eventually(owns(dialer, east="a"))
            await eventually(serves(a, 4))
            assert again.metric("mainstay_coordinator_conflicts") == 0

    asyncio.run(scenario())


def test_a_domain_moves_between_two_shards_and_every_machine_has_one_owner_whoever_dies(
    home: Home,
) -> None:
    """Donor, recipient and coordinator are killed while a domain moves, one after the other."""

    async def scenario() -> None:
        sim = provider(home)
        running = {"c": coordinator(home, "c-0", *in_a_file(home))}
        running["a"] = shard(home, "a", sim, running["c"].grpc)
        owners = Owners()
        async with (
            connected(running["a"], "web") as web,
            dialed(running["c"]) as dialer,
            asyncio.TaskGroup() as tasks,
        ):
            web.set_needs(needs(BOUND, "web"))
            await eventually(heard(dialer, "a"))
            await eventually(serves(running["a"], BOUND))
            for zone in (EAST, WEST):
                await dialer.ask(to_assign(zone, "a"))
            await eventually(owns(dialer, east="a", west="a"))
            await _another_shard(dialer, running, sim)
            watching = tasks.create_task(owners.watch())
            giver, getter = "a", "b"
            for victim in ["a", "b", "c"] * soak_factor():
                owners.giver, owners.getter = running[giver], running[getter]
                await dialer.ask(to_move(getter))
                await _killed_and_back(running, victim, sim)
                owners.giver, owners.getter = running[giver], running[getter]
                await eventually(owns(dialer, east="a", west=getter, empty="b"), patience_s=60)
                await eventually(lambda: _is_whole(running))
                giver, getter = getter, giver
            await eventually(serves(running["a"], BOUND))
            watching.cancel()
        assert owners.looks > 20

    async def _another_shard(
        dialer: CoordinatorDialer, running: dict[str, Process], sim: Process
    ) -> None:
        """It begins with a zone that has no machines; without any it would take them all."""
        (home.path / "mainstay.toml").write_text(
            SETTINGS.replace("[shard]", f'[shard]\ndomains = ["{ZONE}={EMPTY.value}"]')
        )
        running["b"] = shard(home, "b", sim, running["c"].grpc)
        await eventually(owns(dialer, east="a", west="a", empty="b"))

    async def _killed_and_back(running: dict[str, Process], victim: str, sim: Process) -> None:
        await asyncio.sleep(0.2)
        running[victim].kill()
        listen = running[victim].grpc
        if victim == "c":
            running["c"] = coordinator(home, "c-0", *in_a_file(home), listen=listen)
            await led(running["c"])
        else:
            running[victim] = shard(home, victim, sim, running["c"].grpc, listen=listen)

    async def _is_whole(running: dict[str, Process]) -> bool:
        a, b = await machines(running["a"]), await machines(running["b"])
        assert not a & b
        return len(a | b) == MACHINES

    asyncio.run(scenario())
