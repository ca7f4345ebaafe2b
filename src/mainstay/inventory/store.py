"""Rows, tables, ids and the log kept in step. Nothing is checked here: that is done before.

Called by mainstay.inventory.inventory for one machine and by mainstay.inventory.merge for many.
"""

import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from mainstay.inventory.assignments import AssignmentTable
from mainstay.inventory.changes import ChangeLog
from mainstay.inventory.columns import CODES_16_MAX, HOT, Columns, empty_columns
from mainstay.inventory.growing import frozen, grown_capacity
from mainstay.inventory.idindex import IdIndex, TextColumn
from mainstay.inventory.order import IdOrder
from mainstay.inventory.shapes import ShapeTable
from mainstay.inventory.snapshot import Snapshot
from mainstay.inventory.table import Table
from mainstay.model.batch import Codes, Shape
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.profile import HostRef
from mainstay.model.state import State
from mainstay.model.texts import U64, Rows, Texts

NO_CLUSTER: Final = ClusterId("")


class Written(NamedTuple):
    """What one row holds besides texts, in the order of `COMPARED`."""

    state: int
    cluster: int
    shape: int
    price_per_hour: float
    interruption_probability: float
    assignment: int
    source: int
    host_provider: int


COMPARED: Final = Written._fields
_SETTLE_EVERY: Final = 256
_IDLE: Final = int(State.IDLE)
_EMPTY_ROW: Final = Written(0, 0, 0, 0.0, 0.0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Bulk:
    """New contents for many rows, aligned with `rows`."""

    rows: Rows
    state: np.ndarray[tuple[int], np.dtype[np.uint8]]
    cluster: Codes
    shape: Codes
    price_per_hour: np.ndarray[tuple[int], np.dtype[np.float64]]
    interruption_probability: np.ndarray[tuple[int], np.dtype[np.float64]]
    assignment: Codes
    source: Codes
    host_provider: Codes
    host_ref: Texts
    last_error: Codes
    last_errors: tuple[str, ...]
    """What the codes of `last_error` stand for."""
    digest: U64


class Store:
    """Everything an inventory remembers."""

    def __init__(self) -> None:
        self.columns: Columns = empty_columns()
        self.clusters: Table[ClusterId] = Table(NO_CLUSTER)
        self.sources: Table[str] = Table("")
        self.host_providers: Table[str | None] = Table(None)
        self.shapes = ShapeTable()
        self.assignments = AssignmentTable()
        self._tables: dict[str, Table[Any]] = {
            "cluster": self.clusters,
            "shape": self.shapes,
            "assignment": self.assignments,
            "source": self.sources,
            "host_provider": self.host_providers,
        }
        self.index = IdIndex()
        self.host_ref = TextColumn()
        self.last_error: dict[int, str] = {}
        self.log = ChangeLog()
        self._order = IdOrder()
        self._rows = 0
        self._free: list[int] = []
        self._dirty: set[str] = set(HOT)
        self._snapshot: Snapshot | None = None
        self._lineage = object()
        self._recycled = 0

    def __len__(self) -> int:
        return self._rows - len(self._free)

    def allocate(self, count: int) -> Rows:
        """Rows for new machines: freed ones first, the last freed first."""
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        fresh = count - len(reused)
        self.reserve(self._rows + fresh)
        rows = np.array([*reused, *range(self._rows, self._rows + fresh)], dtype=np.intp)
        self._rows += fresh
        return rows

    def reserve(self, rows: int) -> None:
        """Make room for rows up to `rows`."""
        if rows <= len(self.columns.state):
            return
        capacity = grown_capacity(len(self.columns.state), rows)
        self.columns.reserve(capacity)
        self.index.reserve(capacity)
        self.host_ref.reserve(capacity)

    def add_id(self, row: int, identity: MachineId) -> None:
        """Name a new row."""
        self.index.insert(row, identity)
        self._order.add([row])
        self._dirty.add("rank")

    def add_ids(self, rows: Rows, texts: Texts, hashes: U64) -> None:
        """Name many new rows."""
        self.index.insert_many(rows, texts, hashes)
        self._order.add(rows)
        self._dirty.add("rank")

    def source_code(self, source: str) -> int:
        """The code of a source; there are at most 65,535 of them."""
        return _small(self.sources.code(source), "sources")

    def host_provider_code(self, provider: str | None) -> int:
        """The code of a host's provider."""
        return _small(self.host_providers.code(provider), "host providers")

    def settle(self) -> None:
        """Between writes: codes that nobody uses may be given to other values."""
        self.clusters.collect()
        self.shapes.collect()
        self.assignments.collect()

    def encode(self, machine: Machine, source: int) -> Written:
        """A record as a row would hold it."""
        if self.log.revision % _SETTLE_EVERY == 0:
            self.settle()
        host = machine.host
        return Written(
            machine.state,
            self.clusters.code(machine.cluster or NO_CLUSTER),
            self.shapes.code(Shape(machine.profile, machine.allocatable)),
            machine.price_per_hour,
            machine.interruption_probability,
            self.assignments.code(machine.assignment),
            source,
            self.host_provider_code(host.provider if host else None),
        )

    def written(self, row: int) -> Written:
        """What a row holds."""
        columns = self.columns
        return Written(
            columns.state.item(row),
            columns.cluster.item(row),
            columns.shape.item(row),
            columns.price_per_hour.item(row),
            columns.interruption_probability.item(row),
            columns.assignment.item(row),
            columns.source.item(row),
            columns.host_provider.item(row),
        )

    def put(self, row: int, new: Written, *, host_ref: str, last_error: str, now: float) -> bool:
        """Write one row; whether that changed anything."""
        old = self.written(row)
        ref = host_ref.encode(errors="surrogatepass")
        same_texts = (
            self.host_ref.bytes_at(row) == ref and self.last_error.get(row, "") == last_error
        )
        if new == old and same_texts:
            return False
        self._put_fields(row, old, new, now)
        self.columns.digest[row] = 0
        if not same_texts:
            self.host_ref.put(row, ref)
            self._put_error(row, last_error)
        self._log_one(row, old)
        return True

    def clear(self, row: int) -> None:
        """Free a row."""
        old = self.written(row)
        self._put_fields(row, old, _EMPTY_ROW, math.nan)
        self.columns.digest[row] = 0
        self.columns.rank[row] = -1
        self.host_ref.put(row, b"")
        self.last_error.pop(row, None)
        self.index.delete(row)
        self._order.remove(row)
        self._free.append(row)
        self._dirty.add("rank")
        self._log_one(row, old)

    def put_many(self, bulk: Bulk, *, now: float) -> None:
        """Write many distinct rows."""
        columns, rows = self.columns, bulk.rows
        before_cluster, before_shape = columns.cluster[rows], columns.shape[rows]
        for name, table in self._tables.items():
            table.move_many(getattr(columns, name)[rows], getattr(bulk, name))
        was_idle = columns.state[rows] == State.IDLE
        is_idle = bulk.state == State.IDLE
        columns.idle_since[rows[is_idle & ~was_idle]] = now
        columns.idle_since[rows[~is_idle]] = math.nan
        for name in COMPARED:
            getattr(columns, name)[rows] = getattr(bulk, name)
        columns.digest[rows] = bulk.digest
        self.host_ref.put_many(rows, bulk.host_ref)
        told = (bulk.last_error != 0) | np.isin(rows, list(self.last_error))
        for place in np.flatnonzero(told).tolist():
            self._put_error(int(rows[place]), bulk.last_errors[bulk.last_error[place]])
        self._dirty.update(HOT.keys() - {"rank"})
        self._forget_recycled()
        self.log.extend(rows, before_cluster, before_shape, rows_total=self._rows)

    def identity(self, row: int) -> MachineId:
        """The id of a row."""
        return MachineId(self.index.ids.bytes_at(row).decode())

    def record(self, row: int) -> Machine:
        """One row as a record."""
        held = self.written(row)
        shape = self.shapes.value(held.shape)
        provider = self.host_providers.value(held.host_provider)
        ref = self.host_ref.bytes_at(row).decode(errors="surrogatepass")
        return Machine(
            id=self.identity(row),
            state=State(held.state),
            profile=shape.profile,
            host=None if provider is None else HostRef(provider, ref),
            cluster=self.clusters.value(held.cluster) or None,
            allocatable=shape.allocatable,
            price_per_hour=held.price_per_hour,
            interruption_probability=held.interruption_probability,
            assignment=self.assignments.value(held.assignment),
            last_error=self.last_error.get(row, ""),
        )

    def snapshot(self) -> Snapshot:
        """The frozen copy of now; columns nobody wrote to are those of the last one."""
        last, rows = self._snapshot, self._rows
        if last is not None and last.revision == self.log.revision:
            return last
        columns = self.columns
        if self._order.is_stale or last is None:
            order = self._order.repaired(self.index.ids, columns.state[:rows] != 0)
            columns.rank[order] = np.arange(len(order), dtype=np.int32)
            order, ids = frozen(order), self.index.ids.frozen(rows)
        else:
            order, ids = last.order, last.ids
        copied = {
            name: frozen(getattr(columns, name)[:rows])
            if last is None or name in self._dirty or len(last.state) != rows
            else getattr(last, name)
            for name in HOT
        }
        self._dirty.clear()
        self._snapshot = Snapshot(
            revision=self.log.revision,
            ids=ids,
            order=order,
            clusters=self.clusters.values(),
            sources=self.sources.values(),
            shapes=self.shapes.view(),
            machines_of_shape=frozen(self.shapes.users()),
            assignments=self.assignments.view(),
            log=self.log.view(),
            lineage=self._lineage,
            **copied,
        )
        return self._snapshot

    def nbytes(self) -> int:
        """Bytes of all arrays and tables; the values in the tables not included."""
        tables = sum(table.nbytes() for table in self._tables.values())
        return tables + sum(
            part.nbytes() for part in (self.columns, self.index, self.host_ref, self.log)
        )

    def values(self) -> list[object]:
        """Every value the tables hold, for counting what they take."""
        return [table.values() for table in self._tables.values()] + [self.last_error]

    def _put_fields(self, row: int, old: Written, new: Written, now: float) -> None:
        for name, before, after in zip(COMPARED, old, new, strict=True):
            if before != after:
                getattr(self.columns, name)[row] = after
                self._dirty.add(name)
                if name in self._tables:
                    self._tables[name].move(int(before), int(after))
        if old.state != new.state and _IDLE in (old.state, new.state):
            self.columns.idle_since[row] = now if new.state == _IDLE else math.nan
            self._dirty.add("idle_since")

    def _put_error(self, row: int, last_error: str) -> None:
        if last_error:
            self.last_error[row] = last_error
        else:
            self.last_error.pop(row, None)

    def _log_one(self, row: int, old: Written) -> None:
        self._forget_recycled()
        self.log.append(row, old.cluster, old.shape, rows_total=self._rows)

    def _forget_recycled(self) -> None:
        """The log names clusters and shapes by code; it ends where a code changes its meaning."""
        recycled = self.clusters.recycled + self.shapes.recycled
        if recycled != self._recycled:
            self._recycled = recycled
            self.log.forget()


def _small(code: int, what: str) -> int:
    if code > CODES_16_MAX:
        raise Rejected(f"too many distinct {what}: at most {CODES_16_MAX}")
    return code
