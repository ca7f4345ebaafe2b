"""Machines on the wire as columns: a Python object per distinct value, none per machine.

Called by mainstay.wire.listing with the places of machines in a list. Values that repeat are told
apart by their bytes: a text by its own, a map by the sorted codes of its entries, a shape by the
codes of its parts. A hash only finds candidates; what is taken for the same has been compared.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mainstay.model.batch import Codes, Echo, Encoder, Shape, echo_of
from mainstay.model.errors import Rejected
from mainstay.model.machine import HOST_REF_BYTES_MAX
from mainstay.model.profile import CapacityType, Labels, Profile, labels_of
from mainstay.model.resources import Resources
from mainstay.model.texts import PAD, U8, U64, Rows, Texts
from mainstay.wire import interning, scan
from mainstay.wire.loops import loops

Mask = NDArray[np.bool_]

ENTRIES_MAX: Final = 2**25
"""Most map entries of all machines read at once; a list of half a million has some ten million."""

_SLOTS_MIN: Final = 1 << 16
_GROWTH: Final = 8
_MAPS: Final = (scan.RESOURCES, scan.LABELS, scan.ALLOCATABLE, scan.METADATA, scan.ATTRIBUTION)
_TEXTS: Final = (
    scan.AT_INSTANCE_TYPE, scan.AT_ZONE, scan.AT_CLUSTER, scan.AT_LAST_ERROR, scan.AT_PROVIDER,
)  # fmt: skip
_CAPACITY_TYPES: Final = {int(kind): kind for kind in CapacityType}

Entries = tuple[tuple[str, str], ...]
"""The entries of a map in some order; each key once."""

ValueT = TypeVar("ValueT", bound=Hashable)


class Bytes(NamedTuple):
    """Bytes as the loops see them."""

    data: U8
    words: U64


def bytes_of(raw: bytes | memoryview) -> Bytes:
    """Both views of `raw`, which is copied only when it is shorter than a word."""
    padded = raw if len(raw) >= PAD else bytes(raw) + bytes(PAD)
    words = np.ndarray((len(padded) - PAD + 1,), dtype="<u8", buffer=padded, strides=(1,))
    data = np.frombuffer(raw, dtype=np.uint8)
    words.flags.writeable = data.flags.writeable = False
    return Bytes(data, words)


@dataclass(frozen=True, slots=True)
class Coded(Generic[ValueT]):
    """A column of codes and what they stand for: None where that cannot be read."""

    codes: Codes
    values: Sequence[ValueT | None]

    def lost(self) -> Mask:
        """Where there is nothing to be read."""
        return np.fromiter((value is None for value in self.values), np.bool_)[self.codes]

    def tabled(self, rows: Rows, *first: ValueT) -> tuple[Codes, tuple[ValueT, ...]]:
        """These rows as a batch has them: codes, and the table of `first` and what else occurs."""
        encoder: Encoder[ValueT] = Encoder(*first)
        codes = self.codes[rows]
        occurs = np.zeros(len(self.values), dtype=np.bool_)
        occurs[codes] = True
        ours = np.zeros(len(self.values), dtype=np.uint32)
        for code in np.flatnonzero(occurs).tolist():
            value = self.values[code]
            ours[code] = 0 if value is None else encoder.code(value)
        return ours[codes], encoder.table


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What machines say, row by row; what is in an unreadable row means nothing."""

    unreadable: Mask
    state: NDArray[np.uint8]
    price_per_hour: NDArray[np.float64]
    interruption_probability: NDArray[np.float64]
    has_host: Mask
    host_ref: Texts
    host_provider: Coded[str | None]
    shape: Coded[Shape]
    cluster: Coded[str]
    last_error: Coded[str]
    metadata: Coded[Echo]


