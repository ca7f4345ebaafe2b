"""The whole state in one JSON object: taken from a store, and put back into one.

The object is BigFleet's (`shards`, `cluster_to_shard`, `domain_to_shard`), so that its tools read
ours; what only we have stands beside it under `mainstay`. One without such a key is BigFleet's own
and is taken in as well.

A restore is done by somebody who leads, so that nobody else can. A coordinator that finds it half
done does not start: it sees all of a snapshot or nothing.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from mainstay.coordinator import commands, keys, records
from mainstay.coordinator.archive import Archive, Meta, checked, packed, read_object
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.records import ClusterRecord, MetaRecord, ShardRecord
from mainstay.coordinator.store import (
    CHANGE_BYTES_MAX,
    OPERATIONS_MAX,
    Change,
    Entry,
    Everything,
    Leadership,
    Store,
)
from mainstay.model.coordination import Domain
from mainstay.model.errors import Rejected, Unavailable, Unknown
from mainstay.model.ids import ClusterId, ShardId, is_id
from mainstay.runtime.clock import Clock

RESTORING: Final = "restoring"
"""Stands in a store from the first to the last write of a restore."""

OURS: Final = "mainstay"
SECOND_NS: Final = 1_000_000_000
NEVER: Final = "0001-01-01T00:00:00Z"
"""As Go writes a time that was never set."""

CAMPAIGNS: Final = 20
"""So often a restore tries to lead before it says that somebody does."""


def taken(everything: Everything, *, term: int, now_s: float) -> Archive:
    """A snapshot of all there is. Unknown when there is nothing yet."""
    entries = {key: entry for key, entry in everything.entries.items() if key != RESTORING}
    if not entries or not everything.revision:
        raise Unknown("there is nothing to take a snapshot of yet: no shard has reported")
    fleet = Fleet.from_entries(entries)
    told = {
        "shards": [_shard(name, record) for name, record in sorted(fleet.shards.items())],
        "cluster_to_shard": {name: each.shard for name, each in sorted(fleet.clusters.items())},
        "domain_to_shard": [
            {"domain": {"Key": domain.key, "Value": domain.value}, "shard": record.shard}
            for domain, record in sorted(fleet.domains.items())
        ],
        OURS: {key: json.loads(entry.value) for key, entry in sorted(entries.items())},
    }
    state = json.dumps(told, separators=(",", ":")).encode()
    stamp = datetime.fromtimestamp(now_s, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return packed(Meta(f"{stamp}-{everything.revision}", everything.revision, term), state)


class Restorable(NamedTuple):
    """What a snapshot holds, once all of it is known to be readable."""

    meta: Meta
    entries: Mapping[str, bytes]
    """By key; without `meta`, which a restore writes anew."""

    term_base: int
    """Terms of whoever leads after it must be greater than this."""


def restorable(archive: Archive) -> Restorable:
    """Read a snapshot. Rejected in one line when any of it is not as it must be."""
    meta = checked(archive)
    told = read_object(archive.state, "state")
    entries = _ours(told) if OURS in told else _theirs(told)
    fleet = Fleet.from_entries({key: Entry(value, 1) for key, value in entries.items()})
    base = max(fleet.meta.term_base, meta.term)
    return Restorable(
        meta, {key: value for key, value in entries.items() if key != keys.META}, base
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore did."""

    records: int
    replaced: int
    term_base: int


