"""No two leaders act at once: partitions, stopped and killed leaders, on real members of etcd.

A leader notes when it acted. The times of two terms never overlap, and what a leader still tries to
write when its time is over is refused.
"""

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import outside
from candidates import Candidate, closing, until_true
from etcd_servers import EtcdServers, etcd_servers
from fault_proxy import Direction, FaultProxy, fault_proxy
from mainstay.coordinator.etcd import EtcdStore
from mainstay.runtime.children import Child, Children
from running import until
from store_processes import THIS, acts, overlaps, said

pytestmark = pytest.mark.needs("etcd-server")

PREFIXES = (f"leading-{number}/" for number in itertools.count())

FAULTS: dict[str, Callable[[FaultProxy], None]] = {
    "nothing-passes": lambda proxy: proxy.hang(),
    "it-hears-and-is-not-heard": lambda proxy: proxy.hang(Direction.THERE),
    "it-is-heard-and-does-not-hear": lambda proxy: proxy.hang(Direction.BACK),
    "it-is-refused": lambda proxy: proxy.cut(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_leader_that_is_cut_off_stops_before_another_begins(
    etcd_cluster: EtcdServers, fault: str
) -> None:
    async def scenario(proxies: Sequence[FaultProxy]) -> None:
        prefix = next(PREFIXES)
        through = [f"http://{proxy.address}" for proxy in proxies]
        stores = [EtcdStore(urls, prefix=prefix) for urls in (through, etcd_cluster.endpoints)]
        cut_off, other = Candidate(stores[0], "cut-off"), Candidate(stores[1], "other")
        async with closing(stores), cut_off.running():
            await until_true(lambda: cut_off.acts)
            async with other.running():
                await until_true(lambda: other.leading.leader)
                for proxy in proxies:
                    FAULTS[fault](proxy)
                await until_true(lambda: other.acts)
                assert not cut_off.reigns[0].is_valid()
                for proxy in proxies:
                    proxy.pass_all()
                await until_true(lambda: cut_off.late)
                assert cut_off.late == ["deposed"]
                await until_true(lambda: cut_off.leading.leader == other.leading.leader)
        assert len(other.acts) == 1
        assert not overlaps([*cut_off.acts.values(), *other.acts.values()])

    with ExitStack() as stack:
        targets = [endpoint.removeprefix("http://") for endpoint in etcd_cluster.endpoints]
        asyncio.run(scenario([stack.enter_context(fault_proxy(target)) for target in targets]))


def test_a_leader_that_loses_one_member_of_three_goes_on_leading(etcd_cluster: EtcdServers) -> None:
    async def scenario(proxy: FaultProxy) -> None:
        endpoints = [f"http://{proxy.address}", *etcd_cluster.endpoints[1:]]
        store = EtcdStore(endpoints, prefix=next(PREFIXES))
        one = Candidate(store, "one")
        async with closing([store]), one.running():
            await until_true(lambda: one.acts)
            proxy.hang()
            assert not await store.leaderless(patience_s=2 * store.lease_s)
            assert len(one.reigns) == 1
            assert one.reigns[0].is_valid()

    with fault_proxy(etcd_cluster.endpoints[0].removeprefix("http://")) as proxy:
        asyncio.run(scenario(proxy))


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    with Children(tmp_path / "home") as started:
        yield started


def test_a_leader_that_is_stopped_and_wakes_up_later_can_write_nothing(
    etcd_cluster: EtcdServers, children: Children
) -> None:
    prefix = next(PREFIXES)
    stopped = _leader(children, prefix, "stopped", etcd_cluster.endpoints)
    until(lambda: acts(stopped.log))
    other = _leader(children, prefix, "other", etcd_cluster.endpoints)
    os.kill(stopped.pid, signal.SIGSTOP)
    until(lambda: acts(other.log))
    os.kill(stopped.pid, signal.SIGCONT)

    assert _late(stopped) == "deposed"
    assert not overlaps([*acts(stopped.log).values(), *acts(other.log).values()])


def test_when_a_leader_is_killed_another_leads(
    etcd_cluster: EtcdServers, children: Children
) -> None:
    prefix = next(PREFIXES)
    killed = _leader(children, prefix, "killed", etcd_cluster.endpoints)
    until(lambda: acts(killed.log))
    other = _leader(children, prefix, "other", etcd_cluster.endpoints)
    killed.kill()
    until(lambda: acts(other.log))

    assert max(acts(killed.log)) < min(acts(other.log))
    assert not overlaps([*acts(killed.log).values(), *acts(other.log).values()])


def test_a_leader_whose_network_goes_down_stops_before_another_begins(
    children: Children, tmp_path: Path
) -> None:
    """In a network namespace of its own: packets are lost, and no connection is closed."""
    with _namespace() as (name, host), etcd_servers(tmp_path / "etcd", size=1, host=host) as etcd:
        enter = [_IP, "netns", "exec", name]
        alone = _leader(children, "netns", "alone", etcd.endpoints, enter=enter)
        until(lambda: acts(alone.log))
        other = _leader(children, "netns", "other", etcd.endpoints)
        _ip("-n", name, "link", "set", f"{name}b", "down")
        until(lambda: acts(other.log))
        _ip("-n", name, "link", "set", f"{name}b", "up")

        assert _late(alone) == "deposed"
        assert not overlaps([*acts(alone.log).values(), *acts(other.log).values()])


def _leader(
    children: Children,
    prefix: str,
    name: str,
    endpoints: Sequence[str],
    *,
    enter: Sequence[str] = (),
) -> Child:
    words = [*enter, sys.executable, str(THIS), "lead", prefix, name, *endpoints]
    return children.program(name, words)


def _late(child: Child) -> str:
    """What became of what it still tried to write when its first reign was over."""
    (first, *_) = until(lambda: [line for line in said(child.log) if "late" in line])
    return str(first["late"])


_IP = "/usr/sbin/ip"


def _ip(*words: str) -> None:
    done = outside.run([_IP, *words])
    assert done.returncode == 0, done.stderr


@contextmanager
def _namespace() -> Iterator[tuple[str, str]]:
    """A namespace joined to ours by one link: its name, and our address on the link."""
    name = f"ms{os.getpid() % 100_000}"
    net = f"10.199.{os.getpid() % 250}"
    if not Path(_IP).exists() or outside.run([_IP, "netns", "add", name]).returncode:
        pytest.skip("no network namespaces here: they need root and iproute2")
    try:
        _ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b", "netns", name)
        _ip("address", "add", f"{net}.1/30", "dev", f"{name}a")
        _ip("-n", name, "address", "add", f"{net}.2/30", "dev", f"{name}b")
        _ip("link", "set", f"{name}a", "up")
        _ip("-n", name, "link", "set", f"{name}b", "up")
        yield name, f"{net}.1"
    finally:
        _ip("netns", "delete", name)
