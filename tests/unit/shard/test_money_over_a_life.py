"""What a shard counts over a whole life, against the bills of the providers it used."""

import asyncio
import dataclasses
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Final

from mainstay.model.action import ActionKind
from mainstay.model.money_views import MoneyQuery, MoneyRows
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, CapacityType
from mainstay.model.state import State
from mainstay.model.views import MoneyRow, Stamp
from mainstay.providers.sim.bill import SECONDS_MIN
from mainstay.providers.sim.faults import Faults
from mainstay.providers.sim.offers import Offer, choose, small_catalog
from mainstay.providers.sim.provider import Sim
from mainstay.providers.sim.spec import Pool, SimSpec
from mainstay.shard.answers.money import BY, money_rows
from virtual_loop import LoopClock, run
from whole_shard import WEB, Whole, running, sims

KEY: Final = INSTANCE_TYPE_KEY
NANO: Final = 10**9
CENT: Final = 10**7
P5: Final = choose(small_catalog(), ["p5.48xlarge"])[0]
M5: Final = choose(small_catalog(), ["m5.large"])[0]


def a_spec(name: str, seed: int, *pools: tuple[Offer, CapacityType, int]) -> SimSpec:
    return SimSpec(pools=tuple(Pool(*pool) for pool in pools), seed=seed, name=name)


def providers() -> tuple[SimSpec, ...]:
    """Metal that is held, on-demand and spot of two types; spot prices move."""
    spot = a_spec("spot", 3, (M5, CapacityType.SPOT, 6), (P5, CapacityType.SPOT, 2))
    return (
        a_spec("metal", 1, (M5, CapacityType.BARE_METAL, 2)),
        a_spec("cloud", 2, (M5, CapacityType.ON_DEMAND, 6), (P5, CapacityType.ON_DEMAND, 2)),
        dataclasses.replace(spot, faults=Faults(price_drift=0.4)),
    )


async def counted(whole: Whole) -> None:
    """Let the book see what has happened by now."""
    await asyncio.sleep(11)
    await whole.assembled.money.step()


def told(whole: Whole, by: str = "") -> MoneyRows:
    facts = whole.assembled.live.money()
    return money_rows(facts, MoneyQuery(by=by), Stamp(shard="s"))


def billed(bills: Iterable[Sim]) -> Fraction:
    """What the providers charge by now, exactly."""
    now = Fraction(repr(LoopClock().now_s()))
    lines = (line for sim in bills for line in sim.cloud.bill.lines.values())
    return sum((line.dollars(now) for line in lines), Fraction(0))


def assert_equal(whole: Whole, bills: Iterable[Sim]) -> None:
    """To the cent, and much closer."""
    counted_nanos, exact = told(whole).total.spent, billed(bills)
    assert abs(Fraction(counted_nanos, NANO) - exact) < Fraction(1, 10**6)
    assert round(counted_nanos / CENT) == round(exact * 100)


def asks(*, m5: int = 0, p5: int = 0, priority: int = 100) -> list[Need]:
    """Demand that so many machines of each type meet."""
    return [
        Need(
            cluster=WEB,
            profile=NeedProfile(
                priority=priority, requirements=(Requirement(KEY, Operator.IN, (name,)),)
            ),
            aggregate={"cpu": count * cpu},
            min_unit={"cpu": cpu},
        )
        for name, count, cpu in (("m5.large", m5, 2_000), ("p5.48xlarge", p5, 192_000))
        if count
    ]


def test_over_a_whole_life_the_sum_is_the_bill_of_the_providers(tmp_path: Path) -> None:
    async def life() -> None:
        async with sims(*providers()) as made:
            async with running(tmp_path, made) as whole, whole.cluster() as web:
                web.roll_up(asks(m5=14, p5=4))
                await lose_a_young_one(made["cloud"])
                await asyncio.sleep(400)
                async with whole.cluster("batch") as batch:
                    batch.ask_for(3, priority=500)
                    await asyncio.sleep(200)
                    await lose_two(whole, made)
                    await asyncio.sleep(200)
                    web.roll_up(asks(m5=4, p5=1))
                    batch.ask_for(0)
                    await asyncio.sleep(1500)
                await counted(whole)
                assert_equal(whole, made.values())
                before = told(whole).total.spent
                assert {record.order.action.kind for record in whole.journal.records()} >= {
                    ActionKind.RECLAIM, ActionKind.PREEMPT, ActionKind.DELETE,
                }  # fmt: skip
            await asyncio.sleep(600)  # nobody counts, and everything goes on costing
            lost = next(host for host in made["spot"].cloud.bill.lines if is_running(made, host))
            assert made["spot"].cloud.lose(lost)
            await asyncio.sleep(100)
            async with running(tmp_path, made) as whole, whole.cluster() as web:
                web.roll_up(asks(m5=8, p5=2))
                await asyncio.sleep(500)
                await counted(whole)
                assert told(whole).since_s == 0.0
                assert told(whole).as_seen == ()
                assert told(whole).total.spent > before > 50 * NANO
                assert_equal(whole, made.values())
                assert_a_life_was_lived(made)

    run(life())


