"""The bill of a month, a line per allocation and what came in; and that of one allocation.

A month is a calendar month by UTC. A charge belongs to the month of the time it is for, whenever it
was booked; money that came in and corrections belong to the month in which they were booked.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mainstay.model.errors import Rejected
from mainstay.tenancy.billing import episodes
from mainstay.tenancy.billing.charge import formatted, month_after
from mainstay.tenancy.database.connect import Connection, Row


class BadMonth(Rejected):
    """Not a month that can be billed."""

    code = "validation_error"
    what_to_do = "give a month such as 2026-11"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one allocation cost in the month."""

    allocation: str
    project: str
    sku: str
    gpus: int
    price_minor: int
    """Per GPU and hour."""

    start: datetime
    end: datetime
    """What was charged of the month, from and to."""

    seconds: int
    amount_minor: int
    amount: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Money that came in, or a correction."""

    id: int
    at: datetime
    kind: str
    allocation: str | None
    corrects: int | None
    reason: str
    amount_minor: int
    amount: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A month of an account: opening + entries - charges = closing."""

    account: str
    month: str
    currency: str
    opening_minor: int
    lines: tuple[Line, ...]
    entries: tuple[Entry, ...]
    charges_minor: int
    closing_minor: int
    opening: str
    charges: str
    closing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationBill:
    """What one allocation has cost, over all months."""

    allocation: str
    currency: str
    lines: tuple[Line, ...]
    """One for each month."""

    amount_minor: int
    amount: str
    charged_to: datetime | None
    """None: nothing was charged yet."""

    is_whole: bool
    """It has ended and is charged to its end."""


async def allocation_bill(tx: Connection, row: Row) -> AllocationBill:
    """The bill of the allocation with this row."""
    lines = tuple(
        _line(each, row["currency"])
        for each in await _rows(tx, _LINES_OF_ONE, {"allocation": row["id"]})
    )
    amount = sum(line.amount_minor for line in lines)
    charged_to = lines[-1].end if lines else None
    ended = row["failed_at"] if row["active_at"] is None else row["releasing_at"]
    reached = charged_to or row["active_at"]
    return AllocationBill(
        allocation=row["id"],
        currency=row["currency"],
        lines=lines,
        amount_minor=amount,
        amount=formatted(amount, row["currency"]),
        charged_to=charged_to,
        is_whole=ended is not None and (reached is None or reached >= ended),
    )


async def statement(tx: Connection, account: str, month: str) -> Statement:
    """The bill for a month such as `2026-11`. Raises AccountNotFound, BadMonth."""
    start = month_start(month)
    span = {"account": account, "start": start, "end": month_after(start)}
    currency = (await episodes.standing_of(tx, account)).currency
    lines = tuple(_line(row, currency) for row in await _rows(tx, _LINES, span))
    entries = tuple(_entry(row) for row in await _rows(tx, _ENTRIES, span))
    [before] = await _rows(tx, _OPENING, span)
    opening = int(before["amount"])
    charges = sum(line.amount_minor for line in lines)
    closing = opening + sum(entry.amount_minor for entry in entries) - charges
    return Statement(
        account=account,
        month=month,
        currency=currency,
        opening_minor=opening,
        lines=lines,
        entries=entries,
        charges_minor=charges,
        closing_minor=closing,
        opening=formatted(opening, currency),
        charges=formatted(charges, currency),
        closing=formatted(closing, currency),
    )


def month_start(month: str) -> datetime:
    """The first moment of `2026-11`, by UTC."""
    try:
        found = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
        month_after(found)
    except ValueError as error:
        raise BadMonth(f"not a month: {month!r} (write it as 2026-11)") from error
    if month != f"{found:%Y-%m}":
        raise BadMonth(f"not a month: {month!r} (write it as 2026-11)")
    return found


_LINE = """
    select allocations.id, allocations.project_id, allocations.sku, allocations.gpus,
           allocations.price_minor, allocations.active_at, min(usage.window_start) as start,
           max(usage.window_end) as until, sum(usage.amount_minor)::bigint as amount,
           (floor(extract(epoch from paid_time(node_id, active_at, max(usage.window_end))))
            - floor(extract(epoch from paid_time(node_id, active_at, min(usage.window_start))))
           )::bigint as seconds
    from usage_records usage join allocations on allocations.id = usage.allocation_id
"""

_LINES = f"""
    {_LINE}
    where usage.account_id = %(account)s
      and usage.window_start >= %(start)s and usage.window_start < %(end)s
    group by allocations.id
    order by min(usage.window_start), allocations.id
"""

_LINES_OF_ONE = f"""
    {_LINE}
    where usage.allocation_id = %(allocation)s
    group by allocations.id, date_trunc('month', usage.window_start at time zone 'UTC')
    order by min(usage.window_start)
"""

_ENTRIES = """
    select * from ledger
    where account_id = %(account)s and kind <> 'charge'
      and created_at >= %(start)s and created_at < %(end)s
    order by id
"""

_OPENING = """
    select (
        (select coalesce(sum(amount_minor), 0) from ledger
         where account_id = %(account)s and kind <> 'charge' and created_at < %(start)s)
        - (select coalesce(sum(amount_minor), 0) from usage_records
           where account_id = %(account)s and window_start < %(start)s)
    )::bigint as amount
"""


async def _rows(tx: Connection, query: str, span: dict[str, Any]) -> list[Row]:
    return await (await tx.execute(query, span)).fetchall()


def _line(row: Row, currency: str) -> Line:
    return Line(
        allocation=row["id"],
        project=row["project_id"],
        sku=row["sku"],
        gpus=row["gpus"],
        price_minor=row["price_minor"],
        start=row["start"].astimezone(UTC),
        end=row["until"].astimezone(UTC),
        seconds=row["seconds"],
        amount_minor=row["amount"],
        amount=formatted(row["amount"], currency),
    )


def _entry(row: Row) -> Entry:
    return Entry(
        id=row["id"],
        at=row["created_at"].astimezone(UTC),
        kind=row["kind"],
        allocation=row["allocation_id"],
        corrects=row["corrects_id"],
        reason=row["reason"],
        amount_minor=row["amount_minor"],
        amount=formatted(row["amount_minor"], row["currency"]),
    )