def columns_of(raw: Bytes, found: scan.I64) -> Columns:
    """The machines that `walk` has found. An unreadable one spoils no other.

    `Rejected` when there is more in them than a careful process has memory for.
    """
    bounds = np.concatenate([[0], np.cumsum(found[:, scan.ENTRY_COUNT])])
    if bounds[-1] > ENTRIES_MAX:
        raise Rejected(f"more than {ENTRIES_MAX:,} map entries in one list: ask for it in pages")
    out = np.zeros((len(found), scan.FIELD_COLUMNS), dtype=np.uint64)
    entries = np.zeros((bounds[-1], 3), dtype=np.uint32)
    spans = np.column_stack([found[:, scan.START], found[:, scan.END], bounds[:-1]])
    loops().fields(*raw, spans, out, entries)

    text_codes, strings = _strings(raw, out)
    instance_type, zone, cluster, last_error, provider = text_codes
    map_codes, maps = _maps(raw, entries, bounds)
    resources, labels, allocatable, metadata, attribution = map_codes
    kind = out[:, scan.AT_CAPACITY_TYPE].astype(np.uint32)
    parts = (instance_type, zone, kind, resources, labels, allocatable)
    host_ref, odd_ref = _host_refs(raw.data, out)
    torn = (out[:, scan.AT_TORN] != 0) | (found[:, scan.HEALTH] & ~scan.NOTICED != 0)
    torn |= out[:, scan.AT_STATE] == scan.NUMBER_MAX
    columns = Columns(
        unreadable=odd_ref | torn,
        state=out[:, scan.AT_STATE].astype(np.uint8),
        price_per_hour=_floats(out, scan.AT_PRICE),
        interruption_probability=_floats(out, scan.AT_PROBABILITY),
        has_host=out[:, scan.AT_HAS_HOST] != 0,
        host_ref=host_ref,
        host_provider=Coded(provider, strings),
        shape=_shapes(np.column_stack(parts), strings, maps),
        cluster=Coded(cluster, strings),
        last_error=Coded(last_error, strings),
        metadata=_echoes(attribution, metadata, maps),
    )
    for name in ("host_provider", "shape", "cluster", "last_error", "metadata"):
        columns.unreadable[getattr(columns, name).lost()] = True
    return columns


