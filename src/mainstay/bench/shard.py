"""`mainstay bench shard`: whole cycles of a shard process, on the fleet of the Go reference.

Everything is as it runs: the shard is a process, its provider is another, fifty clusters hold their
sessions, and what the shard says of itself is asked by gRPC. Figures come from raw samples.
"""

import asyncio
import math
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from mainstay.bench import lcg
from mainstay.bench.frame import Bench, FixtureError
from mainstay.bench.list_server import ListServer, started
from mainstay.bench.listed import CENT
from mainstay.bench.shard_clusters import Clusters, demand_of
from mainstay.model.errors import Unavailable
from mainstay.model.state import State
from mainstay.model.views import ProviderQuery, Stamp, Summary, SummaryQuery
from mainstay.runtime.children import Child, Children
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import open_channel

AnswerT = TypeVar("AnswerT")

BUDGET: Final = {"demand_to_decision_p99_ms": 1_000.0}
BUDGET_FROM: Final = 100_000
"""The budget is for large fleets."""

PATIENCE_S: Final = 300.0
"""How long anything may take before the bench gives up."""

POLL_S: Final = 0.1
TURNS_MAX: Final = 10
"""So many changes may be needed for each that can be measured."""

CONFIG: Final = """
[shard]
shard_id = "bench"
listen = "127.0.0.1:0"
http = "127.0.0.1:0"
insecure = true
providers = ["listed={address}"]
cycle_interval_s = {interval_s}
hold_on_demand_s = 0
hold_spot_s = 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large, and how often."""

    machines: int
    needs: int
    racks: int
    cycles: int
    interval_s: float


