"""What every bus must do, and what each may lose: PostgreSQL's own and NATS JetStream."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from event_stage import (
    BUSES,
    NATS,
    ONE,
    POSTGRES,
    TWO,
    Effect,
    Place,
    a_place,
    all_ended,
    consuming,
    effects,
    needs_nats,
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
from mainstay.tenancy.bus import Bus, Delivery, envelope_of
from mainstay.tenancy.bus_metrics import RelayMetrics
from mainstay.tenancy.database.connect import Pool, pool_at
from mainstay.tenancy.relay import Relay
from mainstay.tenancy.states import EventType
from postgres import database_url, server

__all__ = ["database_url", "server"]

E = EventType
EVERYTHING = frozenset(EventType)
every_bus = pytest.mark.parametrize("kind", BUSES)
SOON = Backoff(first_s=0.5, most_s=5.0)


async def publish(pool: Pool, bus: Bus, event_id: str, turn: int = 0) -> None:
    (row,) = await rows(pool, "select * from outbox where id = %s", event_id)
    await bus.publish(envelope_of(row), turn=turn)


async def relay_once(pool: Pool, bus: Bus) -> int:
    return await Relay(pool, bus, relaying(), RelayMetrics()).turn()


async def taken(bus: Bus, count: int, consumer: str = "one") -> list[Delivery]:
    """The next messages, not ended by anybody."""
    found: list[Delivery] = []
    async with asyncio.timeout(30), aclosing(bus.subscribe(consumer, EVERYTHING)) as deliveries:
        async for delivery in deliveries:
            found.append(delivery)
            if len(found) == count:
                break
    return found


@every_bus
class TestEveryBus:
    def test_an_event_reaches_every_consumer_of_its_type(
        self, kind: str, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(kind, tmp_path) as place:
                async with place.bus(pool) as bus:
                    both, single = await tell(pool, kind=E.ACTIVE), await tell(pool, "alc_2")
                    async with running(
                        relay.run(pool, bus, relaying(TWO)),
                        consume.run(
                            pool, bus, [Effect("one", TWO), Effect("two", TWO)], consuming(TWO)
                        ),
                    ):
                        await all_ended(pool)
            assert sorted(await effects(pool, "one")) == sorted([both, single])
            assert await effects(pool, "two") == [both]

        run(database_url, test)

    def test_who_was_away_gets_what_was_published_meanwhile(
        self, kind: str, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(kind, tmp_path) as place:
                async with place.bus(pool) as bus:
                    told = [await tell(pool, f"alc_{n}") for n in range(5)]
                    assert await relay_once(pool, bus) == 5
                    async with running(consume.run(pool, bus, [Effect()], consuming())):
                        await all_ended(pool)
            assert sorted(await effects(pool)) == sorted(told)

        run(database_url, test)

    def test_what_is_put_back_comes_again(
        self, kind: str, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(kind, tmp_path) as place:
                async with place.bus(pool) as bus:
                    event = await tell(pool)
                    await relay_once(pool, bus)
                    seen: list[str] = []
                    async with aclosing(bus.subscribe("one", EVERYTHING)) as deliveries:
                        async for delivery in deliveries:
                            seen.append(delivery.event_id)
                            if len(seen) == 3:
                                break
                            await delivery.nak(0.05)
            assert seen == [event] * 3

        run(database_url, test)

    def test_processes_that_share_a_name_share_the_work(
        self, kind: str, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(kind, tmp_path) as place:
                async with place.bus(pool) as bus, place.bus(pool) as other:
                    told = [await tell(pool, f"alc_{n}") for n in range(40)]
                    async with running(
                        relay.run(pool, bus, relaying()),
                        consume.run(pool, bus, [Effect()], consuming()),
                        consume.run(pool, other, [Effect()], consuming()),
                    ):
                        await all_ended(pool)
            assert sorted(await effects(pool)) == sorted(told)

        run(database_url, test, connections=40)

    def test_a_consumer_that_fails_is_tried_again_and_then_seen(
        self, kind: str, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(kind, tmp_path) as place:
                async with place.bus(pool) as bus:
                    twice, never = await tell(pool), await tell(pool, "alc_2")
                    consumer = Effect(faults={twice: 2, never: 99})
                    async with running(
                        relay.run(pool, bus, relaying()),
                        consume.run(pool, bus, [consumer], consuming()),
                    ):

                        async def settled() -> bool:
                            ends = [await status(pool, event) for event in (twice, never)]
                            return ends == ["done", "failed"]

                        await until(settled)
            assert consumer.handled.count(never) == 3
            assert await effects(pool) == [twice]

        run(database_url, test)

    def test_a_bus_that_loses_everything_under_load_loses_nothing(
        self, kind: str, database_url: str, tmp_path: Path
    ) -> None:
        """Wiped when it is full of what nobody has consumed, and again while all are at work."""

        async def test(pool: Pool) -> None:
            told: list[str] = []

            async def tell_some(count: int) -> None:
                told.extend([await tell(pool, f"alc_{n}") for n in range(count)])

            async def all_published() -> bool:
                return not await rows(pool, "select from outbox where status = 'pending'")

            with a_place(kind, tmp_path) as place:
                async with (
                    pool_at(database_url, name="bus") as inner,
                    place.bus(inner) as bus,
                    running(relay.run(pool, bus, relaying(unconfirmed=SOON, batch=20))),
                ):
                    await tell_some(30)
                    await until(all_published)
                    await wipe(place, pool)
                    async with running(consume.run(pool, bus, [Effect()], consuming())):
                        for _ in range(2):
                            await tell_some(20)
                            await wipe(place, pool)
                        await all_ended(pool)
            assert sorted(await effects(pool)) == sorted(told)

        run(database_url, test, connections=40)


async def wipe(place: Place, pool: Pool) -> None:
    """All that the bus has is gone: its disk, or whoever listens."""
    if place.nats is not None:
        place.nats.wipe()
    else:
        await rows(
            pool,
            """select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and application_name = 'mainstay listener'""",
        )


class TestPostgres:
    def test_an_id_that_is_no_id_is_refused(self, database_url: str, tmp_path: Path) -> None:
        async def test(pool: Pool) -> None:
            with a_place(POSTGRES, tmp_path) as place:
                async with place.bus(pool) as bus:
                    (row,) = await rows(
                        pool,
                        """select 'k' as key, jsonb_build_object('event_id', repeat('x', 9000),
                               'event_type', 'provisioning.requested', 'version', '1.0',
                               'occurred_at', '2026-01-01T00:00:00Z', 'correlation_id', 'c',
                               'payload', '{}'::jsonb) as envelope""",
                    )
                    with pytest.raises(Rejected, match="not the id of an event: 'xxx"):
                        await bus.publish(envelope_of(row))

        run(database_url, test)

    def test_an_event_of_any_size_goes_through(self, database_url: str, tmp_path: Path) -> None:
        """A notification holds 8000 bytes; only the id travels."""

        async def test(pool: Pool) -> None:
            with a_place(POSTGRES, tmp_path) as place:
                async with place.bus(pool) as bus:
                    event = await tell(pool, long="x" * 100_000)
                    async with running(
                        relay.run(pool, bus, relaying()),
                        consume.run(pool, bus, [Effect()], consuming()),
                    ):
                        await all_ended(pool)
                    assert await effects(pool) == [event]

        run(database_url, test)


@needs_nats
class TestNats:
    def test_a_second_publication_of_one_turn_is_dropped_and_a_new_turn_is_not(
        self, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(NATS, tmp_path) as place:
                async with place.bus(pool) as bus:
                    event, last = await tell(pool), await tell(pool, "alc_2")
                    for turn in (0, 0, 0, 1, 1):
                        await publish(pool, bus, event, turn)
                    await publish(pool, bus, last)
                    deliveries = await taken(bus, 3)
            assert [delivery.event_id for delivery in deliveries] == [event, event, last]

        run(database_url, test)

    def test_a_message_that_nobody_ends_comes_again(
        self, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(NATS, tmp_path) as place:
                async with place.bus(pool) as bus:
                    event = await tell(pool)
                    await publish(pool, bus, event)
                    first, again = await taken(bus, 1), await taken(bus, 1)
            assert [first[0].event_id, again[0].event_id] == [event, event]

        run(database_url, test)

    def test_a_given_up_event_is_a_dead_letter_with_its_reason(
        self, database_url: str, tmp_path: Path
    ) -> None:
        import nats  # noqa: PLC0415 - may be absent

        async def test(pool: Pool) -> None:
            with a_place(NATS, tmp_path) as place:
                async with place.bus(pool) as bus:
                    event = await tell(pool)
                    async with running(
                        relay.run(pool, bus, relaying()),
                        consume.run(pool, bus, [Effect(faults={event: 99})], consuming()),
                    ):
                        client = await nats.connect(place.address)
                        js = client.jetstream()
                        found = await js.pull_subscribe("dead.>", stream="MAINSTAY_DEAD")
                        (letter,) = await found.fetch(1, timeout=30)
                        await client.close()
            headers = letter.headers or {}
            assert letter.subject == "dead.mainstay.provisioning.requested"
            assert (headers["Mainstay-Event-Id"], headers["Mainstay-Consumer"]) == (event, "one")
            assert headers["Mainstay-Reason"] == "RuntimeError: cannot do provisioning.requested"
            assert event.encode() in letter.data

        run(database_url, test)

    def test_a_forged_message_has_no_effect(self, database_url: str, tmp_path: Path) -> None:
        import nats  # noqa: PLC0415 - may be absent

        async def test(pool: Pool) -> None:
            with a_place(NATS, tmp_path) as place:
                async with place.bus(pool) as bus:
                    client = await nats.connect(place.address)
                    js = client.jetstream()
                    subject = "mainstay.provisioning.requested"
                    await js.publish(subject, b"not even JSON")
                    await js.publish(subject, b"{}", headers={"Mainstay-Event-Id": "evt_forged"})
                    await client.close()
                    event = await tell(pool)
                    async with running(
                        relay.run(pool, bus, relaying()),
                        consume.run(pool, bus, [Effect()], consuming()),
                    ):
                        await all_ended(pool)
            assert await effects(pool) == [event]

        run(database_url, test)

    def test_while_the_server_is_down_events_wait_and_none_fails(
        self, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(NATS, tmp_path) as place:
                assert place.nats is not None
                async with (
                    place.bus(pool) as bus,
                    running(
                        relay.run(pool, bus, relaying(publish_s=0.3)),
                        consume.run(pool, bus, [Effect()], consuming()),
                    ),
                ):
                    place.nats.kill()
                    told = [await tell(pool, f"alc_{n}") for n in range(5)]

                    async def refused() -> bool:
                        found = await rows(
                            pool, "select last_error from outbox where last_error is not null"
                        )
                        return len(found) == 5

                    await until(refused)
                    assert await rows(pool, "select from outbox where status = 'failed'") == []
                    place.nats.start()
                    await all_ended(pool)
            assert sorted(await effects(pool)) == sorted(told)

        run(database_url, test)

    def test_no_server_at_the_address_is_said_in_one_line(
        self, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(NATS, tmp_path) as place:
                assert place.nats is not None
                place.nats.kill()
                with pytest.raises(Unavailable, match="no NATS server answers"):
                    async with place.bus(pool):
                        pass

        run(database_url, test)

    def test_an_event_that_is_too_large_for_it_fails_by_itself(
        self, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(NATS, tmp_path) as place:
                async with place.bus(pool) as bus:
                    big, small = await tell(pool, long="x" * 2_000_000), await tell(pool, "alc_2")
                    async with running(
                        relay.run(pool, bus, relaying()),
                        consume.run(pool, bus, [Effect()], consuming()),
                    ):

                        async def settled() -> bool:
                            ends = [await status(pool, event) for event in (big, small)]
                            return ends == ["failed", "done"]

                        await until(settled)
            (row,) = await rows(pool, "select last_error from outbox where status = 'failed'")
            assert row["last_error"].endswith("bytes, more than NATS takes")

        run(database_url, test)


def test_the_table_of_one_consumer_is_whole() -> None:
    assert ONE.keys() == set(EventType)
