"""`mainstay bench dashboard`: every page of the dashboard over one large shard, by HTTP.

The shard is a process, its provider is another, fifty clusters hold their sessions, and some
needs ask for more than they can have. The dashboard is the real app over the shard's own read
API. The shard is paused, so that nothing moves while pages are asked for: what is planned stays
planned, and the lists of actions are as long as they get.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mainstay.bench import lcg
from mainstay.bench.dashboard_browser import CONTENT, Visitor, driver, program, visitor
from mainstay.bench.dashboard_pages import LIVE, Counted, Reader, Seen, paths, served
from mainstay.bench.frame import Bench
from mainstay.bench.list_server import ListServer, started
from mainstay.bench.shard import PATIENCE_S, by_state, ranked, until
from mainstay.bench.shard_clusters import Clusters, demand_of
from mainstay.config.dashboard import DashboardConfig
from mainstay.dashboard.access import Doorkeeper, Person, Role
from mainstay.dashboard.app import Parts, build
from mainstay.dashboard.ended import Ended
from mainstay.dashboard.history import History
from mainstay.dashboard.told import Answers
from mainstay.model.errors import Unavailable
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.model.questions import SetControlRequest
from mainstay.model.resources import scale
from mainstay.model.views import MachineQuery, MachineRow, NeedQuery, Summary, SummaryQuery
from mainstay.runtime.children import Child, Children
from mainstay.shard.answers.live import AT_ONCE_S
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import open_channel

SHARD: Final = "bench"
BUDGET_MS: Final = 300.0
SHOWN_MS: Final = 1_000.0
"""The budget of a page in a browser, from going there to something to read."""

BUDGET_FROM: Final = 100_000
EVERY: Final = 50
TIMES: Final = 40
"""One gang of so many asks for so much more."""

DECIDES: Final = frozenset({"what if a zone is lost", "explain a need"})
"""Pages that have the shard decide again before they are answered: `mainstay bench explain` has
budgets for both."""

STILL: Final = frozenset({"what if", "what if a zone is lost"})
"""Pages that are not brought up to date."""

READER: Final = Person(Role.ADMIN, "bench", "a" * 40)

CONFIG: Final = """
[shard]
shard_id = "{shard}"
listen = "127.0.0.1:0"
http = "127.0.0.1:0"
insecure = true
providers = ["listed={address}"]
cycle_interval_s = {interval_s}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large, and how often each page is asked for."""

    machines: int
    asks: int
    visits: int = 0
    """How often a browser goes to the largest pages; zero: there need be none."""

    @property
    def needs(self) -> int:
        """A need to a hundred machines, as in the fleet of the Go reference."""
        return max(4 * lcg.CLUSTERS, self.machines // 100)

    @property
    def racks(self) -> int:
        """A rack to a thousand."""
        return max(9, self.machines // 1000)

    @property
    def interval_s(self) -> float:
        """Long enough that a small part of the time is the shard's own work."""
        return 2.0 if self.machines >= BUDGET_FROM else 0.1

    @property
    def apart_s(self) -> float:
        """Between two asks: long enough that the shard has forgotten what it told at once."""
        return 1.1 * AT_ONCE_S if self.machines >= BUDGET_FROM else 0.0


def run(bench: Bench, size: Size) -> None:
    """Counts first, then times."""
    if size.visits:  # what is missing is missed before minutes have gone by
        driver()
        program()
    with (
        tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder,
        Children(Path(folder)) as children,
    ):
        asyncio.run(_Run(bench, size, children).run())