TOLD: Final = 20
"""So often at most a restore says how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """Who restores, and how it waits."""

    candidate: str
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]
    replace: bool = False
    """Whether a store that is not empty may be overwritten."""

    told: Callable[[str], None] = lambda _: None
    """What goes on, for whoever waits."""


async def restore(store: Store, wanted: Restorable, by: Restoring) -> Restored:
    """Put a snapshot into a store in which nobody leads. Rejected: nothing was changed."""
    by.told("waiting to lead the store")
    leadership = await _led(store, by)
    try:
        return await _restored(store, leadership, wanted, by)
    finally:
        await leadership.resign()


def refuse_half_restored(entries: Mapping[str, Entry]) -> None:
    """Rejected when a restore was begun and not ended."""
    if RESTORING in entries:
        raise Rejected("a restore of this store was begun and not ended: run it again to its end")


async def _led(store: Store, by: Restoring) -> Leadership:
    for attempt in range(CAMPAIGNS):
        leadership = await store.campaign(candidate=by.candidate, address="")
        if leadership is not None:
            return leadership
        if attempt + 1 < CAMPAIGNS:
            await by.sleep(store.lease_s * 2 / CAMPAIGNS)
    leader = await store.leader()
    who = "somebody" if leader is None else leader.candidate
    raise Rejected(f"{who} leads: stop every coordinator of this fleet, then restore")


async def _restored(
    store: Store, leadership: Leadership, wanted: Restorable, by: Restoring
) -> Restored:
    everything = await store.load()
    there = {key: entry for key, entry in everything.entries.items() if key != RESTORING}
    is_half_done = RESTORING in everything.entries
    if there and not (by.replace or is_half_done):
        raise Rejected(f"the store holds {len(there)} records: say that they are to be replaced")
    base = max(wanted.term_base, _base_of(there) + leadership.term)
    renewed_s = by.clock.elapsed_s()
    written, total = 0, len(wanted.entries)
    for change in _changes(there, wanted, base):
        if by.clock.elapsed_s() - renewed_s > store.lease_s / 3:
            await leadership.renew()
            renewed_s = by.clock.elapsed_s()
        await leadership.commit(change)
        before, written = written, min(written + len(change.puts), total)
        if written * TOLD // max(total, 1) > before * TOLD // max(total, 1):
            by.told(f"{written:,} of {total:,} records")
    return Restored(records=len(wanted.entries), replaced=len(there), term_base=base)


def _changes(there: Mapping[str, Entry], wanted: Restorable, base: int) -> Iterator[Change]:
    """The mark first, and its removal last, with what makes terms grow."""
    marker = json.dumps({"snapshot": wanted.meta.id}).encode()
    yield Change(puts={RESTORING: marker})
    old = sorted(there.keys() - wanted.entries.keys() - {keys.META})
    for start in range(0, len(old), OPERATIONS_MAX):
        yield Change(deletes=frozenset(old[start : start + OPERATIONS_MAX]))
    for batch in _batches(wanted.entries):
        yield Change(puts=batch)
    meta = records.encode(MetaRecord(term_base=base))
    yield Change(puts={keys.META: meta}, deletes=frozenset({RESTORING}))


def _batches(entries: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    batch: dict[str, bytes] = {}
    size = 0
    for key, value in sorted(entries.items()):
        more = len(key.encode()) + len(value)
        if batch and (len(batch) == OPERATIONS_MAX or size + more > CHANGE_BYTES_MAX):
            yield batch
            batch, size = {}, 0
        batch[key] = value
        size += more
    if batch:
        yield batch


def _base_of(there: Mapping[str, Entry]) -> int:
    """The store may be the very damage that a restore repairs: then its terms are not known."""
    if keys.META not in there:
        return 0
    try:
        record = records.decode(keys.Kind.META, there[keys.META].value, key=keys.META)
    except Rejected:
        return 0
    return record.term_base if isinstance(record, MetaRecord) else 0


def _shard(name: ShardId, record: ShardRecord) -> dict[str, str]:
    return {
        "ID": name,
        "Address": record.address,
        "RegisteredAt": _time(record.registered_at_ns),
        "LastHeartbeat": NEVER,
    }


def _time(at_ns: int) -> str:
    if not at_ns:
        return NEVER
    at = datetime.fromtimestamp(at_ns // SECOND_NS, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ns % SECOND_NS:09d}Z"


def _ours(told: Mapping[str, Any]) -> dict[str, bytes]:
    entries = told[OURS]
    if not isinstance(entries, dict):
        raise Rejected(f"the snapshot is damaged: {OURS} is not a JSON object")
    return {
        key: json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
        for key, value in entries.items()
    }


def _theirs(told: Mapping[str, Any]) -> dict[str, bytes]:
    """From BigFleet's own: who there is and who has what. BigFleet never told a shard of its
    domains, so each of them is assigned here as if somebody had asked for it now.
    """
    shards = {_id(row, "ID"): row for row in _rows(told, "shards")}
    clusters = {} if told.get("cluster_to_shard") is None else told["cluster_to_shard"]
    if not isinstance(clusters, dict):
        raise Rejected("the snapshot is damaged: cluster_to_shard is not a JSON object")
    entries = {
        keys.shard(ShardId(name)): records.encode(
            ShardRecord(address=str(row.get("Address", "")), registered_at_ns=_read_time(row))
        )
        for name, row in shards.items()
    }
    for cluster, shard in clusters.items():
        record = ClusterRecord(shard=_known(shard, shards, f"cluster {cluster}"))
        entries[keys.cluster(ClusterId(cluster))] = records.encode(record)
    fleet = Fleet.from_entries({key: Entry(value, 1) for key, value in entries.items()})
    for row in _rows(told, "domain_to_shard"):
        domain = _domain(row)
        owner = _known(row.get("shard"), shards, f"domain {domain.key}={domain.value}")
        assigned = commands.assign_domain(fleet, domain, owner, now_ns=0)
        fleet.apply(assigned, 1)
        entries.update(assigned.puts)
    return entries


def _rows(told: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    rows = [] if told.get(name) is None else told[name]  # Go writes none as null
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Rejected(f"the snapshot is damaged: {name} is not a list of JSON objects")
    return rows


def _id(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not is_id(value):
        raise Rejected(f"the snapshot is damaged: a shard with the id {str(value)[:80]!r}")
    return value


def _known(shard: object, shards: Mapping[str, Any], what: str) -> ShardId:
    if not isinstance(shard, str) or shard not in shards:
        raise Rejected(f"the snapshot is damaged: {what[:200]} is of no shard: {str(shard)[:80]}")
    return ShardId(shard)


def _domain(row: Mapping[str, Any]) -> Domain:
    inside = row.get("domain")
    key, value = (inside.get("Key"), inside.get("Value")) if isinstance(inside, dict) else ("", "")
    if not (isinstance(key, str) and key and isinstance(value, str) and value):
        raise Rejected(f"the snapshot is damaged: a domain of {str(inside)[:80]}")
    return Domain(key, value)


def _read_time(row: Mapping[str, Any]) -> int:
    try:
        at = datetime.fromisoformat(str(row.get("RegisteredAt", NEVER)))
    except ValueError as error:
        raise Rejected(
            f"the snapshot is damaged: not a time: {str(row.get('RegisteredAt'))[:80]}"
        ) from error
    return max(0, int(at.timestamp() * SECOND_NS)) if at.year > 1 else 0


async def saved(store: Store, *, term: int, now_s: float) -> Archive:
    """A snapshot of what a store holds now."""
    everything = await store.load()
    if RESTORING in everything.entries:
        raise Unavailable("the store is being restored: try again when that is done")
    # Beside the loop: a large state takes longer than a lease lasts.
    return await asyncio.to_thread(taken, everything, term=term, now_s=now_s)
