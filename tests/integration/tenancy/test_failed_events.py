"""Failed events: listed with their reasons, requeued or discarded, each with a row of the audit."""

from contextlib import AsyncExitStack
from functools import partial

import pytest

from event_stage import (
    ONE,
    TWO,
    Effect,
    all_ended,
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
from mainstay.tenancy.bus_postgres import PostgresBus
from mainstay.tenancy.database.connect import Pool
from mainstay.tenancy.failed_events import (
    EventNotFailed,
    EventNotFound,
    GaveUp,
    Operator,
    discard,
    failed,
    requeue,
)
from mainstay.tenancy.states import EventType
from mainstay.tenancy.subscribers import Subscribers
from postgres import database_url, server

__all__ = ["database_url", "server"]

E = EventType
ROOT = Operator(name="usr_root", role="admin", correlation_id="cor_9", reason="cured")


async def fail(pool: Pool, event: str, *consumers: Effect, table: Subscribers = ONE) -> None:
    """Let consumers give an event up."""
    bus = PostgresBus(pool)
    async with running(
        relay.run(pool, bus, relaying(table)),
        consume.run(pool, bus, consumers, consuming(table)),
    ):

        async def given_up() -> bool:
            found = await rows(
                pool,
                "select from consumer_failures where event_id = %s and gave_up_at is not null",
                event,
            )
            return found != []

        await until(given_up)


async def carry_on(pool: Pool, *consumers: Effect, table: Subscribers = ONE) -> None:
    bus = PostgresBus(pool)
    async with running(
        relay.run(pool, bus, relaying(table)),
        consume.run(pool, bus, consumers, consuming(table)),
    ):
        await all_ended(pool)


class TestTheList:
    def test_it_names_the_event_the_consumer_the_error_and_how_many_wait(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            event, _, _ = await tell(pool), await tell(pool), await tell(pool, "alc_2")
            await fail(pool, event, Effect(faults={event: 99}))

            (found,) = await failed(pool)

            assert (found.event_id, found.event_type, found.key) == (event, E.REQUESTED, "alc_1")
            assert (found.status, found.held) == ("failed", 1)
            error = "RuntimeError: cannot do provisioning.requested"
            assert found.gave_up == (GaveUp(consumer="one", attempts=3, error=error),)

        run(database_url, test)

    def test_an_event_that_one_consumer_gave_up_is_listed_while_others_are_to_come(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool, kind=E.ACTIVE)
            await fail(pool, event, Effect("one", TWO, faults={event: 99}), table=TWO)

            (found,) = await failed(pool)

            assert (found.status, found.event_id) == ("published", event)

        run(database_url, test)

    def test_it_comes_in_pages(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            told = [await tell(pool, f"alc_{n}") for n in range(5)]
            consumer = Effect(faults={str(E.REQUESTED): 999})
            for event in told:
                await fail(pool, event, consumer)

            first = await failed(pool, limit=3)
            rest = await failed(pool, after=first[-1].position, limit=3)

            assert [one.event_id for one in first + rest] == told
            with pytest.raises(Rejected, match="not a length of a page: 0"):
                await failed(pool, limit=0)

        run(database_url, test)


class TestRequeue:
    def test_a_requeued_event_begins_anew_and_the_later_ones_follow_in_order(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            event, later = await tell(pool), await tell(pool)
            await fail(pool, event, Effect(faults={event: 99}))
            assert await effects(pool) == []

            await requeue(pool, event, ROOT, ONE)
            assert await failed(pool) == []
            await carry_on(pool, Effect(faults={event: 2}))

            assert await effects(pool) == [event, later]

        run(database_url, test)

    def test_who_has_consumed_it_does_not_consume_it_again(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event = await tell(pool, kind=E.ACTIVE)
            two = Effect("two", TWO)
            await fail(pool, event, Effect("one", TWO, faults={event: 99}), two, table=TWO)

            await requeue(pool, event, ROOT, TWO)
            await carry_on(pool, Effect("one", TWO), two, table=TWO)

            assert two.handled == [event]
            assert await effects(pool, "one") == [event]

        run(database_url, test)


async def are_listening(pool: Pool, consumers: int) -> bool:
    """Whether so many will hear what is published now."""
    found = await rows(
        pool,
        "select from pg_stat_activity where datname = current_database()"
        " and query like 'listen %%mainstay_bus%%' and state = 'idle'",
    )
    return len(found) == consumers


class TestDiscard:
    def test_a_discarded_event_never_comes_and_the_later_ones_go_on(
        self, database_url: str
    ) -> None:
        async def test(pool: Pool) -> None:
            event, later = await tell(pool), await tell(pool)
            await fail(pool, event, Effect(faults={event: 99}))

            await discard(pool, event, ROOT)
            consumer = Effect()
            await carry_on(pool, consumer)

            assert consumer.handled == [later]
            assert await status(pool, event) == "discarded"
            assert await failed(pool) == []

        run(database_url, test)

    def test_what_was_published_behind_it_is_rung_for_at_once(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event, later = await tell(pool, kind=E.ACTIVE), await tell(pool, kind=E.ACTIVE)
            two = Effect("two", TWO)
            one = Effect("one", TWO, faults={event: 99})
            patient = relaying(TWO, unconfirmed=Backoff(first_s=3600, most_s=3600))
            bus = PostgresBus(pool)
            async with AsyncExitStack() as services:
                consumers = consume.run(pool, bus, [one, two], consuming(TWO))
                await services.enter_async_context(running(consumers))
                await until(partial(are_listening, pool, 2))  # who was not is rung for in an hour
                await services.enter_async_context(running(relay.run(pool, bus, patient)))

                async def stuck() -> bool:
                    return (
                        await status(pool, event) == "failed"
                        and await effects(pool, "two") == [event, later]
                        and await status(pool, later) == "published"
                    )

                await until(stuck)
                await discard(pool, event, ROOT)
                await all_ended(pool)
            assert await effects(pool, "one") == [later]

        run(database_url, test)


class TestTheAudit:
    def test_every_decision_and_every_refusal_has_a_row(self, database_url: str) -> None:
        async def test(pool: Pool) -> None:
            event, fine = await tell(pool), await tell(pool, "alc_2")
            await fail(pool, event, Effect(faults={event: 99}))
            await requeue(pool, event, ROOT, ONE)
            await fail(pool, event, Effect(faults={event: 99}))
            await discard(pool, event, ROOT)
            with pytest.raises(EventNotFailed, match=f"event {event} has not failed: it is disc"):
                await requeue(pool, event, ROOT, ONE)
            with pytest.raises(EventNotFailed, match="it is"):
                await discard(pool, fine, ROOT)
            with pytest.raises(EventNotFound, match="no event evt_none"):
                await discard(pool, "evt_none", ROOT)

            found = await rows(pool, "select * from audit order by id")

            told = [(row["action"], row["target_id"], row["result"]) for row in found]
            assert told == [
                ("outbox.requeue", event, "success"),
                ("outbox.discard", event, "success"),
                ("outbox.requeue", event, "failure"),
                ("outbox.discard", fine, "failure"),
                ("outbox.discard", "evt_none", "failure"),
            ]
            assert {(row["actor"], row["correlation_id"]) for row in found} == {
                ("usr_root", "cor_9")
            }
            assert found[0]["metadata"] == {"reason": "cured"}
            assert found[2]["metadata"]["code"] == "outbox_event_not_failed"

        run(database_url, test)
