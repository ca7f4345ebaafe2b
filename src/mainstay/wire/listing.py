"""A provider's List answer, read as far as it must be: ids and digests at once, the rest on demand.

`listing_of` walks the bytes once and makes no object per machine. `Inventory.merge` takes the
listing, looks up which machines it knows with the same digest, and reads only the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from mainstay.model.batch import MachineBatch
from mainstay.model.errors import InvalidMachine, Rejected
from mainstay.model.ids import MachineId, is_id
from mainstay.model.notice import Notices
from mainstay.model.texts import ARENA_BYTES_MAX, U64, Rows, Texts
from mainstay.wire import scan
from mainstay.wire.columns import Bytes, Columns, bytes_of, columns_of, gathered, joined
from mainstay.wire.loops import loops
from mainstay.wire.machines import machine_from_wire
from mainstay.wire.notices import notice_in
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb

UNREADABLE: Final = "unreadable"
"""The label of a refused record whose bytes are wrong, where no rule of the model has a name."""

PART_MACHINES: Final = 8192
PARTS_MAX: Final = 512
"""More machines or deleted ids than fit so many parts are no fleet, but an attack on our memory."""

NAMELESS_MAX: Final = 10_000
"""Most records without a machine id that are refused one by one."""

_SHOWN_MAX: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Row i of `ids` and `digest` is the i-th machine that has an id."""

    source: str
    full: bool
    tombstones: tuple[MachineId, ...]
    cursor: bytes
    more: bool
    """Whether another page follows. Pages are lists whose bytes can be joined into one."""

    incremental: bool
    capabilities: bytes | None
    """The provider's capabilities as they came; None from one that has sent none."""

    ids: Texts
    digest: U64
    """The same for the same report, never 0, whatever the order of map entries (ADR-0020)."""

    nameless: tuple[tuple[str, InvalidMachine], ...]
    """Records without a machine id, as far as they can be shown, and why they are refused."""

    raw: Bytes = field(repr=False)
    found: scan.I64 = field(repr=False)
    """What `mainstay.wire.scan.walk` has found of each row."""

    def __len__(self) -> int:
        return len(self.digest)

    def read(self, positions: Rows) -> tuple[MachineBatch, Mapping[int, InvalidMachine]]:
        """The machines at these positions that can be read, in order; for the others the reason."""
        columns = columns_of(self.raw, self.found[positions])
        refused = {
            position: _refusal(_record(self.raw, self.found[position]), self.ids[position])
            for position in positions[columns.unreadable].tolist()
        }
        batch = self._batch(columns, positions)
        return replace(batch, notices=self._notices(positions)), refused

    def batch(self) -> tuple[MachineBatch, Mapping[int, InvalidMachine]]:
        """All of it."""
        return self.read(np.arange(len(self)))

    @property
    def notices(self) -> Notices:
        """Whose host the provider will take back: only these records are read for it."""
        return self._notices(np.arange(len(self)))

    def _notices(self, positions: Rows) -> Notices:
        """Also of records that cannot be read otherwise; of two about one machine, the first."""
        noticed = positions[self.found[positions, scan.HEALTH] & scan.NOTICED != 0]
        told = {
            MachineId(self.ids[position]): notice_in(_record(self.raw, self.found[position]))
            for position in noticed[::-1].tolist()
        }
        return {name: notice for name, notice in told.items() if notice is not None}

    def _batch(self, columns: Columns, positions: Rows) -> MachineBatch:
        good = np.flatnonzero(~columns.unreadable)
        host_provider, host_providers = columns.host_provider.tabled(good, None)
        host_provider[~columns.has_host[good]] = 0
        shape, shapes = columns.shape.tabled(good)
        cluster, clusters = columns.cluster.tabled(good, "")
        last_error, last_errors = columns.last_error.tabled(good, "")
        metadata, metadatas = columns.metadata.tabled(good, ())
        return MachineBatch(
            source=self.source,
            full=self.full,
            tombstones=self.tombstones,
            cursor=self.cursor,
            ids=self.ids.take(positions[good]),
            digest=self.digest[positions[good]],
            state=columns.state[good],
            host_provider=host_provider,
            host_ref=columns.host_ref.take(good),
            shape=shape,
            cluster=cluster,
            price_per_hour=columns.price_per_hour[good],
            interruption_probability=columns.interruption_probability[good],
            last_error=last_error,
            metadata=metadata,
            host_providers=host_providers,
            shapes=shapes,
            clusters=clusters,
            last_errors=last_errors,
            metadatas=metadatas,
        )


