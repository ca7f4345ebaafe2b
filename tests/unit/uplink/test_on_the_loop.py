"""What a report of a large shard does on the event loop is little: sessions and cycles wait for it.

Little is compared with a fixed piece of work of the same run, so a slow machine changes nothing.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest

from builders import a_machine, a_need, a_need_profile
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory
from mainstay.engine.policy import Policy
from mainstay.engine.quota import Quota
from mainstay.inventory.inventory import Inventory
from mainstay.model.batch import batch_of
from mainstay.model.coordination import Domain, Grant, QuotaKind, QuotaOf, Stray
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.needs import NeedsTable
from mainstay.providers.sim.fleet import FleetSpec, fleet
from mainstay.runtime.clock import SystemClock
from mainstay.shard.answers.live import LiveShard
from mainstay.shard.facts import Published
from mainstay.shard.ownership.holder import Holder
from mainstay.shard.ownership.owned import Owned
from mainstay.shard.ownership.quota import HeldQuota
from mainstay.uplink.side import LiveSide
from noticing import NoticingJournal

MACHINES: Final = 200_000
CLUSTERS: Final = 50
KINDS: Final = 800
STRAYS: Final = 2_000
TIMES: Final = 3
PIECE: Final = 200_000
"""So many additions are the piece of work. To look at every need takes several, and to count
every machine more than half of one.
"""


@dataclass
class KeptInMemory:
    value: Quota

    def keep(self, value: Quota) -> None:
        self.value = value


@dataclass
class LargeShard:
    """What a report is made of."""

    inventory: Inventory
    published: Published
    shard_id: str = "large"
    epoch: int = 1

    def connected(self) -> frozenset[ClusterId]:
        return frozenset(clusters())


@dataclass
class Holds:
    owned: Owned


def clusters() -> list[ClusterId]:
    return [ClusterId(f"cluster-{number}") for number in range(CLUSTERS)]


def published() -> Published:
    """A plan for 40,000 needs. What it has to give is little: that part is counted elsewhere."""
    table = NeedsTable()
    profiles = [a_need_profile(priority=priority) for priority in range(1, KINDS + 1)]
    for cluster in clusters():
        table.replace(cluster, [a_need(cluster=cluster, profile=each) for each in profiles])
    small = Inventory()
    small.merge(batch_of([a_machine()]), now=1.0)
    demand = Demand(table.snapshot(), frozenset(clusters()))
    plan = decide(small.snapshot(), demand, Memory.empty(), Policy(), 1.0)
    assert len(plan.needs) == CLUSTERS * KINDS
    return Published(cycle=9, at_s=1.0, plan=plan)


@pytest.fixture(scope="module")
def side() -> LiveSide:
    inventory = Inventory()
    inventory.merge(fleet(FleetSpec(machines=MACHINES, seed=6)), now=1.0)
    live = LargeShard(inventory, published())
    elsewhere = Domain("zone", "elsewhere")
    names = [MachineId(f"stray-{number}") for number in range(STRAYS)]
    quota = HeldQuota(
        KeptInMemory(Quota(dict.fromkeys(clusters(), MACHINES), {})),
        snapshot=inventory.snapshot,
        published=lambda: live.published,
        knows_all=lambda: True,
        journal=NoticingJournal(),
        aside=asyncio.to_thread,
    )
    owned = Owned(
        domains=frozenset({Domain("zone", "here")}),
        here={name: Stray(name, "sim", elsewhere, leaving=False) for name in names},
    )
    return LiveSide(
        live=cast("LiveShard", live),
        holder=cast("Holder", Holds(owned)),
        quota=quota,
        address="here:7780",
        providers={"sim": "there:9000"},
        clock=SystemClock(),
        aside=asyncio.to_thread,
    )


async def on_this_thread_s(work: Callable[[], Coroutine[Any, Any, object]]) -> float:
    """The least of some times: what this thread had to compute, not what it waited for."""
    times = []
    for _ in range(TIMES):
        began = time.thread_time()
        await work()
        times.append(time.thread_time() - began)
    return min(times)


async def one_piece() -> None:
    total = 0
    for number in range(PIECE):
        total += number


def test_a_report_of_two_hundred_thousand_machines_takes_little_of_the_event_loop(
    side: LiveSide,
) -> None:

    async def report() -> None:
        made = side.report(await side.measured())
        assert made.summary.total_machines == MACHINES
        assert len(made.strays) == STRAYS
        assert len(made.quota) >= CLUSTERS

    async def scenario() -> None:
        piece_s = await on_this_thread_s(one_piece)
        assert await on_this_thread_s(report) <= 3.0 * piece_s

    asyncio.run(scenario())


def test_what_a_large_shard_is_granted_takes_little_of_the_event_loop(
    side: LiveSide,
) -> None:
    turns = iter(range(MACHINES, 0, -1))

    async def hear() -> None:
        target = next(turns) - 1
        granted = [Grant(QuotaOf(QuotaKind.CLUSTER, name), MACHINES, target) for name in clusters()]
        await side.quota.hear(granted)

    async def scenario() -> None:
        piece_s = await on_this_thread_s(one_piece)
        assert await on_this_thread_s(hear) <= 0.5 * piece_s
        assert {*side.quota.held().machines.values()} != {MACHINES}

    asyncio.run(scenario())
