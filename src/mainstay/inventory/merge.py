"""The bulk write: what a provider reports, taken in as `add` and `apply` would, at column speed.

Everything is looked up and screened first, then written; a record that is refused is named with its
reason and nothing of it is taken in.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.screen import Mask, Refusal, refusal_of, refusals
from mainstay.inventory.store import COMPARED, Bulk, Store
from mainstay.model.assignment import Assignment, carried
from mainstay.model.batch import Codes, Echo, MachineBatch, Shape
from mainstay.model.errors import DuplicateMachine, InvalidMachine
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.metadata import decode
from mainstay.model.state import State
from mainstay.model.texts import U64, Rows, Texts, hash_of

Adopt = Callable[[Shape], bool]
"""Whether machines of a shape are ours to take in."""


class Named(NamedTuple):
    """Machines that are ours to take in or not, whatever their shape says."""

    ours: Collection[MachineId] = ()
    away: Collection[MachineId] = ()


NOBODY: Final = Named()

COMMITMENTS_KEPT: Final = 8192
"""Of so many distinct ones it is remembered what they mean: most lists repeat them."""

_COLUMNS: Final = (
    "ids", "digest", "state", "host_provider", "host_ref", "shape", "cluster", "price_per_hour",
    "interruption_probability", "last_error", "metadata",
)  # fmt: skip
"""What a batch holds row by row."""


class Report(Protocol):
    """What a provider reports, read only where it must be: a batch whose rows come on demand."""

    @property
    def source(self) -> str:
        """Which provider reports it."""

    @property
    def full(self) -> bool:
        """Whether a machine that is not in it is gone; otherwise only `tombstones` are."""

    @property
    def tombstones(self) -> tuple[MachineId, ...]:
        """Machines that are gone."""

    @property
    def ids(self) -> Texts:
        """Of every record that has a machine id."""

    @property
    def digest(self) -> U64:
        """As in a batch: the same for the same report, never 0."""

    @property
    def nameless(self) -> Sequence[tuple[str, InvalidMachine]]:
        """Records without a machine id: what they have instead, and why they are refused."""

    def read(self, positions: Rows) -> tuple[MachineBatch, Mapping[int, InvalidMachine]]:
        """The records at these positions that can be read, in order; for the others, why not."""


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a merge did. Rows, not ids: ask the inventory or its snapshot for names."""

    added: Rows
    changed: Rows
    absent: Rows
    """Machines of this source that a full batch does not name, or that tombstones do."""

    unchanged: int
    skipped: int
    refused: tuple[Refusal, ...]

    foreign: int
    """Machines that we do not know and that were not adopted; nothing of them was looked at."""

    state_before: NDArray[np.uint8]
    """The state of each of `changed` before."""

    cluster_before: tuple[ClusterId | None, ...]
    """The cluster of each of `changed` before."""


def merge(
    store: Store,
    report: MachineBatch | Report,
    *,
    now: float,
    skip: Collection[MachineId] = (),
    adopt: Adopt | None = None,
    named: Named = NOBODY,
) -> MergeReport:
    """Take in a report. See `mainstay.inventory.inventory.Inventory.merge`."""
    store.settle()
    hashes = report.ids.hashes()
    rows = store.index.find(report.ids, hashes)
    source = store.source_code(report.source)
    duplicate = _duplicates(report.ids, hashes, rows)
    skipped = ~duplicate & _named(report.ids, hashes, skip)
    passed = duplicate | skipped
    if named.away:
        passed |= (rows < 0) & _named(report.ids, hashes, named.away)
    same_report = ~passed & _same_report(store, report, rows, source)

    open_ = np.flatnonzero(~passed & ~same_report)
    batch, unreadable = _read(report, open_)
    refused = {at: refusal_of(report.ids[at], error) for at, error in unreadable.items()}
    open_ = _without(open_, refused)
    read = len(open_)
    batch, open_ = _adopted(batch, open_, rows, adopt, named.ours)
    broken = refusals(store, batch, rows[open_])
    refused |= {int(open_[place]): refusal for place, refusal in broken.items()}
    refused |= _named_twice(report.ids, duplicate)
    taken = _without(np.arange(len(batch)), broken)
    bulk = _translated(store, batch, taken, rows[open_[taken]], source)
    differs = _differs(store, bulk)

    new = bulk.rows < 0
    bulk = _with_rows_for(store, bulk, new, batch.ids.take(taken[new]), hashes[open_[taken[new]]])
    store.columns.digest[bulk.rows[~differs]] = bulk.digest[~differs]
    changed = bulk.rows[differs & ~new]
    clusters = store.columns.cluster[changed].tolist()
    told = MergeReport(
        added=bulk.rows[new],
        changed=changed,
        absent=_absent(store, report, source, seen=rows[rows >= 0], skip=skip),
        unchanged=int(same_report.sum() + (~differs).sum()),
        skipped=int(skipped.sum()),
        refused=_nameless(report) + tuple(refused[position] for position in sorted(refused)),
        foreign=read - len(open_),
        state_before=store.columns.state[changed],
        cluster_before=tuple(store.clusters.value(code) or None for code in clusters),
    )
    if differs.any():
        store.put_many(_some(bulk, differs), now=now)
    return told


