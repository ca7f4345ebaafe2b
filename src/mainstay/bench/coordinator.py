"""`mainstay bench coordinator`: many shards and very many domains on one coordinator.

The coordinators and the store are real processes. Shards are simulated in this one: each has a
connection of its own and reports what a large shard would. They report more often than real ones
do, so that minutes stand for hours; every figure says at which pace it was taken.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstay.bench import etcd
from mainstay.bench.coordinators import Coordinators
from mainstay.bench.fleet_shards import KEY, SimulatedShard, heavy
from mainstay.bench.frame import Bench
from mainstay.bench.reporters import Reporters
from mainstay.bench.shard import ranked
from mainstay.coordinator.embedded import EmbeddedStore
from mainstay.coordinator.etcd import EtcdStore
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.store import Store
from mainstay.model.coordination import Domain
from mainstay.model.coordinator_views import DomainQuery, ShardQuery
from mainstay.runtime.children import Children
from mainstay.wire.coordinator_client import RemoteCoordinator
from mainstay.wire.coordinator_codec import report_to_wire

MACHINES: Final = 500_000
"""Of each shard, as it reports."""

REPORT_INTERVAL_S: Final = 30.0
"""How often real shards report."""

PACED_PER_S: Final = 20
COORDINATORS: Final = 2
MEMBERS: Final = 3
LEASE_S: Final = 2.0
REPORT_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large, and for how long."""

    shards: int
    domains: int
    seconds: float
    """Of each phase that is measured over a time."""

    writes: int
    writers: int = 16


def run(bench: Bench, size: Size) -> None:
    """Counts first, then times."""
    with (
        tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder,
        Children(Path(folder)) as children,
    ):
        replicated = etcd.path() is not None
        members = etcd.Members(children, MEMBERS).endpoints if replicated else ()
        these = Coordinators(children, COORDINATORS, etcd=members, lease_s=LEASE_S)
        asyncio.run(_Run(bench, size, these, _store(bench, children, members)).run())
        bench.figures["store_disk_bytes"] = _disk_bytes(children.home, replicated=replicated)