def interned(raw: Bytes, places: scan.U32) -> tuple[Codes, scan.I64]:
    """A code for the bytes at each place, and the first row of each code."""
    size = _SLOTS_MIN
    while True:
        codes = np.empty(len(places), dtype=np.uint32)
        firsts = np.empty(size // 2, dtype=np.int64)
        slots = np.zeros(size, dtype=np.uint64)
        count = loops().intern(raw.words, places, slots, firsts, codes)
        if count == interning.TOO_ALIKE:
            raise Rejected("a list whose values were made to have one hash: ask its provider why")
        if count != interning.TABLE_FULL:
            return codes, firsts[:count]
        size *= _GROWTH


def gathered(data: U8, places: scan.I64) -> Texts:
    """The texts at these places, in an arena of their own."""
    ends = np.cumsum(places[:, 1])
    arena = np.zeros((int(ends[-1]) if len(ends) else 0) + PAD, dtype=np.uint8)
    loops().gather(data, places, arena)
    return Texts(arena, (ends - places[:, 1]).astype(np.uint32), places[:, 1].astype(np.uint32))


def joined(parts: Sequence[Texts]) -> Texts:
    """The texts of all parts, each of which fills its arena, one behind the other."""
    sizes = [len(part.arena) - PAD for part in parts]
    shifts = np.repeat(np.cumsum([0, *sizes[:-1]]), [len(part) for part in parts])
    arena = np.concatenate([*(part.arena[:-PAD] for part in parts), np.zeros(PAD, dtype=np.uint8)])
    offset = np.concatenate([part.offset for part in parts]) + shifts
    return Texts(arena, offset.astype(np.uint32), np.concatenate([part.length for part in parts]))


def _floats(out: U64, column: int) -> NDArray[np.float64]:
    return np.ascontiguousarray(out[:, column]).view(np.float64)


def _strings(raw: Bytes, out: U64) -> tuple[list[Codes], list[str | None]]:
    """Every text column by codes into one list; None for what is no UTF-8."""
    places = np.stack([out[:, _TEXTS], out[:, np.array(_TEXTS) + 1]], axis=2).astype(np.uint32)
    codes, firsts = interned(raw, places.reshape(-1, 2))
    strings = []
    for at, length in places.reshape(-1, 2)[firsts].tolist():
        strings.append(_text(raw.data[at : at + length].tobytes()))
    return list(np.ascontiguousarray(codes.reshape(-1, len(_TEXTS)).T)), strings


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _host_refs(data: U8, out: U64) -> tuple[Texts, Mask]:
    """The refs of the hosts, and where one is too long or no UTF-8; a long one is left out."""
    places = out[:, [scan.AT_REF, scan.AT_REF + 1]].astype(np.int64)
    odd: Mask = places[:, 1] > HOST_REF_BYTES_MAX
    places[odd, 1] = 0
    refs = gathered(data, places)
    if (refs.arena >= 0x80).any():
        before = np.concatenate([[0], np.cumsum(refs.arena >= 0x80)])
        start = refs.offset.astype(np.int64)
        for row in np.flatnonzero(before[start + refs.length] != before[start]).tolist():
            at, length = places[row].tolist()
            odd[row] |= _text(data[at : at + length].tobytes()) is None
    return refs, odd


def _maps(
    raw: Bytes, entries: scan.U32, bounds: scan.I64
) -> tuple[list[Codes], list[Entries | None]]:
    """Every map of every machine by codes into one list; None where one cannot be read."""
    codes, firsts = interned(raw, entries[:, :2])
    pairs = [_pair(raw.data[at : at + n].tobytes()) for at, n, _ in entries[firsts].tolist()]
    keys = (entries[:, 2].astype(np.uint64) << np.uint64(32)) | codes
    for row in np.flatnonzero(np.diff(bounds) > interning.SORTED_MAX).tolist():
        keys[bounds[row] : bounds[row + 1]].sort()
    tags = np.array([*_MAPS, _MAPS[-1] + 1], dtype=np.int64)
    cuts = np.zeros((len(bounds) - 1, len(tags)), dtype=np.int64)
    loops().arrange(keys, bounds, tags, cuts)

    flat = keys.astype(np.uint32)
    places = (np.stack([cuts[:, :-1], np.diff(cuts)], axis=2) * flat.itemsize).astype(np.uint32)
    map_codes, first_maps = interned(bytes_of(flat.tobytes()), places.reshape(-1, 2))
    maps = []
    for at, length in (places.reshape(-1, 2)[first_maps] // flat.itemsize).tolist():
        maps.append(_entries([pairs[code] for code in flat[at : at + length].tolist()]))
    return list(np.ascontiguousarray(map_codes.reshape(-1, len(_MAPS)).T)), maps


def _pair(raw: bytes) -> tuple[str, str] | None:
    """The key and the value of an entry; what is missing is empty."""
    data = np.frombuffer(raw, dtype=np.uint8)
    found = {scan.FIRST_TEXT: b"", scan.SECOND_TEXT: b""}
    at = 0
    while at < len(raw):
        tag, _, start, at = scan.field(data, at, len(raw))
        if at < 0:
            return None
        found[tag] = raw[start:at]
    key, value = _text(found[scan.FIRST_TEXT]), _text(found[scan.SECOND_TEXT])
    return None if key is None or value is None else (key, value)


def _entries(pairs: Sequence[tuple[str, str] | None]) -> Entries | None:
    """A map; None when a part is none, or a key is in it twice: then order would matter."""
    entries = tuple(pair for pair in pairs if pair is not None)
    return entries if len(dict(entries)) == len(pairs) else None


def _shapes(
    parts: scan.U32, strings: Sequence[str | None], maps: Sequence[Entries | None]
) -> Coded[Shape]:
    """The shape of each machine.

    Its parts are type, zone, number of the capacity type, resources, labels and allocatable.
    """
    width = parts.shape[1] * parts.itemsize
    places = np.empty((len(parts), 2), dtype=np.uint32)
    places[:, 0], places[:, 1] = np.arange(len(parts), dtype=np.uint32) * width, width
    codes, firsts = interned(bytes_of(parts.tobytes()), places)
    vectors = {code: _vector(maps[code]) for code in np.unique(parts[firsts][:, [3, 5]]).tolist()}
    tagged = {code: _labels(maps[code]) for code in np.unique(parts[firsts][:, 4]).tolist()}
    shapes: list[Shape | None] = []
    for instance_type, zone, kind, resources, labels, allocatable in parts[firsts].tolist():
        names = strings[instance_type], strings[zone], tagged[labels]
        shapes.append(_shape(names, kind, vectors[resources], vectors[allocatable]))
    return Coded(codes, shapes)


def _shape(
    names: tuple[str | None, str | None, Labels | None],
    kind: int,
    resources: Resources | None,
    allocatable: Resources | None,
) -> Shape | None:
    instance_type, zone, labels = names
    if instance_type is None or zone is None or labels is None:
        return None
    if resources is None or allocatable is None:
        return None
    capacity_type = _CAPACITY_TYPES.get(kind, CapacityType.UNSPECIFIED)
    profile = Profile(instance_type, zone, capacity_type, resources, labels)
    return Shape(profile, allocatable)


def _labels(entries: Entries | None) -> Labels | None:
    return None if entries is None else labels_of(dict(entries))


def _vector(entries: Entries | None) -> Resources | None:
    if entries is None:
        return None
    try:
        return Resources(dict(entries))
    except Rejected:
        return None


def _echoes(attribution: Codes, metadata: Codes, maps: Sequence[Entries | None]) -> Coded[Echo]:
    """What each machine echoes: what Create was given, under what Configure was given."""
    pairs = (attribution.astype(np.uint64) << np.uint64(32)) | metadata
    used, codes = np.unique(pairs, return_inverse=True)
    echoes: list[Echo | None] = []
    for pair in used.tolist():
        below, above = maps[pair >> 32], maps[pair & 0xFFFFFFFF]
        readable = below is not None and above is not None
        echoes.append(echo_of({**dict(below), **dict(above)}) if readable else None)
    return Coded(codes.astype(np.uint32), echoes)
