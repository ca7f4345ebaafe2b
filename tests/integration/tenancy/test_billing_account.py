"""Balance, money that comes in, corrections, the bill of a month, and whether it all agrees."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg
import pytest

from billed import account, charged, clock, differences, lived, requested, step, told_to
from mainstay.model.errors import Rejected
from mainstay.tenancy.billing.account import (
    AMOUNT_MINOR_MAX,
    BadAmount,
    Balance,
    Correction,
    Credit,
    EntryNotFound,
    KeyUsed,
    balance,
    correct,
    credit,
)
from mainstay.tenancy.billing.consumers import Billing
from mainstay.tenancy.billing.episodes import AccountNotFound
from mainstay.tenancy.billing.standing import State
from mainstay.tenancy.billing.statement import BadMonth, Statement, statement
from mainstay.tenancy.billing.tick import bill
from mainstay.tenancy.bus import envelope_of
from mainstay.tenancy.database.connect import Pool, Row, transaction
from postgres import database_url, server
from tenants import NEW, rows, run, value

__all__ = ["database_url", "server"]


async def paid(pool: Pool, payer: str, amount: int, key: str = "pay_1") -> Row:
    async with transaction(pool) as tx:
        money = Credit(account=payer, amount_minor=amount, key=key, correlation_id="cor_pay")
        return await credit(tx, NEW, money)


async def corrected(pool: Pool, entry: int, amount: int, key: str = "fix_1") -> Row:
    async with transaction(pool) as tx:
        wanted = Correction(entry=entry, amount_minor=amount, key=key, reason="node was down")
        return await correct(tx, NEW, wanted)


async def now(pool: Pool, payer: str) -> Balance:
    async with transaction(pool) as tx:
        return await balance(tx, payer)


async def month(pool: Pool, payer: str, name: str) -> Statement:
    async with transaction(pool) as tx:
        return await statement(tx, payer, name)


class TestBalance:
    def test_it_is_the_sum_of_the_ledger_with_what_is_running(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            payer = await account(pool, 2000, low=10)
            await lived(pool, ago_s=7200, for_s=3600, price=100, payer=payer)
            await lived(pool, ago_s=1, price=300, gpus=2, payer=payer)
            await bill(pool, NEW)

            found = await now(pool, payer)

            assert (found.balance_minor, found.balance) == (1900, "$19.00")
            assert (found.state, found.hour_minor) == (State.HEALTHY, 600)
            assert found.lasts_s == 1900 * 3600 // 600

        run(database_url, scenario)

    def test_an_account_that_is_not_there_is_said_so(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            for asked in (
                now(pool, "acc_no"),
                paid(pool, "acc_no", 5),
                month(pool, "acc_no", "2026-11"),
            ):
                with pytest.raises(AccountNotFound, match="no account acc_no"):
                    await asked

        run(database_url, scenario)


class TestCredit:
    def test_it_is_booked_once_however_often_it_is_sent(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            payer = await account(pool)
            async with asyncio.TaskGroup() as tasks:
                sent = [tasks.create_task(paid(pool, payer, 500)) for _ in range(10)]

            assert len({task.result()["id"] for task in sent}) == 1
            assert (await now(pool, payer)).balance_minor == 500
            events = await rows(
                pool, "select * from outbox where event_type = 'payments.balance_credited'"
            )
            assert [row["envelope"]["payload"]["balance_minor"] for row in events] == [500]
            assert events[0]["correlation_id"] == "cor_pay"

        run(database_url, scenario)

    def test_the_same_key_for_something_else_is_refused(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            payer, other = await account(pool), await account(pool)
            await paid(pool, payer, 500)

            with pytest.raises(KeyUsed):
                await paid(pool, payer, 501)
            with pytest.raises(KeyUsed):
                await paid(pool, other, 500)

            assert (await now(pool, payer)).balance_minor == 500
            assert (await now(pool, other)).balance_minor == 0

        run(database_url, scenario)

    @pytest.mark.parametrize("amount", [0, -1, AMOUNT_MINOR_MAX + 1])
    def test_an_amount_that_cannot_be_is_refused(self, database_url: str, amount: int) -> None:
        async def scenario(pool: Pool) -> None:
            payer = await account(pool)
            with pytest.raises(BadAmount, match=str(amount)):
                await paid(pool, payer, amount)
            assert await rows(pool, "select from ledger where account_id = %s", [payer]) == []

        run(database_url, scenario)

    def test_the_event_of_it_is_understood_by_billing(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            payer = await account(pool)
            await paid(pool, payer, 500)
            [row] = await rows(pool, "select * from outbox")

            async with transaction(pool) as tx:
                await Billing(NEW).handle(tx, envelope_of(row))

            assert await told_to(pool, payer) == []

        run(database_url, scenario)


class TestCorrection:
    async def _charge(self, pool: Pool) -> tuple[str, int]:
        payer = await account(pool, 1000)
        allocation = await lived(pool, ago_s=7200, for_s=3600, price=100, payer=payer)
        await bill(pool, NEW)
        entry = await value(
            pool, "select max(id) from ledger where allocation_id = %s", [allocation]
        )
        return payer, entry

    def test_it_is_a_new_row_and_the_entry_stays(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            payer, entry = await self._charge(pool)
            amount = -await value(pool, "select amount_minor from ledger where id = %s", [entry])

            row = await corrected(pool, entry, amount)
            again = await corrected(pool, entry, amount)

            assert (row["kind"], row["corrects_id"], row["amount_minor"]) == (
                "correction", entry, amount,
            )  # fmt: skip
            assert again == row
            assert (await now(pool, payer)).balance_minor == 900 + amount
            assert await differences(pool) == []

        run(database_url, scenario)

    def test_no_charge_becomes_a_gift_and_no_credit_a_debt(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            payer, entry = await self._charge(pool)
            amount = -await value(pool, "select amount_minor from ledger where id = %s", [entry])
            await corrected(pool, entry, amount - 1)
            with pytest.raises(BadAmount):
                await corrected(pool, entry, 2, "fix_2")
            money = await paid(pool, payer, 50)
            with pytest.raises(BadAmount):
                await corrected(pool, money["id"], -51, "fix_3")

            assert (await now(pool, payer)).balance_minor == 900 + amount - 1 + 50

        run(database_url, scenario)

    def test_what_cannot_be_corrected_is_refused(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            payer, entry = await self._charge(pool)
            row = await corrected(pool, entry, 1)
            money = await paid(pool, payer, 50)
            refusals: list[tuple[type[Rejected], int, int, str]] = [
                (EntryNotFound, 10**9, 1, "a"),
                (BadAmount, row["id"], 1, "b"),
                (BadAmount, entry, 0, "c"),
                (KeyUsed, entry, 2, "fix_1"),
                (KeyUsed, money["id"], 1, "fix_1"),
            ]
            for kind, target, amount, key in refusals:
                with pytest.raises(kind):
                    await corrected(pool, target, amount, key)

        run(database_url, scenario)


class TestStatement:
    def test_a_month_has_a_line_per_allocation_and_adds_up(self, database_url: str) -> None:
        """An allocation over the end of a month is on both bills, for its part of each."""

        async def scenario(pool: Pool) -> None:
            payer = await account(pool)
            money = """insert into ledger (account_id, amount_minor, currency, kind, dedupe_key,
                                           created_at)"""
            for at, amount in (("2020-09-30T12:00Z", 700), ("2020-10-05T12:00Z", 100_000)):
                await rows(
                    pool,
                    f"{money} values (%s, %s, 'USD', 'credit', %s, %s) returning 1",
                    [payer, amount, at, at],
                )
            november = datetime(2020, 11, 1, tzinfo=UTC)
            spells = {
                "over": (
                    november - timedelta(seconds=1000.5),
                    november + timedelta(seconds=2000.25),
                ),
                "before": (november - timedelta(hours=3), november - timedelta(hours=1)),
            }
            names = {}
            for name, (start, end) in spells.items():
                names[name] = await requested(pool, start, price=450, gpus=2, payer=payer)
                for state, then in (("provisioning", start), ("active", start), ("releasing", end)):
                    await step(pool, names[name], state, then)
            await bill(pool, NEW)

            october = await month(pool, payer, "2020-10")
            second = await month(pool, payer, "2020-11")

            assert [
                (line.allocation, line.seconds, line.amount_minor, line.amount)
                for line in october.lines
            ] == [
                (names["before"], 7200, 1800, "$18.00"),
                (names["over"], 1000, 250, "$2.50"),
            ]
            [line] = second.lines
            assert (line.allocation, line.seconds, line.amount_minor) == (names["over"], 2000, 500)
            assert (line.start, line.end) == (november, spells["over"][1])
            assert (october.opening_minor, october.charges_minor, october.closing_minor) == (
                700, 2050, 98_650,
            )  # fmt: skip
            assert (second.opening_minor, second.closing_minor) == (98_650, 98_150)
            assert (october.charges, october.closing) == ("$20.50", "$986.50")
            assert [entry.amount for entry in october.entries] == ["$1,000.00"]
            assert (await now(pool, payer)).balance_minor == second.closing_minor
            assert await charged(pool, names["over"]) == 750

        run(database_url, scenario)

    def test_corrections_are_on_the_bill_of_the_month_they_were_made_in(
        self, database_url: str
    ) -> None:
        async def scenario(pool: Pool) -> None:
            payer = await account(pool, 1000)
            allocation = await lived(pool, ago_s=7200, for_s=3600, price=100, payer=payer)
            await bill(pool, NEW)
            entry = await value(
                pool, "select max(id) from ledger where allocation_id = %s", [allocation]
            )
            await corrected(pool, entry, 1)

            this = await month(pool, payer, f"{await clock(pool):%Y-%m}")

            found = [(row.kind, row.amount_minor, row.corrects) for row in this.entries]
            assert found == [("credit", 1000, None), ("correction", 1, entry)]
            assert this.entries[1].reason == "node was down"
            assert this.closing_minor == 901

        run(database_url, scenario)

    @pytest.mark.parametrize("name", ["2026-13", "2026", "11-2026", "2026-1", "", "9999-12", "now"])
    def test_what_is_no_month_is_said_so(self, database_url: str, name: str) -> None:
        async def scenario(pool: Pool) -> None:
            with pytest.raises(BadMonth, match="not a month"):
                await month(pool, "acc_one", name)

        run(database_url, scenario)


SPOIL: Final[dict[str, tuple[str, str]]] = {
    "usage ends at .*, release began at": (
        "update allocations set releasing_at = releasing_at - interval '1 s'",
        "usage ends when release begins",
    ),
    "usage begins at": (
        "update allocations set active_at = active_at + interval '1 s'",
        "usage begins when the allocation is active",
    ),
    "active time since .* is not charged": (
        "update allocations set releasing_at = releasing_at + interval '1 s'",
        "all active time is charged",
    ),
    "is charged 50, due is 51": (
        "update allocations set price_minor = 101",
        "each window costs what is due",
    ),
    "100 charged, due is 101": (
        "update allocations set price_minor = 101",
        "all charges are what all the time costs",
    ),
    "1 GPUs at 100, not of": (
        "update allocations set price_minor = 101",
        "who asked for it pays",
    ),
    "charge .* of 7 has no usage": (
        """insert into ledger (account_id, amount_minor, currency, kind, allocation_id, dedupe_key)
           select account_id, -7, currency, 'charge', id, 'twice' from allocations""",
        "each charge has its usage",
    ),
    "107 charged, due is 100": (
        """insert into ledger (account_id, amount_minor, currency, kind, allocation_id, dedupe_key)
           select account_id, -7, currency, 'charge', id, 'twice' from allocations""",
        "all charges are what all the time costs",
    ),
    "follows usage to": (
        """update usage_records set window_start = window_start + interval '2 s'
           where window_start > (select active_at from allocations)""",
        "usage has no gap and no overlap",
    ),
    "was never active": (
        """update allocations set releasing_at = null, active_at = null, billing_closed_at = null,
                  status = 'provisioning'""",
        "usage without active time",
    ),
    "has charge": (
        "update ledger set amount_minor = amount_minor - 1 where kind = 'charge'",
        "each usage has its charge",
    ),
    "is of another account or allocation": (
        """insert into ledger (account_id, amount_minor, currency, kind, corrects_id, dedupe_key)
           select 'acc_one', 1, 'USD', 'correction', max(id), 'astray' from ledger""",
        "corrections stay with their entry",
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", SPOIL)
def test_every_difference_is_named(database_url: str, words: str) -> None:
    statement, sentence = SPOIL[words]

    async def scenario(pool: Pool) -> None:
        payer = await account(pool, 1000)
        began = await clock(pool) - timedelta(hours=2)
        allocation = await requested(pool, began, price=100, payer=payer)
        for state in ("provisioning", "active"):
            await step(pool, allocation, state, began)
        await bill(pool, NEW, at=began + timedelta(minutes=30))
        await step(pool, allocation, "releasing", began + timedelta(hours=1))
        await bill(pool, NEW)
        assert await differences(pool) == []
        async with transaction(pool) as tx:
            await tx.execute("set local session_replication_role = replica")  # no triggers
            await tx.execute(statement)

        found = [line for line in await differences(pool) if line.endswith(f"({sentence})")]

        assert found
        assert all(line.startswith((allocation, "acc_one")) for line in found)
        assert any(re.search(words, line) for line in found), found

    run(database_url, scenario)


def test_what_is_long_overdue_is_a_difference_and_what_is_due_now_is_not(
    database_url: str,
) -> None:
    async def scenario(pool: Pool) -> None:
        payer = await account(pool, 1000)
        await lived(pool, ago_s=600, payer=payer)
        assert await differences(pool) == []
        forgotten = await lived(pool, ago_s=7200, payer=payer)

        [line] = await differences(pool)

        assert line.startswith(f"{forgotten}: active time since ")

    run(database_url, scenario)


def test_the_ledger_books_only_in_the_currency_of_the_account(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        payer = await account(pool)
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            await rows(
                pool,
                """insert into ledger (account_id, amount_minor, currency, kind, dedupe_key)
                   values (%s, 5, 'EUR', 'credit', 'euros') returning 1""",
                [payer],
            )

    run(database_url, scenario)