def listing_of(data: bytes, *, source: str = "", full: bool = True) -> Listing:
    """A listing of the bytes of a MachineList; `Rejected` when they are none.

    `full` says whether a machine that is not in it is gone: that is for the caller to know.
    """
    if len(data) > ARENA_BYTES_MAX:
        raise Rejected(f"a list of {len(data):,} bytes: ask for it in pages")
    raw = bytes_of(bytes(data))
    found, digest, ids, others = _walked(raw)
    named = (found[:, scan.HEALTH] & scan.NO_ID) == 0
    if len(named) - int(named.sum()) > NAMELESS_MAX:
        raise Rejected(f"not a machine list: more than {NAMELESS_MAX:,} records have no machine id")
    nameless = tuple(_nameless(_record(raw, row)) for row in found[~named])
    if nameless:
        found, digest, ids = found[named], digest[named], ids.take(np.flatnonzero(named))
    capabilities = _payloads(raw, others, scan.CAPABILITIES)
    return Listing(
        source=source,
        full=full,
        tombstones=_tombstones(raw, others),
        cursor=next(reversed(_payloads(raw, others, scan.REVISION)), b""),
        more=_flag(others, scan.MORE),
        incremental=_flag(others, scan.INCREMENTAL),
        capabilities=b"".join(capabilities) if capabilities else None,
        ids=ids,
        digest=digest,
        nameless=nameless,
        raw=raw,
        found=found,
    )


class Walked(NamedTuple):
    """A part of a list: its machines with their ids and digests, and the other fields we know."""

    found: scan.I64
    digest: U64
    ids: Texts
    others: scan.I64


def _walked(raw: Bytes) -> Walked:
    """The whole list, part by part: an id is copied while it is still in the processor's cache."""
    at = np.zeros(3, dtype=np.int64)
    parts = [_part(raw, at)]
    while at[0] < len(raw.data):
        parts.append(_part(raw, at))
        if len(parts) > PARTS_MAX:
            most = PARTS_MAX * PART_MACHINES
            raise Rejected(f"more than {most:,} machines in one list: ask for it in pages")
    found, digest, _, others = (np.concatenate([part[n] for part in parts]) for n in (0, 1, 1, 3))
    return Walked(found, digest, joined([part.ids for part in parts]), others)


def _part(raw: Bytes, at: scan.I64) -> Walked:
    found = np.empty((PART_MACHINES, scan.FOUND_COLUMNS), dtype=np.int64)
    digest = np.empty(PART_MACHINES, dtype=np.uint64)
    others = np.empty((PART_MACHINES, 4), dtype=np.int64)
    count = loops().walk(*raw, at, found, digest, others)
    if at[2]:
        raise Rejected(f"not a machine list: no field at byte {at[0]:,} of {len(raw.data):,}")
    places = found[:count, [scan.ID_AT, scan.ID_LENGTH]]
    places[found[:count, scan.HEALTH] & scan.NO_ID != 0, 1] = 0
    ids = gathered(raw.data, places)
    return Walked(found[:count], digest[:count], ids, others[: at[1]])


def _record(raw: Bytes, found: scan.I64) -> bytes:
    return raw.data[found[scan.START] : found[scan.END]].tobytes()


def _flag(others: scan.I64, tag: int) -> bool:
    return bool(others[others[:, 0] == tag, 3][-1:].any())


def _payloads(raw: Bytes, others: scan.I64, tag: int) -> list[bytes]:
    spans = others[others[:, 0] == tag, 1:3].tolist()
    return [raw.data[start:end].tobytes() for start, end in spans]


def _tombstones(raw: Bytes, others: scan.I64) -> tuple[MachineId, ...]:
    """The ids that are gone; a text that is no id is nobody's."""
    texts = (text.decode(errors="replace") for text in _payloads(raw, others, scan.DELETED_ID))
    return tuple(MachineId(text) for text in texts if is_id(text))


def _nameless(record: bytes) -> tuple[str, InvalidMachine]:
    try:
        shown = pb.Machine.FromString(record).id[:_SHOWN_MAX]
    except DecodeError:
        shown = ""
    return shown, _refusal(record, shown)


def _refusal(record: bytes, shown: str) -> InvalidMachine:
    """Why this record is refused, in the words of the one-by-one reader where it refuses, too."""
    why = "it has a map that names a key twice, or a group"
    try:
        machine_from_wire(pb.Machine.FromString(record))
    except InvalidMachine as error:
        return error
    except DecodeError:
        why = "it has a text that is not UTF-8, or a message that is cut off"
    return InvalidMachine(f"machine {shown}: {why}", rule=UNREADABLE)