class _Run:
    """One shard, its provider, its clusters, and the dashboard over it."""

    def __init__(self, bench: Bench, size: Size, children: Children) -> None:
        self._bench, self._size, self._children = bench, size, children

    async def run(self) -> None:
        bench, size = self._bench, self._size
        bench.progress(f"dashboard: making {size.machines:,} machines in another process")
        server = started(self._children, size.machines, size.needs, size.racks)
        bench.expect("machines", expected=size.machines, actual=server.machines)
        child = self._start(server.address)
        async with AsyncExitStack() as stack:
            address = await self._address(child)
            channel = open_channel(address, Plaintext())
            stack.push_async_callback(channel.close)
            shard = Counted(RemoteShard(channel, name=f"shard {SHARD}"))
            await self._filled(shard, child)
            wishes = lcg.generate(size.machines, size.needs, size.racks).wishes
            demand = hungry(demand_of(wishes))
            clusters = Clusters(demand, address)
            await stack.enter_async_context(clusters.connected())
            await self._heard(shard, child, clusters, demand)
            asking = _Asking(
                bench, shard, await self._served(stack, shard), server, child, size.apart_s
            )
            pages = await self._paths(shard)
            await asking.measure(pages, size.asks)
            if size.visits:
                reader = asking.served.reader
                browser = await stack.enter_async_context(visitor(reader.address, reader.cookie))
                await asking.visit(browser, pages, size.visits)
        now, most = child.memory_mb()
        bench.figures |= {"shard_rss_mb": now, "shard_rss_peak_mb": most}

    def _start(self, provider: str) -> Child:
        config = self._children.home / "shard.toml"
        text = CONFIG.format(shard=SHARD, address=provider, interval_s=self._size.interval_s)
        config.write_text(text, encoding="utf-8")
        return self._children.command("shard", ["shard", "--config", str(config)])

    async def _address(self, child: Child) -> str:
        async def told() -> str | None:
            facts = child.announced()
            return None if facts is None else str(facts["addresses"]["grpc"])

        return await until(told, child, "the shard to serve")

    async def _filled(self, shard: Counted, child: Child) -> None:
        """All machines are known, and nothing will be done with them."""
        size = self._size
        await shard.set_control(
            SetControlRequest(kind="pause", reason="it is measured", for_s=86_400, by="bench")
        )
        summary = await self._summary(
            shard, child, lambda told: sum(told.machines.values()) == size.machines, "all machines"
        )
        self._bench.expect(
            "by_state", expected=by_state(size.machines), actual=dict(summary.machines)
        )

    async def _heard(
        self, shard: Counted, child: Child, clusters: Clusters, demand: Mapping[ClusterId, object]
    ) -> None:
        """Every cluster is connected, has heard of its machines, and its demand is decided."""
        size, serving = self._size, self._size.machines * 85 // 100

        async def told() -> bool | None:
            return clusters.told() >= serving or None

        await until(told, child, "every cluster to hear of its machines")
        summary = await self._summary(
            shard, child, lambda told: told.needs == size.needs and told.unmet > 0, "all needs"
        )
        self._bench.expect("clusters", expected=len(demand), actual=summary.connected)
        self._bench.expect("needs", expected=size.needs, actual=summary.needs)
        self._bench.expect("some_are_unmet", expected=True, actual=summary.unmet > 0)
        self._bench.figures |= {"unmet": summary.unmet, "planned": sum(summary.planned.values())}

    async def _summary(
        self, shard: Counted, child: Child, holds: Callable[[Summary], bool], what: str
    ) -> Summary:
        async def told() -> Summary | None:
            try:
                summary = await shard.summary(SummaryQuery())
            except Unavailable:
                return None
            return summary if holds(summary) else None

        return await until(told, child, what)

    async def _served(self, stack: AsyncExitStack, shard: Counted) -> "_Served":
        """The app as `mainstay dashboard` serves it, with one who is signed in."""
        config, clock = DashboardConfig(), self._bench.clock
        door = Doorkeeper([READER], clock, lasts_s=config.session_hours * 3_600, ended=Ended(None))
        answers = Answers(clock, deadline_s=PATIENCE_S)
        parts = Parts(
            sources=_Alone(shard), answers=answers, door=door, history=History(),
            clock=clock,
            refresh_s=config.refresh_s,
        )  # fmt: skip
        at = await stack.enter_async_context(served(build(parts)))
        cookie = door.admit(READER.token)
        assert cookie is not None
        return _Served(Reader(at, cookie), answers)

    async def _paths(self, shard: Counted) -> Mapping[str, str]:
        """Pages with names of what is there: a machine in the middle, a need that is short."""
        machines = [row async for row in _machines(shard, MachineQuery(limit=1))]
        middle = f"m-{self._size.machines // 2:07d}"
        needs = await shard.needs(NeedQuery(unmet=True, limit=1))
        self._bench.expect("a_machine_and_a_need", expected=(True, True),
                           actual=(bool(machines), bool(needs.rows)))  # fmt: skip
        return paths(shard=SHARD, machine=middle, row=machines[0], need=needs.rows[0])


@dataclass(frozen=True, slots=True)
class _Served:
    """The dashboard and what it remembers."""

    reader: Reader
    answers: Answers


