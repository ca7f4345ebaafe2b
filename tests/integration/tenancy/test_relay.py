"""The relay: every event reaches every consumer in the order of its key, whoever dies or fails."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest
from typing_extensions import override

from event_stage import (
    ONE,
    QUICK,
    TWO,
    Effect,
    all_ended,
    append,
    consuming,
    effects,
    relaying,
    rows,
    run,
    running,
    status,
    tell,
    until,
)
from mainstay.model.errors import Rejected, Unavailable
from mainstay.tenancy import consume, relay
from mainstay.tenancy.backoff import Backoff
from mainstay.tenancy.bus import Delivery, Envelope
from mainstay.tenancy.bus_metrics import ConsumerMetrics, RelayMetrics
from mainstay.tenancy.bus_postgres import PostgresBus
from mainstay.tenancy.database.connect import Pool, pool_at, transaction
from mainstay.tenancy.relay import Relay, RelayOptions
from mainstay.tenancy.states import EventType
from mainstay.tenancy.subscribers import Subscribers
from postgres import database_url, server

__all__ = ["database_url", "server"]

E = EventType


@dataclass
class Shelf:
    """A bus that keeps what it gets, and refuses what it is told to."""

    refused: dict[str, Exception] = field(default_factory=dict)
    got: list[tuple[str, int]] = field(default_factory=list)

    @property
    def events(self) -> list[str]:
        return [event_id for event_id, _ in self.got]

    async def publish(self, envelope: Envelope, *, turn: int = 0) -> None:
        if envelope.event_id in self.refused:
            raise self.refused[envelope.event_id]
        self.got.append((envelope.event_id, turn))

    def subscribe(
        self, consumer: str, subjects: frozenset[EventType]
    ) -> AsyncGenerator[Delivery, None]:
        raise AssertionError("a relay only publishes")


def a_relay(pool: Pool, bus: Shelf, options: RelayOptions | None = None) -> Relay:
    return Relay(pool, bus, options or relaying(), RelayMetrics())


async def consumed(pool: Pool, event_id: str, name: str, table: Subscribers = ONE) -> None:
    """Let a consumer do its part."""

    class Silent:
        def __init__(self) -> None:
            self.event_id = event_id

        async def ack(self) -> None: ...
        async def nak(self, delay_s: float) -> None: ...
        async def dead(self, reason: str) -> None: ...

    done = await consume.take(
        pool, Effect(name, table), Silent(), consuming(table), ConsumerMetrics()
    )
    assert done is consume.Outcome.DONE


SLOW = Backoff(first_s=3600, most_s=3600)


class TestClaims:
    def test_relays_skip_each_others_rows(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            told = {await tell(pool, f"alc_{n}") for n in range(6)}
            options = relaying(batch=3, claim_s=3600)
            first, second = (a_relay(pool, Shelf(), options) for _ in range(2))

            mine, theirs = await first._claim(), await second._claim()

            assert len(mine) == len(theirs) == 3
            assert {row["id"] for row in mine + theirs} == told

        run(database_url, test)

    def test_a_row_that_somebody_has_locked_holds_up_no_relay(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            held, free = await tell(pool, "alc_1"), await tell(pool, "alc_2")
            bus = Shelf()
            async with transaction(pool) as tx:
                await tx.execute("select from outbox where id = %s for update", [held])
                async with asyncio.timeout(30):
                    await a_relay(pool, bus).turn()

            assert bus.events == [free]

        run(database_url, test)

    def test_the_claim_of_a_dead_relay_runs_out(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event, bus = await tell(pool), Shelf()
            await a_relay(pool, bus, relaying(claim_s=0.2))._claim()
            other = a_relay(pool, bus)
            assert await other.turn() == 0

            async def taken_over() -> bool:
                return await other.turn() == 1

            await until(taken_over)
            assert bus.got == [(event, 0)]

        run(database_url, test)

    def test_an_uncommitted_event_is_not_published(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            bus = Shelf()
            async with transaction(pool) as tx:
                await append(tx)
                await a_relay(pool, bus).turn()
                assert bus.got == []

            await a_relay(pool, bus).turn()
            assert len(bus.got) == 1

        run(database_url, test)


class TestOrder:
    def test_a_later_event_of_a_key_waits_for_the_earlier_to_be_consumed(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            first, second = await tell(pool), await tell(pool, kind=E.ACTIVE)
            other, bus = await tell(pool, "alc_2"), Shelf()
            mine = a_relay(pool, bus)

            await mine.turn()
            await mine.turn()
            assert sorted(bus.events) == sorted([first, other])

            await consumed(pool, first, "one")
            await mine.turn()
            assert bus.events[-1] == second

        run(database_url, test)

    def test_it_waits_only_if_a_consumer_has_both(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            first, second = await tell(pool), await tell(pool, kind=E.RELEASED)
            bus = Shelf()

            await a_relay(pool, bus, relaying(TWO)).turn()

            assert sorted(bus.events) == sorted([first, second])

        run(database_url, test)

    @pytest.mark.parametrize("seed", range(3))
    def test_events_of_a_key_reach_each_consumer_in_order_with_many_relays_and_consumers(
        self, database_url: str, seed: int
    ) -> None:
        """Some attempts fail, and the bus brings messages late, twice and out of order."""

        async def test(pool: Pool) -> None:
            random = Random(seed)
            written: defaultdict[str, list[tuple[str, EventType]]] = defaultdict(list)
            for _ in range(80):
                key = f"alc_{random.randrange(8)}"
                kind = random.choice([E.REQUESTED, E.ACTIVE, E.RELEASED])
                written[key].append((await tell(pool, key, kind), kind))
            flaky = {event: random.choice((0, 0, 1, 2))
                     for told in written.values() for event, _ in told}  # fmt: skip
            impatient = relaying(TWO, batch=7, unconfirmed=Backoff(first_s=0.3, most_s=5.0))
            buses = [Wild(PostgresBus(pool), Random(seed + n)) for n in range(2)]
            async with running(
                *(relay.run(pool, bus, impatient) for bus in buses),
                *(
                    consume.run(
                        pool,
                        buses[0],
                        [Effect("one", TWO, faults=dict(flaky)), Effect("two", TWO)],
                        consuming(TWO, backoff=Backoff(first_s=0.01, most_s=0.02)),
                    )
                    for _ in range(2)
                ),
            ):
                await all_ended(pool)

            for name in ("one", "two"):
                had = await effects(pool, name)
                for told in written.values():
                    due = [event for event, kind in told if name in TWO[kind]]
                    assert [event for event in had if event in due] == due

        run(database_url, test, connections=60)


@dataclass
class Wild:
    """A bus that loses some messages, and brings others late and twice."""

    inner: PostgresBus
    random: Random

    async def publish(self, envelope: Envelope, *, turn: int = 0) -> None:
        for _ in range(self.random.choice((0, 1, 1, 2))):
            await asyncio.sleep(self.random.random() * 0.02)
            await self.inner.publish(envelope, turn=turn)

    async def subscribe(
        self, consumer: str, subjects: frozenset[EventType]
    ) -> AsyncGenerator[Delivery, None]:
        async for delivery in self.inner.subscribe(consumer, subjects):
            yield delivery


class TestUntilConsumed:
    def test_a_ring_for_an_event_that_is_just_being_published_is_not_lost(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            first, second = await tell(pool), await tell(pool, kind=E.ACTIVE)
            mine = a_relay(pool, Shelf(), relaying(TWO, unconfirmed=SLOW, claim_s=3600))
            claimed = await mine._claim()
            await consumed(pool, first, "one", TWO)  # rings for the second

            await mine._mark(claimed)

            assert [row["id"] for row in await mine._claim()] == [second]

        run(database_url, test)

    def test_the_row_stays_until_every_consumer_has_committed(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event, bus = await tell(pool, kind=E.ACTIVE), Shelf()
            await a_relay(pool, bus, relaying(TWO)).turn()
            assert await status(pool, event) == "published"

            await consumed(pool, event, "one", TWO)
            assert await status(pool, event) == "published"

            await consumed(pool, event, "two", TWO)
            assert await status(pool, event) == "done"

        run(database_url, test)

    def test_what_is_published_but_not_consumed_is_published_again_as_a_new_turn(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            event, bus = await tell(pool), Shelf()
            mine = a_relay(pool, bus, relaying(unconfirmed=Backoff(first_s=0.05, most_s=0.1)))

            async def three_times() -> bool:
                await mine.turn()
                return len(bus.got) == 3

            await until(three_times)
            assert bus.got == [(event, 0), (event, 1), (event, 2)]
            await consumed(pool, event, "one")
            await pool.wait()
            assert await mine._claim() == []

        run(database_url, test)

    def test_the_wait_for_a_consumer_doubles_up_to_a_ceiling(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool)
            mine = a_relay(pool, Shelf(), relaying(unconfirmed=Backoff(first_s=100, most_s=300)))
            waits = []
            for _ in range(4):
                await mine.turn()
                (row,) = await rows(
                    pool,
                    """select extract(epoch from not_before - published_at)::float8 as wait_s
                       from outbox""",
                )
                waits.append(round(row["wait_s"]))
                async with transaction(pool) as tx:
                    await tx.execute("update outbox set not_before = clock_timestamp()")

            assert waits == [100, 200, 300, 300]
            assert await status(pool, event) == "published"

        run(database_url, test)

    def test_an_event_consumed_before_it_was_marked_stays_done(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool)
            mine = a_relay(pool, Shelf())
            claimed = await mine._claim()
            await consumed(pool, event, "one")

            await mine._mark(claimed)

            assert await status(pool, event) == "done"

        run(database_url, test)

    def test_an_event_that_nobody_wants_is_done_when_it_is_published(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            event, bus = await tell(pool), Shelf()
            await a_relay(pool, bus, relaying({E.ACTIVE: frozenset({"one"})})).turn()

            assert bus.events == [event]
            assert await status(pool, event) == "done"

        run(database_url, test)


class TestFailures:
    def test_a_refused_event_comes_again_after_a_pause_and_fails_after_the_last_attempt(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool)
            bus = Shelf(refused={event: Rejected("too large")})
            mine = a_relay(pool, bus)
            await mine.turn()
            (row,) = await rows(pool, "select * from outbox")
            assert (row["status"], row["attempt_count"], row["last_error"]) == (
                "pending", 1, "too large",
            )  # fmt: skip
            assert row["not_before"] > row["created_at"]

            async def failed() -> bool:
                await mine.turn()
                return await status(pool, event) == "failed"

            await until(failed)
            (row,) = await rows(pool, "select attempt_count from outbox")
            assert row["attempt_count"] == QUICK.attempts_max

        run(database_url, test)

    def test_a_failed_event_holds_up_the_later_ones_of_its_key_and_no_others(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            bad, waits, other = await tell(pool), await tell(pool), await tell(pool, "alc_2")
            bus = Shelf(refused={bad: Rejected("too large")})
            once = relaying(backoff=Backoff(attempts_max=1))
            await a_relay(pool, bus, once).turn()
            await a_relay(pool, bus, once).turn()

            assert await status(pool, bad) == "failed"
            assert await status(pool, waits) == "pending"
            assert bus.events == [other]

        run(database_url, test)

    def test_a_bus_that_is_away_fails_no_event_however_long(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool)
            bus = Shelf(refused={event: Unavailable("no bus")})
            mine = a_relay(pool, bus)
            for _ in range(2 * QUICK.attempts_max):
                async with transaction(pool) as tx:
                    await tx.execute("update outbox set not_before = clock_timestamp()")
                await mine.turn()
            (row,) = await rows(pool, "select * from outbox")
            assert (row["status"], row["attempt_count"], row["last_error"]) == (
                "pending", 0, "no bus",
            )  # fmt: skip

            bus.refused.clear()

            async def arrived() -> bool:
                await mine.turn()
                return bus.events == [event]

            await until(arrived)

        run(database_url, test)

    def test_a_publication_that_hangs_is_given_up_before_the_claim_runs_out(
        self, database_url: str
    ) -> None:
        class Hanging(Shelf):
            @override
            async def publish(self, envelope: Envelope, *, turn: int = 0) -> None:
                await asyncio.Event().wait()

        async def test(pool: Pool) -> None:
            event = await tell(pool)
            assert await a_relay(pool, Hanging(), relaying(publish_s=0.05)).turn() == 0
            assert await status(pool, event) == "pending"

        run(database_url, test)
        assert RelayOptions().publish_s < RelayOptions().claim_s


class TestRunning:
    def test_scenario_12_two_relays_lose_none_of_a_thousand_events(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            async with transaction(pool) as tx:
                told = [await append(tx, f"alc_{n % 400}") for n in range(1000)]
            bus = PostgresBus(pool)
            async with running(
                relay.run(pool, bus, relaying(batch=50)),
                relay.run(pool, bus, relaying(batch=50)),
                consume.run(pool, bus, [Effect()], consuming()),
            ):
                await all_ended(pool)
            assert sorted(await effects(pool)) == sorted(told)

        run(database_url, test, connections=48)

    def test_a_commit_wakes_the_relay_and_the_relay_wakes_the_consumer(
        self, database_url: str
    ) -> None:
        """Nobody polls: with an hour between looks an event still arrives."""

        async def test(pool: Pool) -> None:
            bus = PostgresBus(pool)
            hour = relaying(poll_s=3600, unconfirmed=SLOW)
            async with running(
                relay.run(pool, bus, hour), consume.run(pool, bus, [Effect()], consuming())
            ):
                for n in range(3):
                    await tell(pool, "alc_1", n=n)
                await all_ended(pool)
            assert len(await effects(pool)) == 3

        run(database_url, test)

    def test_a_relay_outlives_a_cut_of_all_its_connections(self, database_url: str) -> None:
        async def test(watching: Pool) -> None:
            async with pool_at(database_url, name="cut") as pool:
                bus = PostgresBus(pool)
                async with running(
                    relay.run(pool, bus, relaying()),
                    consume.run(pool, bus, [Effect()], consuming()),
                ):
                    for _ in range(3):
                        await tell(watching)
                        await rows(
                            watching,
                            """select pg_terminate_backend(pid) from pg_stat_activity
                               where datname = current_database()
                                 and application_name in ('cut', 'mainstay listener')""",
                        )
                        await all_ended(watching)
            assert len(await effects(watching)) == 3

        run(database_url, test)

    def test_a_cancelled_relay_ends_even_if_its_driver_swallows_the_cancellation(
        self, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        at_work = asyncio.Event()

        async def deaf(_: Relay) -> int:
            at_work.set()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
            return 1

        monkeypatch.setattr(Relay, "turn", deaf)

        async def test(pool: Pool) -> None:
            async with running(relay.run(pool, Shelf(), relaying())):
                await at_work.wait()

        run(database_url, test)

    def test_relay_and_consumers_say_how_they_are(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool)
            bad = await tell(pool, "alc_2")
            bus, counted = Shelf(refused={bad: Rejected("no")}), RelayMetrics()
            mine = Relay(pool, bus, relaying(backoff=Backoff(attempts_max=1)), counted)
            await mine.turn()
            await mine.look()
            seen = counted.registry.get_sample_value
            kind = {"type": "provisioning.requested"}
            assert seen("mainstay_relay_published_total", {**kind, "again": "no"}) == 1
            assert seen("mainstay_relay_publish_failures_total", kind) == 1
            assert seen("mainstay_outbox_rows", {"status": "published"}) == 1
            assert seen("mainstay_outbox_rows", {"status": "failed"}) == 1
            assert (seen("mainstay_outbox_oldest_seconds") or 0) > 0

            told = ConsumerMetrics()
            bus_of_postgres = PostgresBus(pool)
            async with running(consume.run(pool, bus_of_postgres, [Effect()], consuming(), told)):

                async def done() -> bool:
                    return await status(pool, event) == "done"

                await until(done)
            name = {"consumer": "one"}
            assert told.registry.get_sample_value("mainstay_consumer_seconds_count", name) == 1

        run(database_url, test)
