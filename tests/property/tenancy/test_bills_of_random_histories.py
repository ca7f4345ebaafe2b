"""Whatever happens to allocations and to billers, the bill is what the specification says."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from billed import Crash, Fuse, account, charged, differences, fragile, requested, step, usage
from mainstay.tenancy.billing.consumers import Billing
from mainstay.tenancy.billing.options import BillingOptions
from mainstay.tenancy.billing.statement import statement
from mainstay.tenancy.billing.tick import bill
from mainstay.tenancy.bus import Envelope
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.states import EventType
from oracles import plain_bill
from oracles.plain_bill import Life, tiles
from outside import examples
from postgres import database_url, server
from tenants import NEW, rows, run, value

__all__ = ["database_url", "server"]

HISTORIES: Final = 30
MICRO: Final = timedelta(microseconds=1)
DAY: Final = 86_400 * 1_000_000
EVER: Final = 10**6 * DAY
START: Final = datetime(2020, 8, 28, 11, 17, 3, 141_592, tzinfo=UTC)
"""Long ago, so that no history reaches the present, and some see two new months."""

NEXT: Final = {
    "requested": ("provisioning",),
    "provisioning": ("active", "active", "active", "failed"),
    "active": ("releasing",),
    "releasing": ("released", "release_failed"),
    "release_failed": ("releasing",),
    "released": (),
    "failed": (),
}
"""Drawn from the diagram by hand."""


@dataclass(frozen=True, slots=True)
class Ask:
    price_minor: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Move:
    """Some allocation takes one of its next steps."""

    whom: int
    way: int


@dataclass(frozen=True, slots=True)
class Bill:
    """Billers run at once; each dies after so many statements, or does not."""

    fuses: tuple[int | None, ...]
    window_s: int


@dataclass(frozen=True, slots=True)
class Tell:
    """Billing hears of some allocation, whatever it hears, and may die over it."""

    whom: int
    what: EventType
    fuse: int | None


@dataclass(frozen=True, slots=True)
class Dark:
    """The node goes offline, or comes back."""


Happening = Ask | Move | Bill | Tell | Dark
TOLD: Final = (EventType.ACTIVE, EventType.RELEASED, EventType.RELEASE_FAILED)


def history(random: Random) -> Iterator[tuple[int, Happening]]:
    """Pauses in microseconds and what happens after each; two allocations become active."""
    for whom in (0, 1, 2):
        yield 0, _ask(random)
        yield random.randrange(3_000_000), Move(whom, 0)
        yield random.randrange(3_000_000), Move(whom, random.randrange(4) if whom == 2 else 0)
    for _ in range(random.randrange(5, 30)):
        longest = random.choice((2_000_000, 200_000_000, DAY, 20 * DAY))
        yield random.randrange(longest), _happening(random)


def _ask(random: Random) -> Ask:
    return Ask(random.choice((450, 0, 1, 7, 449, 3601, 99_999)), random.choice((1, 2, 8)))


def _happening(random: Random) -> Happening:
    chance = random.random()
    if chance < 0.06:
        return _ask(random)
    if chance < 0.16:
        return Dark()
    if chance < 0.46:
        return Move(random.randrange(4), random.randrange(4))
    if chance < 0.80:
        return Bill((_fuse(random), _fuse(random)), random.choice((0, 60)))
    return Tell(random.randrange(4), random.choice(TOLD), _fuse(random))


def _fuse(random: Random) -> int | None:
    return random.choice((None, random.randrange(25)))


@dataclass(slots=True)
class World:
    """What has happened, written down beside the database."""

    pool: Pool
    payer: str
    fragile: tuple[Pool, ...]
    fuses: tuple[Fuse, ...]
    now: int = 0
    """Microseconds since the start."""

    lives: dict[str, Life] = field(default_factory=dict)
    dark: list[tuple[int, int]] = field(default_factory=list)
    """When the node was offline; the last one may go on for ever."""

    @property
    def at(self) -> datetime:
        return START + self.now * MICRO

    def someone(self, whom: int) -> str | None:
        return list(self.lives)[whom % len(self.lives)] if self.lives else None

    async def ask(self, ask: Ask) -> None:
        allocation = await requested(
            self.pool, self.at, price=ask.price_minor, gpus=ask.gpus, payer=self.payer
        )
        steps = (("requested", self.now),)
        self.lives[allocation] = Life(ask.price_minor, ask.gpus, steps)

    async def move(self, move: Move) -> None:
        allocation = self.someone(move.whom)
        if allocation is None:
            return
        life = self.lives[allocation]
        ways = NEXT[life.steps[-1][0]]
        if not ways:
            return
        state = ways[move.way % len(ways)]
        await step(self.pool, allocation, state, self.at)
        steps = (*life.steps, (state, self.now))
        self.lives[allocation] = Life(life.price_minor, life.gpus, steps)

    async def toggle(self) -> None:
        if self.dark and self.dark[-1][1] == EVER:
            self.dark[-1] = (self.dark[-1][0], self.now)
            change = "update node_outages set ended_at = %s where ended_at is null returning 1"
        else:
            self.dark.append((self.now, EVER))
            change = """insert into node_outages values ('ghost', %s)
                        on conflict do nothing returning 1"""
        if not await rows(self.pool, change, [self.at]):
            self.dark.pop()  # it went at the very moment it came

    async def bill(self, happening: Bill) -> None:
        options = BillingOptions(window_s=happening.window_s)
        async with asyncio.TaskGroup() as tasks:
            for pool, fuse, left in zip(self.fragile, self.fuses, happening.fuses, strict=True):
                fuse.left = left
                tasks.create_task(_billed(pool, options, self.at))
        for fuse in self.fuses:
            fuse.left = None

    async def tell(self, happening: Tell) -> None:
        allocation = self.someone(happening.whom)
        if allocation is None:
            return
        event = Envelope(
            event_id="evt",
            event_type=happening.what,
            key=allocation,
            occurred_at=self.at,
            version="1.0",
            correlation_id="cor",
            payload={"allocation_id": allocation},
        )
        self.fuses[0].left = happening.fuse
        try:
            async with transaction(self.fragile[0]) as tx:
                await Billing(NEW, BillingOptions(window_s=10**9)).handle(tx, event)
        except Crash:
            pass
        self.fuses[0].left = None


async def _billed(pool: Pool, options: BillingOptions, at: datetime) -> None:
    try:
        await bill(pool, NEW, options, at)
    except Crash:
        return


async def check(world: World) -> None:
    """Everything is charged up to now; hold it against the oracle."""
    await bill(world.pool, NEW, BillingOptions(window_s=0), world.at)
    total = 0
    for allocation, life in world.lives.items():
        due = plain_bill.bill(life, world.now, world.dark)
        assert await charged(world.pool, allocation) == due, life
        stretches = [
            ((row["window_start"] - START) // MICRO, (row["window_end"] - START) // MICRO)
            for row in await usage(world.pool, allocation)
        ]
        began = next((at for state, at in life.steps if state == "active"), 0)
        ended = began + plain_bill.active_micros(life, world.now)
        assert tiles(stretches, began, ended), life
        total += due
    assert [line for line in await differences(world.pool) if _concerns(line, world)] == []
    await check_statements(world, total)


async def check_statements(world: World, total: int) -> None:
    """Each month has what was due at its end less what was due at its beginning."""
    async with transaction(world.pool) as tx:
        bills = [await statement(tx, world.payer, f"2020-{number:02}") for number in range(8, 12)]
    firsts = [datetime(2020, number, 1, tzinfo=UTC) for number in range(8, 13)]
    for month, (first, next_first) in zip(bills, itertools.pairwise(firsts), strict=True):
        start, end = ((at - START) // MICRO for at in (first, next_first))
        assert month.charges_minor == sum(
            plain_bill.bill(life, min(end, world.now), world.dark)
            - plain_bill.bill(life, min(start, world.now), world.dark)
            for life in world.lives.values()
        )
        assert all(first <= line.start < line.end <= next_first for line in month.lines)
    assert sum(month.charges_minor for month in bills) == total
    for before, after in itertools.pairwise(bills):
        assert after.opening_minor == before.closing_minor
    seconds = sum(line.seconds for month in bills for line in month.lines)
    lived = [plain_bill.paid_micros(life, world.now, world.dark) for life in world.lives.values()]
    assert seconds == sum(micros // plain_bill.MICROS for micros in lived)


def _concerns(line: str, world: World) -> bool:
    """Not yet charged, since the present is far away, is no fault here."""
    return line.partition(":")[0] in world.lives and "(all active time is charged)" not in line


def test_the_ledger_reconciles_to_transitions_to_the_second(database_url: str) -> None:
    seen: Counter[str] = Counter()

    async def scenario(pool: Pool) -> None:
        fuses = (Fuse(), Fuse())
        async with (
            fragile(database_url, fuses[0]) as first,
            fragile(database_url, fuses[1]) as second,
        ):
            for seed in range(examples(HISTORIES)):
                world = World(pool, await account(pool, 10**9), (first, second), fuses)
                try:
                    await _lives_through(world, Random(seed))
                except BaseException as error:
                    error.add_note(f"in the history of seed {seed}")
                    raise
                seen.update(life.steps[-1][0] for life in world.lives.values())
                seen["dark"] += bool(world.dark)
        seen["crash"] = fuses[0].blown + fuses[1].blown
        seen["window"] = await value(pool, "select count(*) from usage_records")

    run(database_url, scenario)

    assert all(seen[what] > HISTORIES // 3 for what in ("active", "released", "crash"))
    assert seen["release_failed"] > 0
    assert seen["dark"] > 0
    assert seen["failed"] > 0
    assert seen["window"] > 4 * HISTORIES


async def _lives_through(world: World, random: Random) -> None:
    await rows(world.pool, "delete from node_outages returning 1")
    for pause, happening in history(random):
        world.now = min(world.now + pause, 60 * DAY)
        await _happens(world, happening)
    await check(world)
    await rows(
        world.pool,
        """update allocations set billing_closed_at = clock_timestamp(),
                  releasing_at = coalesce(releasing_at, active_at)
           where active_at is not null and billing_closed_at is null returning 1""",
    )  # the next history is not to bill them


async def _happens(world: World, happening: Happening) -> None:
    match happening:
        case Ask():
            await world.ask(happening)
        case Move():
            await world.move(happening)
        case Bill():
            await world.bill(happening)
        case Tell():
            await world.tell(happening)
        case Dark():
            await world.toggle()