class _Run:
    """One large fleet."""

    def __init__(self, bench: Bench, size: Size, these: Coordinators, store: Store) -> None:
        self._bench, self._size, self._these, self._store = bench, size, these, store
        body = heavy(MACHINES)
        self._shards = [
            SimulatedShard(f"shard-{n}", body, _own(n, size)) for n in range(size.shards)
        ]

    async def run(self) -> None:
        bench, these = self._bench, self._these
        first = await these.leader()
        bench.figures["store"] = first.store.partition(" ")[0]
        bench.progress(f"coordinator: {first.id} leads, {first.store}")
        async with self._reporters().connected() as reporters:
            await self._regained(reporters)
            await self._sized(first.id)
            await self._paced(reporters)
            await self._pressed(reporters, (await these.leader()).id)
            await self._assigned(reporters)
            await self._failed_over(reporters)
        await self._store.close()

    def _reporters(self) -> Reporters:
        clock = self._bench.clock
        return Reporters(self._shards, self._these.addresses, clock, timeout_s=REPORT_TIMEOUT_S)

    async def _regained(self, reporters: Reporters) -> None:
        """Nothing is known; one report of each shard brings all of it."""
        bench, size = self._bench, self._size
        began_s = bench.clock.elapsed_s()
        await reporters.all_once()
        bench.figures["regain_s"] = round(bench.clock.elapsed_s() - began_s, 3)
        asked = reporters.admin
        shards = (await asked.ask(lambda one: one.shards(ShardQuery()))).rows
        domains = await asked.ask(lambda one: one.domains(DomainQuery(limit=1)))
        bench.expect("shards", expected=size.shards, actual=len(shards))
        bench.expect("domains", expected=size.domains, actual=domains.matched)
        bench.progress(f"coordinator: all of it in {bench.figures['regain_s']} s")

    async def _sized(self, leader: str) -> None:
        """What is stored, what a report is, and what a new leader has to do before it acts."""
        bench = self._bench
        began_s = bench.clock.elapsed_s()
        everything = await self._store.load()
        loaded_s = bench.clock.elapsed_s()
        Fleet.from_entries(everything.entries)
        read_s = bench.clock.elapsed_s()
        values = sum(len(entry.value) for entry in everything.entries.values())
        bench.figures |= {
            "state_keys": len(everything.entries),
            "state_bytes": values + sum(map(len, everything.entries)),
            "load_ms": round((loaded_s - began_s) * 1000, 1),
            "parse_ms": round((read_s - loaded_s) * 1000, 1),
            "report_bytes": len(report_to_wire(self._shards[0].report(0.0))),
            "leader_rss_mb": self._these.memory_mb(leader),
        }

    async def _paced(self, reporters: Reporters) -> None:
        """At an even pace, faster than real: nothing changes, so nothing may be written."""
        every_s = max(1.0, self._size.shards / PACED_PER_S)
        before = await self._store.load()
        reporters.took_ms.clear()
        async with reporters.reporting(every_s, spread=True):
            await asyncio.sleep(self._size.seconds)
        after = await self._store.load()
        written = sum(entry.revision > before.revision for entry in after.entries.values())
        gone = len(before.entries.keys() - after.entries.keys())
        self._bench.expect("writes_of_quiet_reports", expected=0, actual=written + gone)
        self._bench.figures["paced_times_real"] = round(REPORT_INTERVAL_S / every_s, 1)
        self._tell("paced_report", reporters.took_ms)

    async def _pressed(self, reporters: Reporters, leader: str) -> None:
        """Every shard as fast as it is answered."""
        reporters.took_ms.clear()
        computed_s = self._these.cpu_s(leader)
        began_s = self._bench.clock.elapsed_s()
        async with reporters.reporting(0.0):
            await asyncio.sleep(self._size.seconds)
        rate = len(reporters.took_ms) / (self._bench.clock.elapsed_s() - began_s)
        each_s = (self._these.cpu_s(leader) - computed_s) / len(reporters.took_ms)
        self._bench.figures["report_cpu_ms_each"] = round(each_s * 1000, 1)
        self._bench.figures["reports_per_s"] = round(rate, 1)
        self._bench.figures["real_shards_by_that"] = int(rate * REPORT_INTERVAL_S)

    async def _assigned(self, reporters: Reporters) -> None:
        """Domains by the call of an administrator: each is one guarded transaction."""
        bench, size, took = self._bench, self._size, list[float]()

        async def write(writer: int) -> None:
            for number in range(writer, size.writes, size.writers):
                began_s = bench.clock.elapsed_s()
                shard = self._shards[number % size.shards].name
                domain = Domain(KEY, f"new-{number}")
                await reporters.admin.ask(_assigning(domain, shard))
                took.append((bench.clock.elapsed_s() - began_s) * 1000)

        began_s = bench.clock.elapsed_s()
        async with asyncio.TaskGroup() as group:
            for writer in range(size.writers):
                group.create_task(write(writer))
        rate = len(took) / (bench.clock.elapsed_s() - began_s)
        bench.figures["writes_per_s"] = round(rate, 1)
        self._tell("write", took)

    async def _failed_over(self, reporters: Reporters) -> None:
        """The leader is killed, and all shards report at once to the next."""
        bench, these = self._bench, self._these
        leader, term = await these.leader(), reporters.term
        killed_s = bench.clock.elapsed_s()
        these.kill(leader.id)
        reporters.took_ms.clear()
        async with reporters.reporting(REPORT_INTERVAL_S):
            await these.until(lambda: reporters.all_above(term), "all shards to be heard")
        heard_ms = [(at_s - killed_s) * 1000 for at_s in reporters.answered_above(term)]
        bench.figures["failover_first_ms"] = round(min(heard_ms), 1)
        self._tell("failover_heard", heard_ms)
        self._tell("storm_report", reporters.took_ms)
        domains = await reporters.admin.ask(lambda one: one.domains(DomainQuery(limit=1)))
        expected = self._size.domains + self._size.writes
        bench.expect("domains_after", expected=expected, actual=domains.matched)

    def _tell(self, key: str, samples: Sequence[float]) -> None:
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            self._bench.figures[f"{key}_{name}_ms"] = round(ranked(samples, share), 1)
        self._bench.progress(f"coordinator: {key} p99 {self._bench.figures[f'{key}_p99_ms']} ms")


def _assigning(domain: Domain, shard: str) -> Callable[[RemoteCoordinator], Awaitable[None]]:
    return lambda one: one.assign_domain(domain, shard)


def _own(shard: int, size: Size) -> list[Domain]:
    return [Domain(KEY, f"rack-{n}") for n in range(shard, size.domains, size.shards)]


def _store(bench: Bench, children: Children, members: Sequence[str]) -> Store:
    """The same store, to look at from beside."""
    if members:
        return EtcdStore(members, prefix="mainstay/default")
    return EmbeddedStore(children.home / "coordinator.db", clock=bench.clock)


def _disk_bytes(home: Path, *, replicated: bool) -> int:
    """Of one member's database, history included; or of the one file."""
    found = home.glob("etcd-0/member/snap/db" if replicated else "coordinator.db*")
    return sum(path.stat().st_size for path in found)
