"""Consuming: effect and note in one transaction, order per key, failures that are seen."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from typing_extensions import override

from event_stage import (
    ONE,
    TWO,
    Effect,
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
from mainstay.model.errors import Rejected
from mainstay.tenancy import consume, relay
from mainstay.tenancy.backoff import Backoff
from mainstay.tenancy.bus import Delivery, Envelope
from mainstay.tenancy.bus_metrics import ConsumerMetrics, RelayMetrics
from mainstay.tenancy.bus_postgres import PostgresBus
from mainstay.tenancy.consume import ConsumeOptions, Consumer, Outcome
from mainstay.tenancy.database.connect import Connection, Pool
from mainstay.tenancy.states import EventType
from postgres import database_url, server

__all__ = ["database_url", "server"]

E = EventType


@dataclass
class Given:
    """A delivery by hand, that remembers how it was ended."""

    event_id: str
    ended: list[str] = field(default_factory=list)

    async def ack(self) -> None:
        self.ended.append("ack")

    async def nak(self, delay_s: float) -> None:
        self.ended.append(f"nak {delay_s:.2f}")

    async def dead(self, reason: str) -> None:
        self.ended.append(f"dead {reason}")


async def take(
    pool: Pool, consumer: Consumer, event_id: str, options: ConsumeOptions | None = None
) -> tuple[Outcome, list[str]]:
    delivery = Given(event_id)
    outcome = await consume.take(
        pool, consumer, delivery, options or consuming(), ConsumerMetrics()
    )
    return outcome, delivery.ended


class TestOnce:
    def test_the_effect_and_the_note_are_committed_together_and_then_acknowledged(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool)

            assert await take(pool, Effect(), event) == (Outcome.DONE, ["ack"])
            assert await effects(pool) == [event]
            noted = await rows(pool, "select consumer, event_id from consumed")
            assert noted == [{"consumer": "one", "event_id": event}]
            assert await status(pool, event) == "done"

        run(database_url, test)

    def test_a_second_delivery_does_nothing(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event, consumer = await tell(pool), Effect()
            await take(pool, consumer, event)

            assert await take(pool, consumer, event) == (Outcome.REPEATED, ["ack"])
            assert consumer.handled == [event]

        run(database_url, test)

    def test_of_many_deliveries_at_once_one_has_an_effect(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            for _ in range(10):
                event = await tell(pool, key="alc_1")
                async with asyncio.TaskGroup() as tasks:
                    taken = [tasks.create_task(take(pool, Effect(), event)) for _ in range(8)]
                outcomes = sorted(task.result()[0] for task in taken)
                assert outcomes == ["done", *["repeated"] * 7]
                assert (await effects(pool)).count(event) == 1

        run(database_url, test)

    def test_two_consumers_that_commit_at_once_end_the_event(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            consumers = [Effect("one", TWO), Effect("two", TWO)]
            for _ in range(25):
                event = await tell(pool, kind=E.ACTIVE)
                async with asyncio.TaskGroup() as tasks:
                    for consumer in consumers:
                        tasks.create_task(take(pool, consumer, event, consuming(TWO)))
                assert await status(pool, event) == "done"

        run(database_url, test)

    def test_an_event_is_not_done_before_every_consumer_has_committed(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool, kind=E.ACTIVE)

            await take(pool, Effect("two", TWO), event, consuming(TWO))
            assert await status(pool, event) == "pending"

            await take(pool, Effect("one", TWO), event, consuming(TWO))
            assert await status(pool, event) == "done"

        run(database_url, test)

    def test_a_message_is_believed_only_in_its_id(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            consumer = Effect("two", TWO)
            not_for_it = await tell(pool, kind=E.FAILED)

            for event in ("evt_forged", "", not_for_it):
                strange = await take(pool, consumer, event, consuming(TWO))
                assert strange == (Outcome.STRANGE, ["ack"])
            assert consumer.handled == []

        run(database_url, test)

    def test_the_event_is_what_the_row_says(self, database_url: str) -> None:
        seen: list[Envelope] = []

        class Reader(Effect):
            @override
            async def handle(self, tx: Connection, event: Envelope) -> None:
                seen.append(event)

        async def test(pool: Pool) -> None:
            event = await tell(pool, key="alc_7", kind=E.ACTIVE, gpus=4)
            await take(pool, Reader(), event)

            (row,) = await rows(pool, "select * from outbox")
            (found,) = seen
            assert (found.event_id, found.event_type, found.key) == (event, E.ACTIVE, "alc_7")
            assert (found.payload, found.correlation_id) == ({"gpus": 4}, "cor_1")
            assert abs((found.occurred_at - row["created_at"]).total_seconds()) < 1
            assert found.subject == "mainstay.provisioning.active" == row["subject"]

        run(database_url, test)


class TestOrder:
    def test_an_event_waits_until_the_earlier_one_of_its_key_is_consumed(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            first, second = await tell(pool), await tell(pool, kind=E.FAILED)
            consumer = Effect()

            assert await take(pool, consumer, second) == (Outcome.EARLY, ["ack"])
            assert await effects(pool) == []
            await take(pool, consumer, first)
            await take(pool, consumer, second)

            assert await effects(pool) == [first, second]

        run(database_url, test)

    def test_other_keys_and_other_consumers_wait_for_nobody(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            await tell(pool, "alc_1")
            other_key = await tell(pool, "alc_2")
            for_two = await tell(pool, "alc_1", E.RELEASED)

            assert (await take(pool, Effect(), other_key))[0] is Outcome.DONE
            two = Effect("two", TWO)
            assert (await take(pool, two, for_two, consuming(TWO)))[0] is Outcome.DONE

        run(database_url, test)

    def test_an_event_that_came_before_its_turn_is_rung_for_at_once(
        self, database_url: str
    ) -> None:
        """Or a consumer would get it only when the relay grows impatient."""

        async def test(pool: Pool) -> None:
            first, second = await tell(pool), await tell(pool, kind=E.ACTIVE)
            patient = relaying(TWO, unconfirmed=Backoff(first_s=3600, most_s=3600))
            bus = PostgresBus(pool)
            taker = relay.Relay(pool, bus, patient, RelayMetrics())
            assert await taker.turn() == 2  # "two" may have the second now, "one" may not
            one = Effect("one", TWO)
            assert (await take(pool, one, second, consuming(TWO)))[0] is Outcome.EARLY
            assert await taker.turn() == 0

            await take(pool, one, first, consuming(TWO))

            assert await taker.turn() == 1

        run(database_url, test)


class TestFailure:
    def test_what_is_raised_undoes_the_effect_and_the_event_comes_again(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool)
            consumer = Effect(faults={event: 1})

            assert await take(pool, consumer, event) == (Outcome.FAILED, ["nak 0.02"])
            assert await effects(pool) == []
            assert await rows(pool, "select from consumed") == []
            (failure,) = await rows(pool, "select * from consumer_failures")
            assert failure["last_error"] == "RuntimeError: cannot do provisioning.requested"

            async def over() -> bool:
                return (await take(pool, consumer, event))[0] is Outcome.DONE

            await until(over)
            assert await effects(pool) == [event]

        run(database_url, test)

    def test_a_delivery_within_the_pause_waits_for_the_rest_of_it(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool)
            consumer = Effect(faults={event: 1})
            slow = consuming(backoff=Backoff(first_s=1000, most_s=1000))
            await take(pool, consumer, event, slow)

            outcome, ended = await take(pool, consumer, event, slow)

            assert outcome is Outcome.PAUSED
            assert 900 < float(ended[0].removeprefix("nak ")) <= 1000
            assert consumer.handled == [event]

        run(database_url, test)

    def test_after_the_last_attempt_it_is_given_up_and_seen(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool)
            consumer = Effect(faults={event: 99})
            ends: list[Outcome] = []

            async def given_up() -> bool:
                ends.append((await take(pool, consumer, event))[0])
                return ends[-1] is Outcome.GAVE_UP

            await until(given_up)

            assert len(consumer.handled) == 3
            assert await status(pool, event) == "failed"
            (row,) = await rows(pool, "select last_error from outbox")
            assert row["last_error"] == "one: RuntimeError: cannot do provisioning.requested"
            assert await take(pool, consumer, event) == (Outcome.STRANGE, ["ack"])
            assert len(consumer.handled) == 3

        run(database_url, test)

    def test_a_consumer_that_gave_up_holds_up_nobody_but_itself(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            bad = await tell(pool, kind=E.ACTIVE)
            good = [await tell(pool, kind=E.RELEASED)]
            waits = await tell(pool, kind=E.FAILED)
            one, two = Effect("one", TWO, faults={bad: 99}), Effect("two", TWO)
            bus = PostgresBus(pool)
            async with running(
                relay.run(pool, bus, relaying(TWO)),
                consume.run(pool, bus, [one, two], consuming(TWO)),
            ):

                async def settled() -> bool:
                    return await status(pool, bad) == "failed" and await effects(pool, "two") == [
                        bad,
                        *good,
                    ]

                await until(settled)

            assert await status(pool, good[0]) == "done"
            assert await status(pool, waits) == "pending"
            assert await effects(pool, "one") == []

        run(database_url, test)

    def test_a_commit_whose_answer_was_lost_is_no_failure(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool)
            await take(pool, Effect(), event)
            delivery = Given(event)

            outcome = await consume._failed(
                pool, Effect(), delivery, consuming(), RuntimeError("connection lost")
            )

            assert (outcome, delivery.ended) == (Outcome.REPEATED, ["ack"])
            assert await rows(pool, "select from consumer_failures") == []

        run(database_url, test)

    def test_a_connection_that_breaks_in_the_middle_leaves_nothing(self, database_url: str) -> None:
        class Breaker(Effect):
            @override
            async def handle(self, tx: Connection, event: Envelope) -> None:
                await super().handle(tx, event)
                await tx.execute("select pg_terminate_backend(pg_backend_pid())")

        async def test(pool: Pool) -> None:
            event = await tell(pool)

            assert (await take(pool, Breaker(), event))[0] is Outcome.FAILED
            assert await effects(pool) == []

        run(database_url, test)

    def test_while_the_database_is_away_no_attempt_is_counted(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool)
            await pool.close()

            outcome, ended = await take(pool, Effect(), event)

            assert (outcome, ended) == (Outcome.UNAVAILABLE, ["nak 0.02"])

        run(database_url, test)


class TestTheEnd:
    def test_a_cancelled_consumer_ends_even_if_the_bus_swallows_the_cancellation(
        self, database_url: str
    ) -> None:
        listening = asyncio.Event()

        class Deaf(PostgresBus):
            @override
            async def subscribe(
                self, consumer: str, subjects: frozenset[EventType]
            ) -> AsyncGenerator[Delivery, None]:
                listening.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
                yield Given("evt_none")
                await asyncio.Event().wait()

        async def test(pool: Pool) -> None:
            async with running(consume.run(pool, Deaf(pool), [Effect()], consuming())):
                await listening.wait()

        run(database_url, test)


class TestTheTable:
    def test_a_consumer_must_be_in_the_table_with_the_same_types(self) -> None:
        @dataclass
        class Other:
            name: str
            subjects: frozenset[EventType]

            async def handle(self, tx: Connection, event: Envelope) -> None: ...

        consume.check(Other("one", frozenset(EventType)), ONE)
        with pytest.raises(Rejected, match=r"differ in: billing\.balance_depleted"):
            consume.check(Other("one", frozenset(EventType) - {E.DEPLETED}), ONE)
        with pytest.raises(Rejected, match=r"consumer stranger .* differ in: payments"):
            consume.check(Other("stranger", frozenset({E.CREDITED})), ONE)
