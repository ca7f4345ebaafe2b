"""Load the catalogue: all of a document in one transaction, or nothing of it.

Loading twice is loading once. What an entry does not say stays, and nothing is taken away but slots
at the end of a node's list. What somebody holds or is about to get is not changed under him: the
table `FIRM` says which columns that are, and while what.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from mainstay.tenancy.catalogue_document import (
    ACCOUNT,
    IMAGE,
    NODE,
    PROJECT,
    SKU,
    SLOT,
    SSH_KEY,
    CatalogueRefused,
    Entry,
    NodeEntry,
    Table,
    parse,
    read,
)
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.states import SLOT_NEXT, SlotStatus

__all__ = ["SAMPLE", "CatalogueRefused", "Effect", "Loaded", "load", "load_in", "read"]

SAMPLE: Final = Path(__file__).parent / "samples" / "small.toml"
"""A catalogue to begin with."""

OPENING: Final = "opening:"
"""Before an account's id: the dedupe key of what it begins with."""


class Effect(StrEnum):
    """What became of an entry."""

    MADE = "made"
    CHANGED = "changed"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Loaded:
    """How many entries of each table were made, changed, or there already."""

    made: Mapping[str, int]
    changed: Mapping[str, int]
    same: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Firm:
    """Columns that stay as they are while a query finds something."""

    columns: frozenset[str]
    query: str
    why: str


_LIVE: Final = "('requested', 'provisioning', 'active', 'releasing', 'release_failed')"
_ON_NODE: Final = "select from claims where node_id = %(node)s and live_mode is not null"

FIRM: Final[Mapping[str, Firm]] = {
    IMAGE.name: Firm(
        frozenset({"address", "sha256", "driver_strategy"}),
        """select from allocations where image_slug = %(key)s
           and status in ('requested', 'provisioning')""",
        "an allocation is being made from it",
    ),
    SKU.name: Firm(
        frozenset({"capacity_shape", "cpu_milli_per_gpu", "memory_mib_per_gpu"}),
        f"select from allocations where sku = %(key)s and status in {_LIVE}",
        "an allocation of it is held",
    ),
    ACCOUNT.name: Firm(
        frozenset({"currency"}),
        """select from ledger where account_id = %(key)s
           union all select from allocations where account_id = %(key)s""",
        "its ledger has entries, or it has allocations",
    ),
    PROJECT.name: Firm(
        frozenset({"account_id"}),
        f"select from allocations where project_id = %(key)s and status in {_LIVE}",
        "it holds an allocation",
    ),
    SSH_KEY.name: Firm(
        frozenset({"project_id", "public_key"}),
        f"""select from allocation_ssh_keys given join allocations on id = given.allocation_id
            where given.ssh_key_id = %(key)s and status in {_LIVE}""",
        "an allocation was given it",
    ),
    NODE.name: Firm(
        frozenset({"region", "partitioned", "cpu_milli", "memory_mib", "gpus_total"}),
        _ON_NODE,
        "an allocation holds it or a part of it",
    ),
    SLOT.name: Firm(
        frozenset(SLOT.optional) - {"status"},
        f"{_ON_NODE} and (slot_id = %(key)s or slot_id is null)",
        "an allocation holds it",
    ),
}


async def load(pool: Pool, document: Mapping[str, Any]) -> Loaded:
    """Put the document into the database; CatalogueRefused names the entry that is wrong.

    Loads go one after the other. A request for capacity is not held up but on the nodes it says.
    """
    async with transaction(pool) as tx:
        return await load_in(tx, document)


async def load_in(tx: Connection, document: Mapping[str, Any]) -> Loaded:
    """The same in the caller's transaction."""
    parsed = parse(document)
    effects: Counter[tuple[str, Effect]] = Counter()
    await tx.execute("select pg_advisory_xact_lock(hashtext('mainstay catalogue'))")
    for entry in parsed.plain:
        effects[entry.table.name, await _put(tx, entry)] += 1
    for account, minor in sorted(parsed.credits.items()):
        effects["credit", await _credit(tx, account, minor)] += 1
    for node in parsed.nodes:
        await _put_node(tx, node, effects)
    return Loaded(*(_counts(effects, effect) for effect in Effect))


def _counts(effects: Counter[tuple[str, Effect]], wanted: Effect) -> dict[str, int]:
    return {name: count for (name, effect), count in effects.items() if effect is wanted}


async def _put_node(tx: Connection, node: NodeEntry, effects: Counter[tuple[str, Effect]]) -> None:
    """The node first: its lock is the one that a request for capacity takes."""
    await tx.execute("select from nodes where id = %s for update", [node.entry.key])
    columns = {"status": "bootstrap_issued", **node.entry.columns}
    effects[NODE.name, await _put(tx, Entry(NODE, node.entry.key, columns))] += 1
    for slot in node.slots:
        effects[SLOT.name, await _put_slot(tx, slot)] += 1
    await _take_away_slots(tx, node)
    await _offer(tx, node)


async def _put_slot(tx: Connection, slot: Entry) -> Effect:
    row = await _row(tx, slot)
    columns = dict(slot.columns)
    if row is None:
        columns.setdefault("status", str(SlotStatus.AVAILABLE))
    elif "status" in columns and not _is_step(slot, SlotStatus(row["status"])):
        del columns["status"]
    return await _put(tx, Entry(SLOT, slot.key, columns))


