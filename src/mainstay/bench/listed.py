"""A provider's fleet as the bytes that its lists are made of, for benches at full size.

A machine is a slice of one array of bytes. Prices stand at the end of each slice and are written in
place; only a machine that a call has changed is an object of its own.
"""

import dataclasses
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mainstay.model.calls import (
    Ack,
    Call,
    Capabilities,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    Listing,
    ListRequest,
)
from mainstay.model.errors import IllegalTransition, Rejected, UnknownMachine
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.profile import CapacityType, HostRef
from mainstay.model.state import State
from mainstay.providers.kit.steps import STEPS, stepped
from mainstay.wire.calls import get_answer_from_wire, listing_to_wire
from mainstay.wire.machines import machine_bytes

CAPABILITIES: Final = Capabilities(
    deletable=frozenset({CapacityType.ON_DEMAND, CapacityType.SPOT}),
    paging=True,
    incremental=True,
    tombstones=True,
)

CENT: Final = 0.01
HUNDREDTH: Final = 100

_MACHINE_TAG: Final = b"\x0a"
_PRICE_TAG: Final = b"\x39"
_PRICE_BYTES: Final = 8


class ListedFleet:
    """Machines named by their number, behind the six calls; List answers in bytes.

    Every step is accepted at once and finished when the next list is asked for.
    """

    source = "listed"
    capabilities = CAPABILITIES

    def __init__(self, machines: Iterable[Machine]) -> None:
        """The machines in the order of their numbers: `m-0000000`, `m-0000001`, and so on."""
        data = bytearray()
        ends: list[int] = []
        for machine in machines:
            data += _written(machine)
            ends.append(len(data))
        self._data: NDArray[np.uint8] = np.frombuffer(data, dtype=np.uint8)
        self._end: NDArray[np.int64] = np.array(ends, dtype=np.int64)
        self._changed_at: NDArray[np.int64] = np.zeros(len(ends), dtype=np.int64)
        self._gone_at: NDArray[np.int64] = np.zeros(len(ends), dtype=np.int64)
        self._moved: dict[int, Machine] = {}
        self._under_way: dict[int, Call] = {}
        self._turn = 0
        self._calls = 0
        self.revision = 1

    def __len__(self) -> int:
        return int(np.count_nonzero(self._gone_at == 0))

    @property
    def size_bytes(self) -> int:
        """Of all machines as they were written first."""
        return len(self._data)

    def change(self, each: int = HUNDREDTH) -> int:
        """Another price for one machine in `each`, others every time; how many that were."""
        self.revision += 1
        self._turn += 1
        rows = np.array(changed_rows(self._turn, len(self._end), each), dtype=np.intp)
        rows = rows[self._gone_at[rows] == 0]
        for row in set(rows.tolist()) & self._moved.keys():
            record = self._moved[row]
            price = record.price_per_hour + CENT
            self._moved[row] = dataclasses.replace(record, price_per_hour=price)
        places = (self._end[rows] - _PRICE_BYTES)[:, None] + np.arange(_PRICE_BYTES)
        prices = np.ascontiguousarray(self._data[places]).view(np.float64) + CENT
        self._data[places] = prices.view(np.uint8)
        self._changed_at[rows] = self.revision
        return len(rows)

    def remove(self, count: int) -> int:
        """The last so many machines are gone; how many that were."""
        self.revision += 1
        rows = np.flatnonzero(self._gone_at == 0)[-count:] if count > 0 else np.empty(0, np.intp)
        self._gone_at[rows] = self.revision
        for row in rows.tolist():
            self._under_way.pop(row, None)
        return len(rows)

    def answer(self, request: ListRequest) -> bytes:
        """One answer to List."""
        if request.states:
            raise Rejected("a list by state is not served here: ask for all machines")
        self._finish()
        at = _read_cursor(request.since)
        if at is None or at.revision > self.revision:
            at, full = _At(self.revision, 0), True
        else:
            full = False
        if at.row is None:
            return self._delta(at.revision)
        return self._page(at.revision, at.row, request.results_max, full=full)

    def _page(self, since: int, first: int, size: int, *, full: bool) -> bytes:
        """Machines of a full list from a row on; what changes meanwhile is told by the deltas."""
        count = len(self._end)
        last = min(first + size, count) if size > 0 else count
        more = last < count
        cursor = f"{since}/{last}" if more else f"{since}"
        rows = np.arange(first, last)
        whole = not self._gone_at[first:last].any()
        moved = [row for row in self._moved if first <= row < last]
        if whole and not moved:
            start = int(self._end[first - 1]) if first else 0
            parts = [
                self._data[start : int(self._end[last - 1])].tobytes() if last > first else b""
            ]
        else:
            parts = self._records(rows[self._gone_at[first:last] == 0])
        return b"".join((_envelope(cursor, full=full, more=more), *parts))

    def _delta(self, since: int) -> bytes:
        alive = self._gone_at == 0
        rows = np.flatnonzero((self._changed_at > since) & alive)
        gone = np.flatnonzero(self._gone_at > since).tolist()
        head = _envelope(str(self.revision), full=False, more=False, gone=map(_name, gone))
        return b"".join((head, *self._records(rows)))

    def _records(self, rows: NDArray[np.intp]) -> list[bytes]:
        return [
            _written(self._moved[row]) if row in self._moved else self._slice(row)
            for row in rows.tolist()
        ]

    def _slice(self, row: int) -> bytes:
        start = int(self._end[row - 1]) if row else 0
        return self._data[start : int(self._end[row])].tobytes()

    async def create(self, request: CreateRequest) -> Ack:
        """Accepted; Idle by the next list."""
        return self._begin(Call.CREATE, request.machine, shard_metadata=dict(request.attribution))

    async def configure(self, request: ConfigureRequest) -> Ack:
        """Accepted; Configured by the next list."""
        parts = {"cluster": request.cluster, "shard_metadata": dict(request.metadata)}
        return self._begin(Call.CONFIGURE, request.machine, **parts)

    async def drain(self, request: DrainRequest) -> Ack:
        """Accepted; Idle by the next list, whatever the grace."""
        return self._begin(Call.DRAIN, request.machine)

    async def delete(self, request: DeleteRequest) -> Ack:
        """Accepted; Speculative by the next list."""
        return self._begin(Call.DELETE, request.machine)

    async def get(self, request: GetRequest) -> Machine:
        """One machine."""
        return self._machine(self._row(request.machine))

    async def list(self, request: ListRequest) -> Listing:
        """Not as objects: there are too many."""
        raise Rejected(f"lists are served as bytes, by gRPC: {request}")

    def _begin(self, call: Call, name: str, **parts: Any) -> Ack:
        row = self._row(name)
        record, step = self._machine(row), STEPS[call]
        if self._under_way.get(row) is call:
            return Ack(f"{call}-{row}", record)  # a repetition of what is under way
        if record.state is not step.source:
            raise IllegalTransition(f"machine {name} is {record.state}, not {step.source}")
        self._calls += 1
        self._under_way[row] = call
        return Ack(f"{call}-{row}", self._put(row, stepped(record, step.during, **parts)))

    def _finish(self) -> None:
        """End the steps that are under way."""
        under_way, self._under_way = self._under_way, {}
        for row, call in under_way.items():
            record, parts = self._machine(row), {}
            if call is Call.CREATE:
                parts = {"host": HostRef(self.source, f"h-{row:07d}"), "shard_metadata": {}}
            self._put(row, stepped(record, STEPS[call].after, **parts))

    def _put(self, row: int, record: Machine) -> Machine:
        self.revision += 1
        self._moved[row] = record
        self._changed_at[row] = self.revision
        return record

    def _machine(self, row: int) -> Machine:
        if row in self._moved:
            return self._moved[row]
        data = self._slice(row)
        return get_answer_from_wire(data[1 + _varint_bytes(data, 1) :])

    def _row(self, name: str) -> int:
        number = name.removeprefix("m-")
        row = int(number) if number.isascii() and number.isdecimal() else len(self._end)
        if row >= len(self._end) or _name(row) != name or self._gone_at[row]:
            raise UnknownMachine(f"no such machine: {name!r}")
        return row

    @property
    def calls(self) -> int:
        """How many steps were begun."""
        return self._calls

    def by_state(self) -> dict[str, int]:
        """How many machines are in each state; reads every one of them."""
        counts = dict.fromkeys(map(str, State), 0)
        for row in np.flatnonzero(self._gone_at == 0).tolist():
            counts[str(self._machine(row).state)] += 1
        return {name: count for name, count in counts.items() if count}