def only(report: MachineBatch | Report, machines: Collection[MachineId]) -> MachineBatch:
    """What a report says of these machines and of no other, as an incremental batch.

    It has no tombstones and no cursor. A record that cannot be read is left out, and so is every
    naming of a machine but the first.
    """
    hashes = report.ids.hashes()
    named = _named(report.ids, hashes, machines)
    named &= ~_duplicates(report.ids, hashes, np.full(len(hashes), -1, dtype=np.intp))
    batch, _ = _read(report, np.flatnonzero(named))
    notices = {name: notice for name, notice in batch.notices.items() if name in machines}
    return dataclasses.replace(batch, full=False, tombstones=(), cursor=b"", notices=notices)


def _read(
    report: MachineBatch | Report, positions: Rows
) -> tuple[MachineBatch, Mapping[int, InvalidMachine]]:
    """The records at these positions as a batch of their own."""
    if not isinstance(report, MachineBatch):
        return report.read(positions)
    return _at(report, positions), {}


def _at(batch: MachineBatch, places: Rows) -> MachineBatch:
    if len(places) == len(batch):
        return batch
    taken = {name: getattr(batch, name).take(places) for name in _COLUMNS}
    return dataclasses.replace(batch, **taken)


def _adopted(
    batch: MachineBatch,
    positions: Rows,
    rows: Rows,
    adopt: Adopt | None,
    by_id: Collection[MachineId],
) -> tuple[MachineBatch, Rows]:
    """The records of machines that we know, or that are ours to take in by shape or by id."""
    if adopt is None:
        return batch, positions
    ours = rows[positions] >= 0
    unknown = np.flatnonzero(~ours)
    used, inverse = np.unique(batch.shape[unknown], return_inverse=True)
    wanted = np.fromiter((adopt(batch.shapes[code]) for code in used), np.bool_, len(used))
    ours[unknown] = wanted[inverse]
    foreign = np.flatnonzero(~ours) if by_id else unknown[:0]
    if len(foreign):
        ids = batch.ids.take(foreign)
        ours[foreign] = _named(ids, ids.hashes(), by_id)
    places = np.flatnonzero(ours)
    return _at(batch, places), positions[places]


def _without(positions: Rows, refused: Mapping[int, Refusal]) -> Rows:
    return positions[~np.isin(positions, list(refused))] if refused else positions


def _nameless(report: MachineBatch | Report) -> tuple[Refusal, ...]:
    named = () if isinstance(report, MachineBatch) else report.nameless
    return tuple(refusal_of(shown, error) for shown, error in named)


def _same_report(store: Store, report: MachineBatch | Report, rows: Rows, source: int) -> Mask:
    """Where the report is, to the digest, the one we took in last."""
    same = rows >= 0
    at = rows[same]
    columns = store.columns
    same[same] = (columns.digest[at] == report.digest[same]) & (columns.source[at] == source)
    return same


def _duplicates(ids: Texts, hashes: U64, rows: Rows) -> Mask:
    """Every naming of an id but the first."""
    duplicate = np.zeros(len(ids), dtype=np.bool_)
    suspects = np.concatenate([_same_row(rows), _same_hash(hashes, np.flatnonzero(rows < 0))])
    seen: set[str] = set()
    for position in np.unique(suspects).tolist():
        identity = ids[position]
        duplicate[position] = identity in seen
        seen.add(identity)
    return duplicate


def _same_row(rows: Rows) -> Rows:
    """The positions of machines that we know and that are named more than once."""
    times = np.bincount(rows[rows >= 0], minlength=1)
    return np.flatnonzero((rows >= 0) & (times[rows] > 1))


def _same_hash(hashes: U64, positions: Rows) -> Rows:
    """Those of the positions that share their hash with another."""
    order = positions[np.argsort(hashes[positions], kind="stable")]
    tied = hashes[order[1:]] == hashes[order[:-1]]
    return np.concatenate([order[1:][tied], order[:-1][tied]])


def _named(ids: Texts, hashes: U64, names: Collection[MachineId]) -> Mask:
    """Where an id is one of `names`."""
    named = np.zeros(len(ids), dtype=np.bool_)
    if not names:
        return named
    if len(ids) <= len(names) and isinstance(names, AbstractSet):
        named[:] = [name in names for name in ids]
        return named
    wanted = np.array([hash_of(name.encode()) for name in names], dtype=np.uint64)
    for position in np.flatnonzero(np.isin(hashes, wanted)).tolist():
        named[position] = ids[position] in names
    return named


