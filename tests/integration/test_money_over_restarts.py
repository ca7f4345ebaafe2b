"""What two shards count, against the bills of a world that they share: real processes, real kills.

Bills and answers are of different moments. So demand stands still while they are read, nobody's
bill grows by a line meanwhile, and every answer is taken on at its own rate to the moment of the
last one: between two changes money is a straight line, so nothing is lost by that. Of a host that
runs, a bill has the first minute at once and a shard as it passes: what has not passed is left out.
"""

import asyncio
from fractions import Fraction
from pathlib import Path
from typing import Final

from mainstay.config.world import PROVIDERS
from mainstay.model.ids import ClusterId
from mainstay.model.money_views import MoneyQuery, MoneyRows
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.state import State
from mainstay.model.views import MachineQuery
from mainstay.processes.up_ground import free_ports
from mainstay.processes.up_plan import SHARDS
from mainstay.providers.sim.bill import SECONDS_MIN, Bill, read_bill
from mainstay.runtime.clock import SystemClock
from running import Home, Process, at_home
from shard_processes import asked, connected, so_many, until

NANO: Final = 10**9
TYPE: Final = "c5.2xlarge"
BILLED: Final = "mainstay_provider_billed_dollars "
LOOKS: Final = 300
ROUNDING: Final = 1e-9


def a_world(home: Home, port: int) -> Process:
    at = ("--listen", f"127.0.0.1:{port}", "--http", "127.0.0.1:0")
    return home.start("world", "world", "--machines", "120", *at, "--insecure")


def a_shard(home: Home, name: str, world: Process, listen: str = "127.0.0.1:0") -> Process:
    """Brisk, and whatever idles for a second is given back."""
    domains = [f"{ZONE_KEY}={zone}" for zone in SHARDS[name]]
    file = home.path / f"{name}.toml"
    file.write_text(
        f"[shard]\ndomains = {domains}\ncycle_interval_s = 0.3\n"
        "hold_on_demand_s = 1.0\nhold_spot_s = 1.0\n"
    )
    providers = [f"{each}={world.facts['addresses'][each]}" for each in PROVIDERS]
    words = [word for each in providers for word in ("--provider", each)]
    always = ("--config", str(file), "--id", name, "--listen", listen, "--http", "127.0.0.1:0")
    return home.start("shard", "shard", *always, "--insecure", *words)


def asks(cluster: str, count: int) -> list[Need]:
    """Demand that so many machines of one type meet."""
    wanted = (Requirement(INSTANCE_TYPE_KEY, Operator.IN, (TYPE,)),)
    return [
        Need(
            cluster=ClusterId(cluster),
            profile=NeedProfile(priority=100, requirements=wanted),
            aggregate={"cpu": count * 8_000},
            min_unit={"cpu": 8_000},
        )
    ]


def bills(home: Home) -> list[Bill]:
    return [read_bill(home.path / "providers" / f"{name}.bill") for name in PROVIDERS]


def begun(home: Home) -> int:
    """How many hosts there ever were."""
    return sum(len(bill.lines) for bill in bills(home))


def ended(home: Home) -> int:
    """How many hosts are paid for no longer."""
    lines = [line for bill in bills(home) for line in bill.lines.values()]
    return sum(line.until_s is not None for line in lines)


async def one_is_made(home: Home, shard: Process, before: int) -> None:
    """Wait until a machine is being made, or, should no look at that come in time, until it was.

    One line to the shard for all looks: a machine is at it for two seconds only.
    """
    async with asked(shard) as remote, asyncio.timeout(60):
        while begun(home) == before:
            async for chunk in remote.machines(MachineQuery(states=(State.CREATING,))):
                if chunk.rows:
                    return
            await asyncio.sleep(0.05)


async def money(shard: Process) -> MoneyRows:
    async with asked(shard) as remote:
        return await remote.money(MoneyQuery())