def test_a_shard_that_is_killed_young_goes_on_counting_from_where_it_began(tmp_path: Path) -> None:
    async def life() -> None:
        async with sims(*providers()) as made:
            async with running(tmp_path, made) as whole, whole.cluster() as web:
                web.roll_up(asks(m5=8, p5=2))
                await asyncio.sleep(25)
                assert told(whole).total.hosts
            async with running(tmp_path, made) as whole:
                await asyncio.sleep(2 * SECONDS_MIN)  # a bill has a first minute at once
                await counted(whole)
                assert told(whole).since_s == 0.0
                assert_equal(whole, made.values())

    run(life())


def is_running(made: dict[str, Sim], host: str) -> bool:
    return made["spot"].cloud.bill.is_running(host)


async def lose_two(whole: Whole, made: dict[str, Sim]) -> None:
    """Hosts that cost something."""
    costly = [each for each in whole.machines(State.CONFIGURED) if each.price_per_hour]
    for machine in (costly[0], costly[-1]):
        source = whole.assembled.live.inventory.source(machine.id)
        await made[source].lose(machine.id)


async def lose_a_young_one(sim: Sim) -> None:
    """A host that has not run as long as is paid for at least."""
    lines = sim.cloud.bill.lines
    while not lines:  # noqa: ASYNC110 - time passes only here
        await asyncio.sleep(1)
    host = next(iter(lines))
    assert sim.cloud.lose(host)
    ended_s = lines[host].until_s
    assert ended_s is not None
    assert ended_s < lines[host].since_s + SECONDS_MIN


def assert_a_life_was_lived(made: dict[str, Sim]) -> None:
    """Hosts came and went, and prices moved, or nothing was compared."""
    bills = [sim.cloud.bill for sim in made.values()]
    ended = sum(line.until_s is not None for bill in bills for line in bill.lines.values())
    marks = sum(len(bill.marks) for bill in bills)
    lines = sum(len(bill.lines) for bill in bills)
    assert ended >= 6
    assert marks - lines - ended > 50  # changes of price


def test_however_the_whole_is_cut_the_parts_add_up_to_it(tmp_path: Path) -> None:
    async def life() -> None:
        async with sims(*providers()) as made:
            async with running(tmp_path, made) as whole, whole.cluster() as web:
                web.roll_up(asks(m5=12, p5=3))
                await asyncio.sleep(400)
                web.roll_up(asks(m5=3, p5=1))
                await asyncio.sleep(300)
                await counted(whole)
                facts = whole.assembled.live.money()
                everything = money_rows(facts, MoneyQuery(), Stamp(shard="s")).total
                for by in BY:
                    rows = money_rows(facts, MoneyQuery(by=by), Stamp(shard="s")).rows
                    assert len(rows) >= 2
                    assert added(rows) == dataclasses.asdict(everything)
                assert everything.idle + everything.unclaimed > 0
                assert everything.saving > 0
                assert everything.unpriced == 0
                assert every_part_is_sane(everything)
                assert whole.assembled.live.money() is facts  # who asks at once is told the same
                await asyncio.sleep(1)
                assert whole.assembled.live.money().at_s == facts.at_s + 1

    run(life())


def added(rows: Iterable[MoneyRow]) -> dict[str, object]:
    parts = [dataclasses.asdict(row) for row in rows]
    return {name: "" if name == "name" else sum(part[name] for part in parts) for name in parts[0]}


def every_part_is_sane(row: MoneyRow) -> bool:
    return 0 <= row.idle + row.unclaimed <= row.spent and row.unpriced <= row.spent