@dataclass(frozen=True, slots=True)
class _Asking:
    """Asks for pages, and takes the time."""

    bench: Bench
    shard: Counted
    served: _Served
    server: ListServer
    child: Child
    apart_s: float

    async def measure(self, pages: Mapping[str, str], asks: int) -> None:
        """Every page, the first time on a plan that nobody has read; then its live parts."""
        bench, found = self.bench, dict[str, dict[str, object]]()
        for name, path in pages.items():
            await self._another_plan()
            found[name] = await self._page(name, path, asks)
            if name not in STILL:
                found[f"{name} (live)"] = await self._page(f"{name} (live)", LIVE + path, asks)
        bench.figures["pages"] = found
        slow = {
            name: told
            for name, told in found.items()
            if name.removesuffix(" (live)") not in DECIDES
        }
        bench.figures["slowest_p99_ms"] = max(float(str(e["p99_ms"])) for e in slow.values())
        if self.server.machines >= BUDGET_FROM:
            bench.budget["slowest_p99_ms"] = BUDGET_MS

    async def _page(self, name: str, path: str, asks: int) -> dict[str, object]:
        bench, times, seen = self.bench, list[float](), Seen(0, b"")
        before = self._worked_s()
        for _ in range(asks + 1):
            self.served.answers.forget(SHARD)
            self.shard.calls.clear()
            await asyncio.sleep(self.apart_s)
            began_s = bench.clock.elapsed_s()
            seen = await self.served.reader.asked(path)
            times.append((bench.clock.elapsed_s() - began_s) * 1000)
            bench.expect(f"{name} is answered", expected=(200, True),
                         actual=(seen.status, seen.is_whole))  # fmt: skip
        first, rest = times[0], times[1:]
        shard_s, own_s = (now - then for now, then in zip(self._worked_s(), before, strict=True))
        told: dict[str, object] = {
            "bytes": len(seen.body), "rows": seen.rows, "calls": dict(self.shard.calls),
            "first_ms": round(first, 1), "p50_ms": round(ranked(rest, 0.5), 1),
            "p99_ms": round(ranked(rest, 0.99), 1),
            "shard_cpu_ms_each": round(shard_s * 1000 / len(times), 1),
            "page_cpu_ms_each": round(own_s * 1000 / len(times), 1),
        }  # fmt: skip
        bench.samples[name] = [round(each, 3) for each in times]
        bench.progress(f"dashboard: {name} {told['first_ms']}, then p50 {told['p50_ms']} ms")
        return told

    async def visit(self, browser: Visitor, pages: Mapping[str, str], visits: int) -> None:
        """The largest pages in a browser, each answer made anew by app and shard."""
        found = {
            name: await self._looked_at(browser, name, pages[name], visits) for name in CONTENT
        }
        figures = self.bench.figures
        figures |= {"browser": browser.version, "shown": found}
        figures["shown_p99_ms"] = max(float(str(each["p99_ms"])) for each in found.values())
        if self.server.machines >= BUDGET_FROM:
            self.bench.budget["shown_p99_ms"] = SHOWN_MS

    async def _looked_at(
        self, browser: Visitor, name: str, path: str, visits: int
    ) -> dict[str, object]:
        bench, looks = self.bench, []
        for _ in range(visits + 1):
            await browser.leave()
            await asyncio.sleep(self.apart_s)
            self.served.answers.forget(SHARD)
            looks.append(look := await browser.visit(path, CONTENT[name]))
            bench.expect(f"{name} is shown whole", expected=True, actual=look.is_whole)
        first, rest = looks[0], looks[1:]
        times, answered = [e.content_ms for e in rest], [e.answered_ms for e in rest]
        told: dict[str, object] = {
            "elements": rest[-1].elements, "first_ms": round(first.content_ms, 1),
            "p50_ms": round(ranked(times, 0.5), 1), "p99_ms": round(ranked(times, 0.99), 1),
            "answered_p50_ms": round(ranked(answered, 0.5), 1),
        }  # fmt: skip
        bench.samples[f"{name} (shown)"] = [round(each.content_ms, 3) for each in looks]
        bench.progress(f"dashboard: {name} shown after p50 {told['p50_ms']} ms")
        return told

    def _worked_s(self) -> tuple[float, float]:
        """What the shard's process and this one have computed so far: no wait counts in it."""
        own = os.times()
        return self.child.cpu_s(), own.user + own.system

    async def _another_plan(self) -> None:
        """One machine of a hundred has another price, and that is decided."""
        before = (await self.shard.summary(SummaryQuery())).spend_per_hour
        self.server.change()

        async def told() -> bool | None:
            now = (await self.shard.summary(SummaryQuery())).spend_per_hour
            return None if now == before else True

        await until(told, self.child, "another price")


@dataclass(frozen=True, slots=True)
class _Alone:
    """One shard, and nobody else."""

    shard: Counted

    def shards(self) -> Mapping[str, Counted]:
        """It."""
        return {SHARD: self.shard}

    def coordinator(self) -> None:
        """There is none."""

    def tenancy(self) -> None:
        """There is none."""

    def tenants_cluster(self) -> str:
        """Nobody's."""
        return ""


def hungry(demand: Mapping[ClusterId, Sequence[Need]]) -> dict[ClusterId, list[Need]]:
    """The same, but one gang of many asks for more than a rack holds, and one plain need for so
    much that much is planned for it.
    """
    seen = {False: 0, True: 0}

    def more(need: Need) -> Need:
        is_gang = bool(need.profile.same_keys)
        seen[is_gang] += 1
        meant = seen[is_gang] % EVERY == 1 if is_gang else seen[is_gang] == 1
        return replace(need, aggregate=scale(need.aggregate, TIMES)) if meant else need

    return {name: [more(need) for need in rows] for name, rows in demand.items()}


async def _machines(shard: Counted, query: MachineQuery) -> AsyncIterator[MachineRow]:
    async for chunk in shard.machines(query):
        for row in chunk.rows:
            yield row