async def told(shards: list[Process]) -> tuple[Fraction, float]:
    """Dollars of all at the moment of the last answer, and that moment."""
    answers = [await money(shard) for shard in shards]
    at_s = max(answer.at_s for answer in answers)
    rates = [Fraction(answer.total.spend_per_hour, NANO) for answer in answers]
    passed = [Fraction(repr(at_s)) - Fraction(repr(answer.at_s)) for answer in answers]
    spent = [Fraction(answer.total.spent, NANO) for answer in answers]
    grown = [rate * seconds / 3600 for rate, seconds in zip(rates, passed, strict=True)]
    assert [answer.as_seen for answer in answers] == [()] * len(answers)
    return sum(spent + grown, Fraction(0)), at_s


def due(bill: Bill, at_s: float) -> Fraction:
    """Dollars of a bill, without what is left of the first minutes of hosts that run."""
    now = Fraction(repr(at_s))
    running = [line for line in bill.lines.values() if line.until_s is None]
    left = [
        line.dollars_per_hour * max(line.since_s + SECONDS_MIN - now, Fraction(0))
        for line in running
    ]
    return bill.dollars(now_s=at_s) - sum(left, Fraction(0)) / 3600


async def equal(home: Home, shards: list[Process]) -> Fraction:
    """Wait until all that was billed is booked; then it is the same amount. Which.

    Two sums that are not the same do not become it by waiting: both go on at one rate.
    """
    spent = billed = Fraction(0)
    for _ in range(LOOKS):
        before = bills(home)
        spent, at_s = await told(shards)
        billed = sum((due(bill, at_s) for bill in before), Fraction(0))
        still = [bill.marks for bill in before] == [bill.marks for bill in bills(home)]
        if still and abs(spent - billed) < Fraction(1, 10**6):
            return billed
        await asyncio.sleep(0.1)
    raise AssertionError(f"${float(spent)} are told, ${float(billed)} are billed")


async def shown(world: Process) -> float:
    """What the world's metrics say of its bills."""
    pages = [await asyncio.to_thread(world.page, f"/metrics/{name}") for name in PROVIDERS]
    rows = [row for _, page in pages for row in page.splitlines() if row.startswith(BILLED)]
    assert len(rows) == len(PROVIDERS)
    return sum(float(row.rpartition(" ")[2]) for row in rows)


def test_after_kills_of_the_world_and_of_a_shard_the_sum_of_both_shards_is_the_bill(
    tmp_path: Path,
) -> None:
    async def life(home: Home) -> None:
        port = free_ports()["world"]
        world = await asyncio.to_thread(a_world, home, port)
        a, b = [await asyncio.to_thread(a_shard, home, name, world) for name in SHARDS]
        async with connected(a, "blue") as blue, connected(b, "red") as red:
            blue.set_needs(asks("blue", 9))
            red.set_needs(asks("red", 5))
            await so_many(a, 9, "blue")
            await so_many(b, 5, "red")
            first = await equal(home, [a, b])
            assert first > 0

            blue.set_needs(asks("blue", 7))
            await until(lambda: ended(home))
            a.kill()  # in the middle of giving back
            a = await asyncio.to_thread(a_shard, home, "shard-a", world, a.grpc)
            await so_many(a, 7, "blue")
            second = await equal(home, [a, b])

            before = begun(home)
            red.set_needs(asks("red", 6))
            await one_is_made(home, b, before)
            world.kill()  # in the middle of making one
            world = await asyncio.to_thread(a_world, home, port)
            await so_many(b, 6, "red")
            blue.set_needs(asks("blue", 6))
            given_back = ended(home)
            await until(lambda: ended(home) > given_back)
            await so_many(a, 6, "blue")
            assert first < second < await equal(home, [a, b])

            now_s = SystemClock().now_s
            least = sum(bill.dollars(now_s=now_s()) for bill in bills(home))
            seen = await shown(world)
            most = sum(bill.dollars(now_s=now_s()) for bill in bills(home))
            assert float(least) - ROUNDING <= seen <= float(most) + ROUNDING

    with at_home(tmp_path) as home:
        asyncio.run(life(home))
