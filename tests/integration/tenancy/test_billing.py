"""Active time is charged once and to the second, on a real PostgreSQL: scenarios 12 and 23."""

import asyncio
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import psycopg
import pytest

import tenants
from billed import (
    Crash,
    Fuse,
    account,
    charged,
    clock,
    differences,
    fragile,
    lived,
    requested,
    step,
    usage,
)
from event_stage import running, until
from mainstay.model.errors import Unavailable
from mainstay.tenancy.billing import tick
from mainstay.tenancy.billing.consumers import Billing
from mainstay.tenancy.billing.metrics import BillerMetrics
from mainstay.tenancy.billing.options import BillingOptions
from mainstay.tenancy.billing.tick import bill
from mainstay.tenancy.bus import envelope_of
from mainstay.tenancy.consume import check
from mainstay.tenancy.database.connect import Pool, pool_at, transaction
from mainstay.tenancy.release import release
from mainstay.tenancy.states import Actor
from mainstay.tenancy.subscribers import SUBSCRIBERS
from oracles.plain_bill import tiles
from postgres import database_url, pool_of, server
from tenants import NEW, PROJECT, node, rows, run, value

__all__ = ["database_url", "server"]

SECOND: Final = timedelta(seconds=1)
TWO_HOURS_30_S: Final = 7230
TO_THE_SECOND: Final = BillingOptions(window_s=0)


