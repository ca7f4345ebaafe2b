"""What a payer has: the balance, money that comes in, and corrections. Rows are only added."""

from dataclasses import dataclass
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.tenancy import outbox
from mainstay.tenancy.billing import episodes
from mainstay.tenancy.billing.charge import formatted
from mainstay.tenancy.billing.options import DEFAULT, BillingOptions
from mainstay.tenancy.billing.standing import Standing, State
from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.states import EventType

AMOUNT_MINOR_MAX: Final = 10**15
"""More than anybody pays at once; far from what the column holds."""


class BadAmount(Rejected):
    """An amount that cannot be booked."""

    code = "validation_error"
    what_to_do = "give an amount in whole minor units within the limits that are named"


class KeyUsed(Rejected):
    """The key was used for another booking."""

    code = "idempotency_conflict"
    what_to_do = "repeat exactly what was sent under this key, or take a new key"


class EntryNotFound(Rejected):
    """The ledger has no such row."""

    code = "ledger_entry_not_found"
    what_to_do = "read the statement and name an entry of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """How an account stands, for people and programs."""

    account: str
    currency: str
    balance_minor: int
    balance: str
    """The same, written for people."""

    state: State
    low_balance_minor: int
    hour_minor: int
    """What everything that is active costs per hour."""

    lasts_s: int | None
    """None: for ever, since nothing is running that costs anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Money that came in. The same key is booked once."""

    account: str
    amount_minor: int
    key: str
    """Of the payment, such as the payment service's id of it."""

    reason: str = ""
    correlation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What makes an entry right that was wrong. The entry itself stays."""

    entry: int
    amount_minor: int
    """What is added to it: positive gives money back for a charge."""

    key: str
    reason: str


async def balance(tx: Connection, account: str, options: BillingOptions = DEFAULT) -> Balance:
    """The sum of the ledger, and how long it lasts. Raises AccountNotFound."""
    return _shown(await episodes.standing_of(tx, account), options)


def _shown(standing: Standing, options: BillingOptions) -> Balance:
    return Balance(
        account=standing.account,
        currency=standing.currency,
        balance_minor=standing.balance_minor,
        balance=formatted(standing.balance_minor, standing.currency),
        state=standing.state(options.pending_s),
        low_balance_minor=standing.low_minor,
        hour_minor=standing.hour_minor,
        lasts_s=standing.lasts_s,
    )


async def credit(tx: Connection, ids: Ids, money: Credit, options: BillingOptions = DEFAULT) -> Row:
    """The ledger's row, which may be from an earlier call with the same key.

    What ended for want of money does not begin again by itself.
    """
    if not 0 < money.amount_minor <= AMOUNT_MINOR_MAX:
        raise BadAmount(
            f"a credit of {money.amount_minor} minor units: give 1 to {AMOUNT_MINOR_MAX}"
        )
    await episodes.hold(tx, money.account)
    inserted = await tx.execute(
        """insert into ledger (account_id, amount_minor, currency, kind, dedupe_key, reason)
           select id, %(amount)s, currency, 'credit', %(key)s, %(reason)s
           from accounts where id = %(account)s
           on conflict (dedupe_key) do nothing returning *""",
        {
            "account": money.account,
            "amount": money.amount_minor,
            "key": f"credit:{money.key}",
            "reason": money.reason,
        },
    )
    row = await inserted.fetchone()
    if row is None:
        return await _earlier(tx, f"credit:{money.key}", money.account, money.amount_minor)
    await outbox.append(tx, ids, await _credited(tx, money, row))
    await episodes.look(tx, ids, money.account, options)
    return row


async def _earlier(tx: Connection, key: str, account: str, amount_minor: int) -> Row:
    """What was booked under this key, if it is the same."""
    found = await tx.execute("select * from ledger where dedupe_key = %s", [key])
    row = await found.fetchone()
    assert row is not None
    if (row["account_id"], row["amount_minor"]) != (account, amount_minor):
        raise KeyUsed(f"{key} was booked with another account or amount")
    return row


async def _credited(tx: Connection, money: Credit, row: Row) -> outbox.Event:
    standing = await episodes.standing_of(tx, money.account)
    return outbox.Event(
        event_type=EventType.CREDITED,
        key=money.account,
        correlation_id=money.correlation_id,
        payload={
            "account_id": money.account,
            "amount_minor": money.amount_minor,
            "currency": row["currency"],
            "balance_minor": standing.balance_minor,
            "ledger_id": row["id"],
            "at": row["created_at"].isoformat(),
        },
    )


async def correct(
    tx: Connection, ids: Ids, correction: Correction, options: BillingOptions = DEFAULT
) -> Row:
    """Add the row that corrects an entry; with the same key once.

    An entry and all its corrections never change sides: no charge becomes a gift, no credit a
    debt. A correction is not corrected: correct the entry again.
    """
    entry = await _entry(tx, correction.entry)
    await episodes.hold(tx, entry["account_id"])
    inserted = await tx.execute(
        """insert into ledger (account_id, amount_minor, currency, kind, allocation_id,
                               corrects_id, dedupe_key, reason)
           select account_id, %(amount)s, currency, 'correction', allocation_id, id, %(key)s,
                  %(reason)s
           from ledger where id = %(entry)s
           on conflict (dedupe_key) do nothing returning *""",
        {
            "amount": _checked(correction),
            "key": f"correction:{correction.key}",
            "reason": correction.reason,
            "entry": correction.entry,
        },
    )
    row = await inserted.fetchone()
    if row is None:
        return await _same_correction(tx, entry, correction)
    await _check_side(tx, entry)
    await episodes.look(tx, ids, entry["account_id"], options)
    return row


async def _entry(tx: Connection, entry: int) -> Row:
    found = await tx.execute("select * from ledger where id = %s", [entry])
    row = await found.fetchone()
    if row is None:
        raise EntryNotFound(f"the ledger has no entry {entry}")
    if row["corrects_id"] is not None:
        raise BadAmount(f"entry {entry} is a correction: correct entry {row['corrects_id']}")
    return row


def _checked(correction: Correction) -> int:
    if not 0 < abs(correction.amount_minor) <= AMOUNT_MINOR_MAX:
        raise BadAmount(
            f"a correction by {correction.amount_minor} minor units: "
            f"give 1 to {AMOUNT_MINOR_MAX}, or the negative"
        )
    return correction.amount_minor


async def _same_correction(tx: Connection, entry: Row, correction: Correction) -> Row:
    key = f"correction:{correction.key}"
    row = await _earlier(tx, key, entry["account_id"], correction.amount_minor)
    if row["corrects_id"] != entry["id"]:
        raise KeyUsed(f"{key} corrected entry {row['corrects_id']}, not {entry['id']}")
    return row


async def _check_side(tx: Connection, entry: Row) -> None:
    found = await tx.execute(
        "select sum(amount_minor)::bigint as total from ledger where id = %(id)s "
        "or corrects_id = %(id)s",
        {"id": entry["id"]},
    )
    row = await found.fetchone()
    assert row is not None
    if row["total"] * entry["amount_minor"] < 0:
        raise BadAmount(
            f"entry {entry['id']} of {entry['amount_minor']} with all its corrections would be "
            f"{row['total']}"
        )