def size_of(machines: int, cycles: int) -> Size:
    """The reference's proportions: a need to a hundred machines, a rack to a thousand."""
    return Size(
        machines=machines,
        needs=max(4 * lcg.CLUSTERS, machines // 100),
        racks=max(9, machines // 1000),
        cycles=cycles,
        interval_s=0.5 if machines >= BUDGET_FROM else 0.25,
    )


def by_state(machines: int) -> dict[str, int]:
    """How many machines of the reference's fleet stand where."""
    configured, idle = machines * 85 // 100, machines * 10 // 100
    return {
        str(State.SPECULATIVE): machines - configured - idle,
        str(State.IDLE): idle, str(State.CONFIGURED): configured,
    }  # fmt: skip


def run(bench: Bench, size: Size) -> None:
    """Counts first, then times."""
    bench.budget = dict(BUDGET) if size.machines >= BUDGET_FROM else {}
    with (
        tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder,
        Children(Path(folder)) as children,
    ):
        measure(bench, size, children)


def measure(bench: Bench, size: Size, children: Children) -> None:
    """The same with processes that the caller ends."""
    asyncio.run(_Run(bench, size, children).run())


class _Run:
    """One shard, its provider and its clusters."""

    def __init__(self, bench: Bench, size: Size, children: Children) -> None:
        self._bench = bench
        self._size = size
        self._children = children

    async def run(self) -> None:
        bench, size = self._bench, self._size
        bench.progress(f"shard: making {size.machines:,} machines in another process")
        server = started(self._children, size.machines, size.needs, size.racks)
        bench.expect("machines", expected=size.machines, actual=server.machines)
        bench.figures["list_bytes"] = server.size_bytes
        started_s = bench.clock.elapsed_s()
        child = self._start(server.address)
        async with AsyncExitStack() as stack:
            address = await self._address(child)
            channel = open_channel(address, Plaintext())
            stack.push_async_callback(channel.close)
            shard = RemoteShard(channel, name="shard bench")
            watch = _Watch(shard, child, bench)
            await self._first(watch, started_s)
            clusters = Clusters(demand_of(_wishes(size)), address)
            await stack.enter_async_context(clusters.connected())
            await self._replayed(watch.child, clusters)
            await self._quiet(watch)
            await self._steady(watch)
            await self._changed(watch, server)
            await self._demand(watch, clusters)
            await watch.until(_is_done, "the last step to be asked for")
            bench.expect("steps_asked_for", expected=size.cycles, actual=server.calls())
        now, most = child.memory_mb()
        bench.figures |= {"rss_mb": now, "rss_peak_mb": most}

    def _start(self, provider: str) -> Child:
        config = self._children.home / "shard.toml"
        text = CONFIG.format(address=provider, interval_s=self._size.interval_s)
        config.write_text(text, encoding="utf-8")
        return self._children.command("shard", ["shard", "--config", str(config)])

    async def _address(self, child: Child) -> str:
        async def told() -> str | None:
            facts = child.announced()
            return None if facts is None else str(facts["addresses"]["grpc"])

        return await until(told, child, "the shard to serve")

    async def _first(self, watch: "_Watch", started_s: float) -> None:
        """From the start of the process to the first plan over all machines."""
        bench, size = self._bench, self._size
        summary = await watch.until(
            lambda told: sum(told.machines.values()) == size.machines, "all machines to be known"
        )
        bench.figures["first_decision_s"] = round(bench.clock.elapsed_s() - started_s, 3)
        expected = by_state(size.machines)
        bench.expect("by_state", expected=expected, actual=dict(summary.machines))

    async def _replayed(self, child: Child, clusters: Clusters) -> None:
        """Every cluster is told of all its machines when it connects: that takes its own time."""
        serving, began_s = self._size.machines * 85 // 100, self._bench.clock.elapsed_s()

        async def told() -> bool | None:
            return clusters.told() >= serving or None

        await until(told, child, "every cluster to hear of its machines")
        self._bench.expect("machines_told", expected=serving, actual=clusters.told())
        self._bench.figures["replay_s"] = round(self._bench.clock.elapsed_s() - began_s, 3)

    async def _quiet(self, watch: "_Watch") -> None:
        """All clusters are heard, every need is met, and nothing is left to do."""
        bench, size = self._bench, self._size
        summary = await watch.until(
            lambda told: told.connected == lcg.CLUSTERS and told.needs == size.needs,
            "all clusters to be heard",
        )
        bench.expect("clusters", expected=lcg.CLUSTERS, actual=summary.connected)
        bench.expect("needs", expected=size.needs, actual=summary.needs)
        bench.expect("unmet", expected=0, actual=summary.unmet)
        bench.expect("planned", expected=0, actual=sum(summary.planned.values()))

    async def _steady(self, watch: "_Watch") -> None:
        """Nothing changes: what it costs to look and find nothing."""
        before, cpu_s = watch.last, watch.child.cpu_s()
        samples = [await watch.next() for _ in range(self._size.cycles)]
        self._bench.expect(
            "steady_is_steady", expected=before.machines, actual=samples[-1].machines
        )
        self._record("steady", samples)
        self._worked("steady_cycle", watch.child.cpu_s() - cpu_s, len(samples))

    async def _changed(self, watch: "_Watch", server: ListServer) -> None:
        """One machine of a hundred has another price in every cycle that is counted."""
        bench, samples, turns, changed = self._bench, list[Summary](), 0, 0
        spend, cpu_s = _spend(watch.last), watch.child.cpu_s()
        paying = self._size.machines * 95 // 100  # a quota slot costs nothing
        while len(samples) < self._size.cycles:
            rows, turns = server.change(), turns + 1
            changed += len(rows)
            spend += CENT * sum(row < paying for row in rows)
            told = await watch.until(_spends(spend), "a change to be taken in")
            if watch.is_next:  # else it may have been taken in by a cycle before this one
                samples.append(told)
            if turns > TURNS_MAX * self._size.cycles:
                raise FixtureError(f"of {turns} changes only {len(samples)} could be measured")
        bench.expect("changed_machines", expected=changed, actual=server.changed)
        spent = round(_spend(watch.last), 2)
        bench.expect("changed_spend", expected=round(spend, 2), actual=spent)
        self._record("changed_1pct", samples)
        self._worked("changed_1pct_cycle", watch.child.cpu_s() - cpu_s, turns)

    async def _demand(self, watch: "_Watch", clusters: Clusters) -> None:
        """A cluster asks for one machine more, or no longer: until it hears what was decided."""
        clock, samples, cpu_s = self._bench.clock, list[float](), watch.child.cpu_s()
        for turn in range(self._size.cycles):
            began_s = clock.elapsed_s()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await clusters.change(turn)
            except TimeoutError as error:
                raise FixtureError(f"demand {turn} led to nothing in {PATIENCE_S:g} s") from error
            samples.append((clock.elapsed_s() - began_s) * 1000)
        _told(self._bench, "demand_to_decision", samples)
        self._worked("demand_to_decision", watch.child.cpu_s() - cpu_s, len(samples))

    def _worked(self, key: str, cpu_s: float, times: int) -> None:
        """What the shard's process computed each time, all its threads: no wait counts in it."""
        self._bench.figures[f"{key}_cpu_ms_each"] = round(cpu_s * 1000 / times, 3)

    def _record(self, phase: str, samples: Sequence[Summary]) -> None:
        """The whole cycle and each part of it."""
        whole = [sum(each.seconds.values()) * 1000 for each in samples]
        _told(self._bench, f"{phase}_cycle", whole)
        parts = {
            name: round(ranked([each.seconds[name] * 1000 for each in samples], 0.5), 3)
            for name in samples[-1].seconds
        }
        self._bench.figures[f"{phase}_part_p50_ms"] = parts


class _Watch:
    """Reads what the shard says about its last cycle."""

    def __init__(self, shard: RemoteShard, child: Child, bench: Bench) -> None:
        self._shard = shard
        self._bench = bench
        self.child = child
        self.last = Summary(stamp=Stamp(shard=""))
        self.is_next = False
        """Whether the last summary is of the cycle after the one before it."""

    async def until(self, holds: Callable[[Summary], bool], what: str) -> Summary:
        """The first summary of which it holds."""

        async def told() -> Summary | None:
            try:
                if not await self._is_news():
                    return None
                summary = await self._shard.summary(SummaryQuery())
            except Unavailable:
                return None  # it does not serve yet
            self.is_next = summary.stamp.cycle == self.last.stamp.cycle + 1
            self.last = summary
            return summary if holds(summary) else None

        return await until(told, self.child, what)

    async def next(self) -> Summary:
        """The summary of a later cycle than the last."""
        return await self.until(lambda _: True, "another cycle")

    async def _is_news(self) -> bool:
        """Whether there was another cycle: a question that costs the shard next to nothing."""
        stamp = (await self._shard.providers(ProviderQuery())).stamp
        return stamp.cycle > self.last.stamp.cycle


def _told(bench: Bench, key: str, samples: Sequence[float]) -> None:
    bench.samples[f"{key}_ms"] = [round(sample, 3) for sample in samples]
    for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        bench.figures[f"{key}_{name}_ms"] = round(ranked(samples, share), 3)
    bench.progress(f"{bench.name}: {key} p99 {bench.figures[f'{key}_p99_ms']} ms")


def ranked(samples: Sequence[float], share: float) -> float:
    """The nearest rank: a sample, never something between two."""
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]


def _is_done(summary: Summary) -> bool:
    return not (sum(summary.planned.values()) or summary.queued or summary.in_flight)


def _spend(summary: Summary) -> float:
    return sum(summary.spend_per_hour.values())


def _spends(dollars: float) -> Callable[[Summary], bool]:
    """Whether a plan was made with these prices: half a cent is no machine."""
    return lambda summary: abs(_spend(summary) - dollars) < CENT / 2


async def until(ask: Callable[[], Awaitable[AnswerT | None]], child: Child, what: str) -> AnswerT:
    """The first answer; the bench ends when the shard does, or when it takes too long."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await ask()) is None:
                if not child.is_running:
                    raise FixtureError(f"the shard has ended: {child.tail()}")
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise FixtureError(f"waited {PATIENCE_S:g} s for {what}: {child.tail()}") from error
    return answer


def _wishes(size: Size) -> list[lcg.Wish]:
    """What the clusters ask for; the machines come from the other process."""
    return lcg.generate(size.machines, size.needs, size.racks).wishes