def changed_rows(turn: int, machines: int, each: int = HUNDREDTH) -> range:
    """The machines that have another price after the change of this number."""
    return range(turn * 7 % each, machines, each)


@dataclasses.dataclass(frozen=True, slots=True)
class _At:
    """Where a list goes on: after a revision, or at a row of a full list begun at it."""

    revision: int
    row: int | None


def _read_cursor(cursor: bytes) -> _At | None:
    """None for the beginning, and for a cursor that is none of ours."""
    revision, sign, row = cursor.decode("ascii", "replace").partition("/")
    if not revision.isdecimal() or (sign and not row.isdecimal()):
        return None
    return _At(int(revision), int(row) if sign else None)


def _envelope(cursor: str, *, full: bool, more: bool, gone: Iterable[MachineId] = ()) -> bytes:
    none: Sequence[Machine] = ()
    listing = Listing(
        machines=none, full=full, cursor=cursor.encode(), tombstones=tuple(gone), more=more
    )
    return listing_to_wire(listing, CAPABILITIES)


def _written(machine: Machine) -> bytes:
    """A field of a list, with the price last."""
    rest = machine_bytes(dataclasses.replace(machine, price_per_hour=0.0))
    data = rest + _PRICE_TAG + struct.pack("<d", machine.price_per_hour)
    return _MACHINE_TAG + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    low = bytearray()
    while number >= 0x80:
        low.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*low, number))


def _varint_bytes(data: bytes, at: int) -> int:
    """How many bytes the number takes that begins here."""
    end = at
    while data[end] >= 0x80:
        end += 1
    return end - at + 1


def _name(row: int) -> MachineId:
    return MachineId(f"m-{row:07d}")
