"""`mainstay bench failover`: how long nobody leads when the leader is killed, or stands still.

Three coordinators and three members of etcd, all real processes; shards are simulated, but they
report through the client that real ones use. Somebody assigns domains all the while: what was
acknowledged to them must be there at the end.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstay.bench.coordinators import Coordinators
from mainstay.bench.etcd import Members
from mainstay.bench.fleet_shards import KEY, SimulatedShard, heavy
from mainstay.bench.frame import Bench, FixtureError
from mainstay.bench.reporters import Reporters
from mainstay.bench.shard import ranked
from mainstay.model.coordination import Domain
from mainstay.model.coordinator_views import DomainQuery, ShardQuery
from mainstay.model.errors import MainstayError
from mainstay.runtime.children import Children
from mainstay.wire.coordinator_client import RemoteCoordinator

BUDGET: Final = {"killed_max_ms": 3_000.0, "stopped_max_ms": 3_000.0}

MEMBERS: Final = 3
COORDINATORS: Final = 3
MACHINES: Final = 10_000
"""Of each shard, as it reports."""

WRITE_EVERY_S: Final = 0.05
REPORT_TIMEOUT_S: Final = 1.5
"""For all three: one that stands still costs a shard half a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large, and how often."""

    shards: int
    domains: int
    kills: int
    lease_s: float = 2.0
    report_every_s: float = 0.2


def run(bench: Bench, size: Size) -> None:
    """Counts first, then times."""
    bench.budget = dict(BUDGET)
    with (
        tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder,
        Children(Path(folder)) as children,
    ):
        etcd = Members(children, MEMBERS)
        these = Coordinators(children, COORDINATORS, etcd=etcd.endpoints, lease_s=size.lease_s)
        asyncio.run(_Run(bench, size, these).run())


class _Run:
    """One fleet that loses its leader again and again."""

    def __init__(self, bench: Bench, size: Size, these: Coordinators) -> None:
        self._bench, self._size, self._these = bench, size, these
        body = heavy(MACHINES)
        names = [f"shard-{number}" for number in range(size.shards)]
        self._shards = [
            SimulatedShard(name, body, _own(number, size)) for number, name in enumerate(names)
        ]
        self._terms: list[int] = []
        self._assigned: list[Domain] = []

    async def run(self) -> None:
        bench, these = self._bench, self._these
        first = await these.leader()
        bench.progress(f"failover: {first.id} leads, {first.store}")
        async with self._reporters().connected() as reporters:
            await reporters.all_once()
            await self._is_whole(reporters)
            self._terms.append(reporters.term)
            async with reporters.reporting(self._size.report_every_s), self._writing(reporters):
                killed = [
                    await self._without(reporters, self._kill) for _ in range(self._size.kills)
                ]
                stopped = [
                    await self._without(reporters, self._stop) for _ in range(self._size.kills)
                ]
            await self._nothing_is_lost(reporters)
        self._tell("killed", killed)
        self._tell("stopped", stopped)

    def _reporters(self) -> Reporters:
        clock = self._bench.clock
        return Reporters(self._shards, self._these.addresses, clock, timeout_s=REPORT_TIMEOUT_S)

    async def _is_whole(self, reporters: Reporters) -> None:
        """What is measured is a fleet with all its shards and domains."""
        asked = reporters.admin
        shards = (await asked.ask(lambda one: one.shards(ShardQuery()))).rows
        domains = await asked.ask(lambda one: one.domains(DomainQuery(limit=1)))
        self._bench.expect("shards", expected=self._size.shards, actual=len(shards))
        self._bench.expect("domains", expected=self._size.domains, actual=domains.matched)

    @asynccontextmanager
    async def _writing(self, reporters: Reporters) -> AsyncIterator[None]:
        """Somebody who assigns one domain after the other, and remembers those acknowledged."""

        number, is_over = 0, asyncio.Event()

        async def write() -> None:
            nonlocal number
            while not is_over.is_set():
                number += 1
                domain = Domain(KEY, f"new-{number}")
                shard = self._shards[number % len(self._shards)].name
                try:
                    await reporters.admin.ask(_assigning(domain, shard))
                except MainstayError:
                    pass  # not acknowledged: it may be there or not
                else:
                    self._assigned.append(domain)
                await asyncio.sleep(WRITE_EVERY_S)

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            try:
                yield
            finally:
                is_over.set()

    async def _without(
        self, reporters: Reporters, lose: Callable[[str], Callable[[], None]]
    ) -> tuple[float, float]:
        """Lose the leader; ms until another one answers a report, and one of every shard."""
        leader = await self._these.leader()
        began_s, term = self._bench.clock.elapsed_s(), reporters.term
        regain = lose(leader.id)
        first_s = await self._these.until(lambda: reporters.first_above(term), "a new leader")
        all_s = await self._these.until(lambda: reporters.all_above(term), "all shards to be heard")
        self._terms.append(reporters.term)
        regain()
        await self._these.until(lambda: self._follows(leader.id), f"{leader.id} to follow")
        took = (first_s - began_s) * 1000, (all_s - began_s) * 1000
        self._bench.progress(f"failover: {lose.__name__.strip('_')} {took[0]:.0f} ms")
        return took

    def _kill(self, name: str) -> Callable[[], None]:
        self._these.kill(name)
        return lambda: self._these.start(name)

    def _stop(self, name: str) -> Callable[[], None]:
        self._these.stop(name)
        return lambda: self._these.go_on(name)

    async def _follows(self, name: str) -> bool | None:
        """Whether it is back, and knows that it does not lead."""
        standing = await self._these.standing(name)
        return (standing is not None and not standing.leads) or None

    async def _nothing_is_lost(self, reporters: Reporters) -> None:
        bench = self._bench
        await reporters.all_once()
        found = {
            Domain(row.key, row.value)
            for row in (await reporters.admin.ask(lambda one: one.domains(DomainQuery()))).rows
        }
        before = {
            domain for shard in range(self._size.shards) for domain in _own(shard, self._size)
        }
        lost = len((before | {*self._assigned}) - found)
        fell = sum(shard.terms_fell for shard in self._shards)
        bench.figures |= {
            "writes_acknowledged": len(self._assigned),
            "lost": lost,
            "terms": self._terms,
            "terms_fell": fell,
            "terms_grow": all(a < b for a, b in zip(self._terms, self._terms[1:], strict=False)),
            "reports_acknowledged": sum(shard.answered for shard in self._shards),
        }
        if lost or fell or not bench.figures["terms_grow"]:
            raise FixtureError(f"a failover has lost something: {bench.figures}")

    def _tell(self, how: str, took: list[tuple[float, float]]) -> None:
        bench = self._bench
        for what, samples in zip(("", "_all_shards"), zip(*took, strict=True), strict=True):
            bench.samples[f"{how}{what}_ms"] = [round(sample, 1) for sample in samples]
            bench.figures[f"{how}{what}_p50_ms"] = round(ranked(samples, 0.5), 1)
            bench.figures[f"{how}{what}_max_ms"] = round(max(samples), 1)


def _assigning(domain: Domain, shard: str) -> Callable[[RemoteCoordinator], Awaitable[None]]:
    return lambda one: one.assign_domain(domain, shard)


def _own(shard: int, size: Size) -> list[Domain]:
    """What one shard has from the start: an equal part."""
    return [Domain(KEY, f"rack-{n}") for n in range(shard, size.domains, size.shards)]