def _is_step(slot: Entry, now: SlotStatus) -> bool:
    """Whether the slot goes where the document says. One that is held or blocked stays there."""
    said = SlotStatus(slot.columns["status"])
    settled = now in {SlotStatus.DISCOVERED, SlotStatus.AVAILABLE, SlotStatus.DISABLED}
    if said is now or (said is SlotStatus.AVAILABLE and not settled):
        return False
    if not settled or said not in SLOT_NEXT[now]:
        raise CatalogueRefused(f"{slot.shown}: status does not go from {now} to {said}")
    return True


async def _take_away_slots(tx: Connection, node: NodeEntry) -> None:
    """Slots beyond the list. Nobody holds any: then the number could not have changed."""
    try:
        await tx.execute(
            "delete from slots where node_id = %s and slot_index >= %s",
            [node.entry.key, len(node.slots)],
        )
    except psycopg.errors.ForeignKeyViolation as error:
        message = f"{node.entry.shown}: a slot beyond its list has been held and keeps its record"
        raise CatalogueRefused(f"{message}: keep it, with status disabled") from error


async def _offer(tx: Connection, node: NodeEntry) -> None:
    """The further names, exactly these."""
    await tx.execute(
        "delete from node_offers where node_id = %s and sku <> all(%s)",
        [node.entry.key, list(node.offers)],
    )
    for name in node.offers:
        await _checked(
            tx,
            node.entry,
            sql.SQL(
                "insert into node_offers (node_id, sku) values (%s, %s) on conflict do nothing"
            ),
            [node.entry.key, name],
        )


async def _credit(tx: Connection, account: str, minor: int) -> Effect:
    """What an account begins with, once."""
    given = await tx.execute(
        """insert into ledger (account_id, amount_minor, currency, kind, dedupe_key, reason)
           select id, %s, currency, 'credit', %s, 'opening credit' from accounts where id = %s
           on conflict (dedupe_key) do nothing""",
        [minor, OPENING + account, account],
    )
    if given.rowcount:
        return Effect.MADE
    found = await tx.execute(
        "select amount_minor from ledger where dedupe_key = %s", [OPENING + account]
    )
    row = await found.fetchone()
    if row is None or row["amount_minor"] != minor:
        message = f"account {account}: opening_credit_minor was given already, and another one"
        raise CatalogueRefused(f"{message}: credit the difference instead")
    return Effect.SAME


async def _row(tx: Connection, entry: Entry) -> Row | None:
    """The row as it is, kept from other writers but not from those who refer to it."""
    statement = sql.SQL("select * from {} where {} = %s for no key update").format(
        sql.Identifier(entry.table.stored), sql.Identifier(entry.table.key)
    )
    return await (await tx.execute(statement, [entry.key])).fetchone()


async def _put(tx: Connection, entry: Entry) -> Effect:
    row = await _row(tx, entry)
    if row is None:
        await _checked(tx, entry, _insert(entry), list(entry.columns.values()))
        return Effect.MADE
    different = {
        name: value
        for name, value in entry.columns.items()
        if row[name] != value and name not in entry.table.first_only
    }
    if not different:
        return Effect.SAME
    await _check_firm(tx, entry, row, different)
    await _checked(tx, entry, _update(entry.table, different), [*different.values(), entry.key])
    return Effect.CHANGED


async def _check_firm(tx: Connection, entry: Entry, row: Row, different: Mapping[str, Any]) -> None:
    firm = FIRM.get(entry.table.name)
    touched = sorted(firm.columns & different.keys()) if firm else []
    if firm is None or not touched:
        return
    lock = sql.SQL("select from {} where {} = %s for update").format(
        sql.Identifier(entry.table.stored), sql.Identifier(entry.table.key)
    )
    await tx.execute(lock, [entry.key])  # nobody new refers to it while we look who does
    values = {"key": entry.key, "node": row.get("node_id", entry.key)}
    if (await tx.execute(firm.query, values)).rowcount:
        name = touched[0]
        step = f"{name} cannot go from {row[name]!r} to {different[name]!r}"
        raise CatalogueRefused(f"{entry.shown}: {step} while {firm.why}")


def _insert(entry: Entry) -> sql.Composed:
    return sql.SQL("insert into {} ({}) values ({})").format(
        sql.Identifier(entry.table.stored),
        sql.SQL(", ").join(map(sql.Identifier, entry.columns)),
        sql.SQL(", ").join(sql.Placeholder() * len(entry.columns)),
    )


def _update(table: Table, columns: Mapping[str, Any]) -> sql.Composed:
    return sql.SQL("update {} set {} where {} = %s").format(
        sql.Identifier(table.stored),
        sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in columns),
        sql.Identifier(table.key),
    )


async def _checked(
    tx: Connection, entry: Entry, statement: sql.SQL | sql.Composed, values: list[Any]
) -> None:
    """Run it; what the database refuses is said in one line with the entry's name."""
    try:
        await tx.execute(statement, values)
    except (psycopg.errors.IntegrityError, psycopg.errors.DataError) as error:
        raise CatalogueRefused(f"{entry.shown}: {_reason(entry, error)}") from error


def _reason(entry: Entry, error: psycopg.Error) -> str:
    stored = entry.table.stored
    rule = str(error.diag.constraint_name or "")
    column = rule.removeprefix(f"{stored}_").removesuffix("_check").removesuffix("_fkey")
    if isinstance(error, psycopg.errors.ForeignKeyViolation):
        return str(error.diag.message_detail).rstrip(".")
    if column in entry.columns:
        return f"{column} may not be {entry.columns[column]!r}"
    return str(error.diag.message_primary or error).splitlines()[0]