def micros(at: datetime) -> int:
    return (at - datetime(2020, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


async def tiled(pool: Pool, allocation: str) -> bool:
    """Whether usage covers active_at to releasing_at, each moment once."""
    [row] = await rows(pool, "select * from allocations where id = %s", [allocation])
    stretches = [
        (micros(found["window_start"]), micros(found["window_end"]))
        for found in await usage(pool, allocation)
    ]
    return tiles(stretches, micros(row["active_at"]), micros(row["releasing_at"]))


async def minutes(pool: Pool, allocation: str, billers: Sequence[Pool]) -> None:
    """Bill at every minute of its life, by all of them at once."""
    began = await value(pool, "select active_at from allocations where id = %s", [allocation])
    for minute in range(1, TWO_HOURS_30_S // 60 + 1):
        async with asyncio.TaskGroup() as tasks:
            for biller in billers:
                at = began + timedelta(minutes=minute)
                tasks.create_task(bill(biller, NEW, at=at))


class TestScenario23:
    """1 GPU at 450 an hour for 2 h 30 s."""

    def test_scenario_23_debits_sum_to_903(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            allocation = await lived(pool, ago_s=9000)
            began = await value(pool, "select active_at from allocations")
            await minutes(pool, allocation, [pool])
            assert await charged(pool, allocation) == 900
            await step(pool, allocation, "releasing", began + TWO_HOURS_30_S * SECOND)

            await bill(pool, NEW)

            assert await charged(pool, allocation) == 903
            assert len(await usage(pool, allocation)) in {121, 122}  # a month may have begun
            assert await tiled(pool, allocation)
            assert await differences(pool) == []

        run(database_url, scenario)

    def test_scenario_23_replaying_any_tick_changes_nothing(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            allocation = await lived(pool, ago_s=9000, for_s=TWO_HOURS_30_S)
            began = await value(pool, "select active_at from allocations")
            await bill(pool, NEW)
            before = await rows(pool, "select * from ledger"), await usage(pool, allocation)

            for seconds in (0, 60, 61, 7229, 7230, 8000):
                done = await bill(pool, NEW, at=began + seconds * SECOND)
                assert (done.charged, done.amount_minor) == (0, 0)

            assert before == (
                await rows(pool, "select * from ledger"),
                await usage(pool, allocation),
            )
            assert await charged(pool, allocation) == 903

        run(database_url, scenario)

    def test_scenario_23_two_billers_charge_no_more_than_one(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            allocation = await lived(pool, ago_s=9000)
            began = await value(pool, "select active_at from allocations")
            async with pool_of(database_url) as other:
                await minutes(pool, allocation, [pool, other, other])
                await step(pool, allocation, "releasing", began + TWO_HOURS_30_S * SECOND)
                async with asyncio.TaskGroup() as tasks:
                    for biller in (pool, other, other):
                        tasks.create_task(bill(biller, NEW))
            await bill(pool, NEW)

            assert await charged(pool, allocation) == 903
            assert await tiled(pool, allocation)
            assert await differences(pool) == []

        run(database_url, scenario)

    def test_scenario_23_a_crash_at_any_statement_of_a_tick_changes_nothing(
        self, database_url: str
    ) -> None:
        """Two allocations, one over the end of a month, one that empties its payer."""

        async def scenario(pool: Pool) -> None:
            payer = await account(pool, 5, low=50)
            fuse = Fuse()
            spots = 0
            async with fragile(database_url, fuse) as biller:
                for after in itertools.count():
                    pair = [
                        await lived(pool, ago_s=40 * 86400, for_s=35 * 86400),
                        await lived(pool, ago_s=9000, for_s=TWO_HOURS_30_S, payer=payer),
                    ]
                    fuse.left = after
                    try:
                        await bill(biller, NEW)
                    except Crash:
                        spots += 1
                        await bill(biller, NEW)
                    assert [await charged(pool, allocation) for allocation in pair] == [
                        450 * 24 * 35,
                        903,
                    ]
                    assert [await tiled(pool, allocation) for allocation in pair] == [True, True]
                    assert await differences(pool) == []
                    if fuse.left is not None:
                        break
            assert spots > 15

        run(database_url, scenario)

    def test_scenario_23_a_connection_that_is_cut_leaves_nothing_half_charged(
        self, database_url: str
    ) -> None:
        async def scenario(pool: Pool) -> None:
            allocation = await lived(pool, ago_s=9000, for_s=TWO_HOURS_30_S)

            async def cut_between() -> None:
                async with transaction(pool) as tx:
                    found = await tx.execute(
                        "select *, pg_backend_pid() as pid from allocations for no key update"
                    )
                    row = await found.fetchone()
                    assert row is not None
                    await tick.charge(tx, NEW, row, BillingOptions())
                    async with transaction(pool) as other:
                        await other.execute("select pg_terminate_backend(%s)", [row["pid"]])
                    await tx.execute("select 1")

            with pytest.raises(Unavailable):
                await cut_between()
            assert await charged(pool, allocation) == 0
            await bill(pool, NEW)

            assert await charged(pool, allocation) == 903

        run(database_url, scenario)

    @pytest.mark.parametrize(
        "statement",
        [
            "update ledger set amount_minor = -1",
            "delete from ledger",
            "truncate ledger cascade",
            "update usage_records set amount_minor = 0",
            "delete from usage_records",
        ],
    )
    def test_scenario_23_what_is_booked_cannot_be_changed(
        self, database_url: str, statement: str
    ) -> None:
        async def scenario(pool: Pool) -> None:
            await lived(pool, ago_s=9000, for_s=TWO_HOURS_30_S)
            await bill(pool, NEW)

            with pytest.raises(psycopg.errors.RestrictViolation, match="only appended to"):
                await rows(pool, statement)

        run(database_url, scenario)


LIFE: Final = ("provisioning.active", "provisioning.releasing.completed")


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1, 0, 1, 0), (1,), ()])
def test_scenario_12_events_in_any_order_lead_to_the_same_usage_and_debit(
    database_url: str, order: Sequence[int]
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await tenants.active(pool)
        await release(pool, NEW, row["id"], actor=Actor.TENANT, by="usr_one", project=PROJECT)
        await rows(
            pool,
            """update allocations set created_at = created_at - interval '3 h',
                   active_at = releasing_at - interval '7230 s' returning 1""",
        )
        await tenants.prove(pool, row["id"])
        events = await rows(
            pool, "select * from outbox where event_type = any(%s) order by position", [list(LIFE)]
        )
        consumer = Billing(NEW)

        for index in order:
            async with transaction(pool) as tx:
                await consumer.handle(tx, envelope_of(events[index]))
        await bill(pool, NEW)

        assert await charged(pool, row["id"]) == 903
        assert len(await usage(pool, row["id"])) in {1, 2}  # two where a month began in between
        assert await tiled(pool, row["id"])
        assert await differences(pool) == []

    run(database_url, scenario)


def test_the_consumer_is_in_the_table_of_subscribers_and_wakes_the_biller(
    database_url: str,
) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await tenants.active(pool)
        woken: list[int] = []
        consumer = Billing(NEW, wake=lambda: woken.append(1))
        check(consumer, SUBSCRIBERS)
        [event] = await rows(pool, "select * from outbox where event_type = 'provisioning.active'")

        async with transaction(pool) as tx:
            await consumer.handle(tx, envelope_of(event))

        assert woken == [1]
        assert await charged(pool, row["id"]) == 0
        assert await usage(pool, row["id"]) == []

    run(database_url, scenario)


def test_a_release_that_begins_ends_the_bill_at_once(database_url: str) -> None:
    """Not when the node is clean, which takes minutes: what is due is known when it begins."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await tenants.active(pool)
        await release(pool, NEW, row["id"], actor=Actor.TENANT, by="usr_one", project=PROJECT)
        woken: list[int] = []
        consumer = Billing(NEW, wake=lambda: woken.append(1))
        [event] = await rows(
            pool,
            "select * from outbox where event_type = any(%s) and event_type like '%%releasing%%'",
            [[str(kind) for kind in consumer.subjects]],
        )

        async with transaction(pool) as tx:
            await consumer.handle(tx, envelope_of(event))

        assert woken == [1]
        assert await value(pool, "select billing_closed_at is not null from allocations")
        assert await differences(pool) == []

    run(database_url, scenario)


RETRIED: Final = (
    ("releasing", 1), ("release_failed", 5), ("releasing", 20),
    ("release_failed", 30), ("releasing", 40), ("released", 50),
)  # fmt: skip


class TestWhatAccrues:
    def test_nothing_before_active_nor_what_failed_costs_anything(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            long_ago = await clock(pool) - timedelta(days=3)
            waiting = await requested(pool, long_ago)
            at_work = await requested(pool, long_ago)
            await step(pool, at_work, "provisioning", long_ago + SECOND)
            failed = await requested(pool, long_ago)
            await step(pool, failed, "provisioning", long_ago + SECOND)
            await step(pool, failed, "failed", long_ago + 3600 * SECOND)

            await bill(pool, NEW, TO_THE_SECOND)

            for allocation in (waiting, at_work, failed):
                assert await charged(pool, allocation) == 0
                assert await usage(pool, allocation) == []

        run(database_url, scenario)

    @pytest.mark.parametrize("first", range(6))
    def test_release_failed_and_retries_never_accrue(self, database_url: str, first: int) -> None:
        """In whichever state the biller sees it for the first time."""

        async def scenario(pool: Pool) -> None:
            began = await clock(pool) - timedelta(days=3)
            allocation = await requested(pool, began)
            await step(pool, allocation, "provisioning", began)
            await step(pool, allocation, "active", began)
            for index, (state, hours) in enumerate(RETRIED):
                await step(pool, allocation, state, began + timedelta(hours=hours))
                if index >= first:
                    await bill(pool, NEW, TO_THE_SECOND)

                    assert await charged(pool, allocation) == 450
            assert await tiled(pool, allocation)

        run(database_url, scenario)

    def test_an_allocation_that_came_and_went_between_two_passes_is_charged(
        self, database_url: str
    ) -> None:
        async def scenario(pool: Pool) -> None:
            brief = await lived(pool, ago_s=900, for_s=8)
            instant = await lived(pool, ago_s=900, for_s=0)

            done = await bill(pool, NEW)

            assert (done.charged, done.closed, done.amount_minor) == (1, 2, 1)
            assert await charged(pool, brief) == 1
            assert await usage(pool, instant) == []
            assert (await bill(pool, NEW)).closed == 0

        run(database_url, scenario)

    def test_running_time_is_charged_in_whole_windows_and_the_rest_at_the_end(
        self, database_url: str
    ) -> None:
        async def scenario(pool: Pool) -> None:
            allocation = await lived(pool, ago_s=7200, price=3600)
            began = await value(pool, "select active_at from allocations")

            async def at(seconds: int) -> int:
                await bill(pool, NEW, at=began + seconds * SECOND)
                return await charged(pool, allocation)

            assert [await at(seconds) for seconds in (59, 60, 100, 119, 121)] == [
                0,
                60,
                60,
                60,
                121,
            ]
            await step(pool, allocation, "releasing", began + 130 * SECOND)
            assert await at(0) == 130

        run(database_url, scenario)

    def test_nobody_is_charged_for_the_future(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            allocation = await lived(pool, ago_s=100, price=3600)

            await bill(pool, NEW, at=await clock(pool) + timedelta(hours=1))

            assert 100 <= await charged(pool, allocation) < 200
            assert await differences(pool) == []

        run(database_url, scenario)

    def test_what_is_free_has_usage_and_no_ledger_row(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            allocation = await lived(pool, ago_s=900, for_s=600, price=0)

            await bill(pool, NEW)

            found = await usage(pool, allocation)
            assert {(row["amount_minor"], row["ledger_id"]) for row in found} == {(0, None)}
            assert await tiled(pool, allocation)
            assert await differences(pool) == []

        run(database_url, scenario)


def test_one_that_cannot_be_charged_does_not_keep_the_others_from_it(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        names = [await lived(pool, ago_s=900, for_s=600) for _ in range(3)]
        spoilt = sorted(names)[1]
        start = await value(pool, "select active_at from allocations where id = %s", [spoilt])
        await rows(
            pool,
            """insert into ledger (account_id, amount_minor, currency, kind, dedupe_key)
               values ('acc_one', 1, 'USD', 'credit', %s) returning 1""",
            [f"charge:{spoilt}:{start.astimezone(UTC).isoformat()}"],
        )

        done = await bill(pool, NEW)

        assert (done.charged, done.failed) == (2, [spoilt])
        assert [await charged(pool, name) for name in sorted(names)] == [75, 0, 75]

    run(database_url, scenario)


def test_one_that_somebody_holds_is_left_for_the_next_pass(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        held = await lived(pool, ago_s=900, for_s=600)
        free = await lived(pool, ago_s=900, for_s=600)
        async with transaction(pool) as tx:
            await tx.execute("select from allocations where id = %s for update", [held])
            async with asyncio.timeout(5):
                await bill(pool, NEW)
            assert (await charged(pool, held), await charged(pool, free)) == (0, 75)

        await bill(pool, NEW)

        assert await charged(pool, held) == 75

    run(database_url, scenario)


def test_who_waited_for_the_row_sees_what_was_charged_before(database_url: str) -> None:
    """The statement that takes the lock sees older usage than there is when it has it."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        row = await tenants.active(pool)
        await release(pool, NEW, row["id"], actor=Actor.TENANT, by="usr_one", project=PROJECT)
        await rows(
            pool,
            """update allocations set created_at = created_at - interval '3 h',
                   active_at = releasing_at - interval '7230 s' returning 1""",
        )
        [event] = await rows(pool, "select * from outbox where event_type = 'provisioning.active'")

        async def consume() -> None:
            async with transaction(pool) as tx:
                await Billing(NEW).handle(tx, envelope_of(event))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(consume())
                tasks.create_task(_billed(pool))

        assert await charged(pool, row["id"]) == 903
        assert await differences(pool) == []

    run(database_url, scenario, connections=20)


async def _billed(pool: Pool) -> None:
    await bill(pool, NEW)


def test_a_biller_runs_until_it_is_stopped_and_is_woken_by_events(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        wake = asyncio.Event()
        metrics = BillerMetrics()
        seldom = BillingOptions(tick_s=3600.0, pause_s=0.01)
        async with running(tick.run(pool, NEW, seldom, wake, metrics)):
            await until(partial(_passes, metrics, 1))
            first = await lived(pool, ago_s=900, for_s=600)
            wake.set()
            await until(partial(_passes, metrics, 2))

        assert await charged(pool, first) == 75
        value_of = metrics.registry.get_sample_value
        assert value_of("mainstay_biller_charged_minor_total") == 75
        assert (value_of("mainstay_biller_failing"), value_of("mainstay_biller_ok")) == (0, 1)

    run(database_url, scenario)


async def _passes(metrics: BillerMetrics, count: int) -> bool:
    found = metrics.registry.get_sample_value("mainstay_biller_passes_total", {"outcome": "done"})
    return found is not None and found >= count


def test_a_biller_outlives_a_database_that_is_away(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        metrics = BillerMetrics()
        often = BillingOptions(tick_s=0.02, pause_s=0.01)
        allocation = await lived(pool, ago_s=900, for_s=600)
        cut = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
        async with (
            pool_at(database_url, size_max=1, name="biller") as own,
            running(tick.run(own, NEW, often, None, metrics)),
        ):
            await until(partial(_passes, metrics, 1))
            for _ in range(3):
                await rows(pool, cut, ["biller"])
                more = await lived(pool, ago_s=900, for_s=600)
                await until(partial(_is_charged, pool, more))

        assert await charged(pool, allocation) == 75
        assert await differences(pool) == []

    run(database_url, scenario)


async def _is_charged(pool: Pool, allocation: str) -> bool:
    return await charged(pool, allocation) == 75


BAD_USAGE: Final[dict[str, dict[str, Any]]] = {
    "a gap at the beginning": {"start": 1, "end": 60},
    "time before it was active": {"start": -1, "end": 60},
    "time after it was given back": {"start": 0, "end": 601},
    "another price": {"start": 0, "end": 60, "price": 1},
    "another payer": {"start": 0, "end": 60, "payer": "acc_other"},
    "an amount without a charge": {"start": 0, "end": 60, "amount": 7},
    "no time at all": {"start": 0, "end": 0},
}


@pytest.mark.parametrize("fault", BAD_USAGE)
def test_the_database_refuses_usage_that_does_not_tile_the_active_time(
    database_url: str, fault: str
) -> None:
    async def scenario(pool: Pool) -> None:
        await account(pool, name="acc_other")
        allocation = await lived(pool, ago_s=900, for_s=600)
        given = {"price": 450, "payer": "acc_one", "amount": 0} | BAD_USAGE[fault]

        with pytest.raises(psycopg.errors.CheckViolation):
            await _insert(pool, allocation, given)
        await _insert(pool, allocation, GOOD)
        with pytest.raises(psycopg.errors.CheckViolation):
            await _insert(pool, allocation, GOOD)

    run(database_url, scenario)


GOOD: Final = {"start": 0, "end": 60, "price": 450, "payer": "acc_one", "amount": 0}


async def _insert(pool: Pool, allocation: str, given: dict[str, Any]) -> None:
    await rows(
        pool,
        """insert into usage_records (allocation_id, account_id, window_start, window_end, gpus,
                                      price_minor, amount_minor)
           select id, %(payer)s, active_at + make_interval(secs => %(start)s),
                  active_at + make_interval(secs => %(end)s), gpus, %(price)s, %(amount)s
           from allocations where id = %(allocation)s returning 1""",
        {**given, "allocation": allocation},
    )


def test_an_allocation_in_another_currency_than_its_payers_is_refused(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        allocation = await lived(pool, ago_s=900)
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            await rows(pool, "update allocations set currency = 'EUR' returning 1")
        assert allocation

    run(database_url, scenario)


def test_seconds_are_counted_from_microseconds_exactly(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        almost = await lived(pool, ago_s=900, for_s=7.999_999, price=3600)
        full = await lived(pool, ago_s=900, for_s=8, price=3600)

        await bill(pool, NEW)

        assert (await charged(pool, almost), await charged(pool, full)) == (7, 8)

    run(database_url, scenario)