def _named_twice(ids: Texts, duplicate: Mask) -> dict[int, Refusal]:
    refused = {}
    for position in np.flatnonzero(duplicate).tolist():
        name = ids[position]
        error = DuplicateMachine(f"machine {name} is named twice in one list")
        refused[position] = refusal_of(name, error)
    return refused


def _translated(store: Store, batch: MachineBatch, taken: Rows, rows: Rows, source: int) -> Bulk:
    """The reports in our own codes."""
    clusters, providers = batch.clusters, batch.host_providers
    return Bulk(
        rows=rows,
        state=batch.state[taken],
        cluster=_recoded(
            batch.cluster[taken], lambda code: store.clusters.code(ClusterId(clusters[code]))
        ),
        shape=_recoded(batch.shape[taken], lambda code: store.shapes.code(batch.shapes[code])),
        price_per_hour=batch.price_per_hour[taken],
        interruption_probability=batch.interruption_probability[taken],
        assignment=_assignments(store, batch, taken, rows),
        source=np.full(len(taken), source, dtype=np.uint32),
        host_provider=_recoded(
            batch.host_provider[taken], lambda code: store.host_provider_code(providers[code])
        ),
        host_ref=batch.host_ref.take(taken),
        last_error=batch.last_error[taken],
        last_errors=batch.last_errors,
        digest=batch.digest[taken],
    )


def _recoded(codes: Codes, recode: Callable[[int], int]) -> Codes:
    """Codes of the batch as our own; each distinct one is looked up once."""
    used, inverse = np.unique(codes, return_inverse=True)
    ours = np.fromiter(map(recode, used.tolist()), dtype=np.uint32, count=len(used))
    return ours[inverse]


def _assignments(store: Store, batch: MachineBatch, taken: Rows, rows: Rows) -> Codes:
    """What each machine is committed to: worked out once per (memory, echo, state)."""
    memory = np.zeros(len(rows), dtype=np.uint64)
    memory[rows >= 0] = store.columns.assignment[rows[rows >= 0]]
    echo, state = batch.metadata[taken].astype(np.uint64), batch.state[taken]
    key = (memory << np.uint64(36)) | (echo << np.uint64(4)) | state
    used, inverse = np.unique(key, return_inverse=True)
    ours = np.zeros(len(used), dtype=np.uint32)
    for place, packed in enumerate(used.tolist()):
        known = store.assignments.value(packed >> 36)
        echoed = batch.metadatas[(packed >> 4) & 0xFFFFFFFF]
        ours[place] = store.assignments.code(_committed(known, echoed, State(packed & 0xF)))
    return ours[inverse]


@lru_cache(maxsize=COMMITMENTS_KEPT)
def _committed(known: Assignment, echo: Echo, state: State) -> Assignment:
    """What a machine is committed to, by our memory and by what its provider echoes."""
    return carried(known, decode(dict(echo)).assignment, state)


def _differs(store: Store, bulk: Bulk) -> Mask:
    """Where a report is not what the row already holds; always, for a machine we do not know."""
    differs = bulk.rows < 0
    known = np.flatnonzero(~differs)
    rows = bulk.rows[known]
    other = ~store.host_ref.view(rows).equals(bulk.host_ref.take(known))
    for name in COMPARED:
        other |= getattr(store.columns, name)[rows] != getattr(bulk, name)[known]
    code = bulk.last_error[known]
    told = np.flatnonzero((code != 0) | np.isin(rows, list(store.last_error)))
    for place in told.tolist():
        held = store.last_error.get(int(rows[place]), "")
        other[place] |= held != bulk.last_errors[code[place]]
    differs[known] = other
    return differs


def _with_rows_for(store: Store, bulk: Bulk, new: Mask, ids: Texts, hashes: U64) -> Bulk:
    """The same, with rows for the machines we did not know."""
    if not len(ids):
        return bulk
    rows = bulk.rows.copy()
    rows[new] = store.allocate(len(ids))
    store.add_ids(rows[new], ids, hashes)
    return dataclasses.replace(bulk, rows=rows)


def _some(bulk: Bulk, wanted: Mask) -> Bulk:
    if wanted.all():
        return bulk
    places = np.flatnonzero(wanted)
    parts = {field.name: getattr(bulk, field.name) for field in dataclasses.fields(bulk)}
    kept = {name: part.take(places) for name, part in parts.items() if name != "last_errors"}
    return dataclasses.replace(bulk, **kept)


def _absent(
    store: Store,
    report: MachineBatch | Report,
    source: int,
    *,
    seen: Rows,
    skip: Collection[MachineId],
) -> Rows:
    """The machines this report says are not there, in order of their rows."""
    gone = np.zeros(len(store.columns.state), dtype=np.bool_)
    if report.full:
        gone = (store.columns.state != 0) & (store.columns.source == source)
        gone[seen] = False
    else:
        told = [row for name in report.tombstones if (row := store.index.row_of(name)) >= 0]
        gone[told] = True
    ours = [row for name in skip if (row := store.index.row_of(name)) >= 0]
    gone[ours] = False
    return np.flatnonzero(gone)
