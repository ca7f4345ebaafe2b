"""Loops over protobuf's wire format, written so that numba can compile them.

Called by mainstay.wire.listing. Every loop takes bytes that nobody has vouched for: it reads only
between the bounds it is given and ends after a number of steps that their length bounds. Which
form runs is chosen in mainstay.wire.loops; plain, they run as they stand here.

A loop sees bytes twice: as `data`, one by one, and as `words`, the eight bytes from each place on.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mainstay.model.ids import ID_LENGTH_MAX
from mainstay.model.texts import U8, U64

I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types; groups, which proto3 does not have, are malformed to us."""

IGNORED, PLAIN, ENTRY, ENTRIES = 0, 1, 2, 3
"""What a field of a machine is: unknown, a value, an entry of a map, a message that is a map."""

ID, STATE, HOST, INSTANCE_TYPE, ZONE = 10, 16, 26, 34, 42
CAPACITY_TYPE, PRICE, PROBABILITY, RESOURCES, LABELS = 48, 57, 65, 74, 82
LAST_ERROR, ALLOCATABLE, CLUSTER, METADATA = 98, 106, 114, 122
NOTICE, ATTRIBUTION = 8002, 8010
OURS: Final = 8000
"""The tags of a machine's fields: number * 8 + wire type. Ours are numbered from 1000 up."""

MACHINE, REVISION = 10, 18
DELETED_ID, MORE, INCREMENTAL, CAPABILITIES = 8002, 8008, 8016, 8026
"""The tags of a list's fields."""

MAP_ENTRY: Final = 10
FIRST_TEXT, SECOND_TEXT = 10, 18
"""Tags inside `Resources`, and inside `HostRef` and the entry of a map."""

START, END, ENTRY_COUNT, HEALTH, ID_AT, ID_LENGTH = 0, 1, 2, 3, 4, 5
FOUND_COLUMNS: Final = 6
NO_ID, TORN, NOTICED = 1, 2, 4
"""Bits of HEALTH: its id is none; a message inside of it is cut off or no message; its host will be
taken back, which spoils nothing."""

AT_STATE, AT_CAPACITY_TYPE, AT_PRICE, AT_PROBABILITY, AT_HAS_HOST, AT_TORN = 0, 1, 2, 3, 4, 5
AT_INSTANCE_TYPE, AT_ZONE, AT_CLUSTER, AT_LAST_ERROR, AT_PROVIDER, AT_REF = 6, 8, 10, 12, 14, 16
FIELD_COLUMNS: Final = 18
"""Where `fields` puts what it finds; a text is a place and, in the next column, a length."""

NUMBER_MAX: Final = 255
"""Numbers of states and capacity types above this, and negative ones, are this: none of ours."""

_START: Final = 0x9E3779B97F4A7C15
_MULTIPLIER: Final = 0xD6E8FEB86659FD93
_MASK: Final = 2**64 - 1
LOW_BITS: Final = 2**32 - 1
_ONE: Final = 1
_NONE: Final = 0
_BYTE: Final = 0x7F

as_word: Callable[[Any], int] = int
as_place: Callable[[Any], int] = int


def _by_tag(values: dict[int, int]) -> U8:
    table = np.zeros(128, dtype=np.uint8)
    table[list(values)] = list(values.values())
    return table


_COLUMNS: Final = _by_tag({
    STATE: AT_STATE, CAPACITY_TYPE: AT_CAPACITY_TYPE, PRICE: AT_PRICE,
    PROBABILITY: AT_PROBABILITY, INSTANCE_TYPE: AT_INSTANCE_TYPE, ZONE: AT_ZONE,
    CLUSTER: AT_CLUSTER, LAST_ERROR: AT_LAST_ERROR,
})  # fmt: skip
_KINDS: Final = _by_tag({
    **dict.fromkeys((ID, STATE, HOST, INSTANCE_TYPE, ZONE, CAPACITY_TYPE, PRICE), PLAIN),
    **dict.fromkeys((PROBABILITY, LAST_ERROR, CLUSTER), PLAIN),
    LABELS: ENTRY, METADATA: ENTRY, RESOURCES: ENTRIES, ALLOCATABLE: ENTRIES,
})  # fmt: skip


def _kind(tag: int) -> int:
    """What the field is; a known number of another wire type is unknown, as protobuf has it."""
    if tag < 128:
        return as_place(_KINDS[tag])
    if tag == ATTRIBUTION:
        return ENTRY
    return PLAIN if tag >= OURS else IGNORED


def _varint(data: U8, at: int, end: int) -> tuple[int, int]:
    """The number at `at`, and where it ends: -1 when it is cut off or does not fit 64 bits."""
    value = _NONE
    shift = 0
    while at < end:
        byte = as_word(data[at])
        at += 1
        if shift == 63 and byte > _ONE:
            return value, -1
        value |= (byte & _BYTE) << as_word(shift)
        if byte <= _BYTE:
            return value, at
        shift += 7
        if shift > 63:
            return value, -1
    return value, -1


def field(data: U8, at: int, end: int) -> tuple[int, int, int, int]:
    """Tag, number, start and stop of the field at `at`; stop is -1 when there is no whole field.

    The number is that of a varint. What the field says is the bytes from start to stop.
    """
    tag, start = _varint(data, at, end)
    if start < 0 or tag > LOW_BITS or tag < as_word(8):
        return 0, tag, at, -1
    kind = as_place(tag & as_word(7))
    stop = -1
    number = _NONE
    if kind == VARINT:
        number, stop = _varint(data, start, end)
    elif kind == BYTES:
        number, first = _varint(data, start, end)
        if first >= 0 and number <= as_word(end - first):
            start, stop = first, first + as_place(number)
    elif kind == FIXED64:
        stop = start + 8
    elif kind == FIXED32:
        stop = start + 4
    if stop > end:
        stop = -1
    return as_place(tag), number, start, stop


def _mix(value: int) -> int:
    """Spread every bit over the whole word, as mainstay.model.texts does."""
    value = ((value ^ (value >> as_word(32))) * _MULTIPLIER) & _MASK
    value = ((value ^ (value >> as_word(29))) * _MULTIPLIER) & _MASK
    return value ^ (value >> as_word(32))


def _tail(words: U64, at: int, rest: int) -> int:
    """The last `rest` bytes, 1 to 8, of something that begins at `at`: never reads behind them."""
    cut = as_word(8 * (8 - rest))
    if at + rest >= 8:
        return as_word(words[at + rest - 8]) >> cut
    return (as_word(words[0]) >> as_word(8 * at)) & (_MASK >> cut)


def hashed(words: U64, at: int, length: int) -> int:
    """A hash of these bytes; two lanes, so that a processor can work on both at once."""
    value, other = as_word(length) ^ _START, _MULTIPLIER
    end = at + length
    while end - at >= 16:
        value = _mix(value ^ as_word(words[at]))
        other = _mix(other ^ as_word(words[at + 8]))
        at += 16
    if end - at >= 8:
        value = _mix(value ^ as_word(words[at]))
        at += 8
    if at < end:
        other = _mix(other ^ _tail(words, at, end - at))
    return _mix(value ^ _mix(other))


def equal(words: U64, one: int, other: int, length: int) -> bool:
    """Whether the same bytes are at both places."""
    end = one + length
    while end - one >= 8:
        if words[one] != words[other]:
            return False
        one += 8
        other += 8
    if one == end:
        return True
    return _tail(words, one, end - one) == _tail(words, other, end - one)


def _is_id(data: U8, at: int, length: int) -> bool:
    """The same answer as mainstay.model.ids.is_id gives for these bytes."""
    if length < 1 or length > ID_LENGTH_MAX:
        return False
    for place in range(at, at + length):  # noqa: SIM110 - compiled as it stands
        if data[place] <= 0x20 or data[place] >= 0x7F:
            return False
    return True


def walk(  # noqa: PLR0917 - compiled: no keywords
    data: U8, words: U64, at: I64, found: I64, digest: U64, others: I64
) -> int:
    """Machines and other fields of a list from `at[0]` on; how many machines.

    Ends where the list does, or when `found` or `others` is full. Leaves in `at` the place behind
    the last field, the number of others, and 1 when what is at that place is no field.
    """
    count, rest, place = 0, 0, at[0]
    while place < len(data) and count < len(found) and rest < len(others):
        tag, number, start, stop = field(data, place, len(data))
        if stop >= 0 and tag == MACHINE:
            digest[count], broken = _machine(data, words, start, stop, found[count])
            if broken >= 0:
                place, stop = broken, -1
            count += 1
        elif tag == REVISION or tag >= OURS:
            others[rest, 0], others[rest, 1], others[rest, 2] = tag, start, stop
            others[rest, 3] = 1 if number != _NONE else 0
            rest += 1
        if stop < 0:
            at[2] = 1
            break
        place = stop
    at[0], at[1] = place, rest
    return count


def _machine(data: U8, words: U64, at: int, end: int, found: I64) -> tuple[int, int]:
    """The digest of a machine, and -1 or where it is torn; what else is known goes to `found`.

    What is unknown is left out. Entries of a map are added up, so that their order does not matter;
    everything else is taken in as it comes.
    """
    value, maps = _START, _NONE
    id_at, id_length, entries, health = 0, 0, 0, 0
    found[START], found[END] = at, end
    while at < end:
        tag, _, start, stop = field(data, at, end)
        if stop < 0:
            return value, at
        at = stop
        kind = _kind(tag)
        if kind == ENTRIES:
            added, count = _added_up(data, words, start, stop, tag)
            maps = (maps + added) & _MASK
            entries += abs(count)
            health |= TORN if count < 0 else 0
        elif kind == ENTRY:
            maps = (maps + _mix(hashed(words, start, stop - start) ^ as_word(tag))) & _MASK
            entries += 1
        elif kind == PLAIN:
            value = _mix(_mix(value ^ as_word(tag)) ^ hashed(words, start, stop - start))
        if tag == ID:
            id_at, id_length = start, stop - start
        elif tag == NOTICE:
            health |= NOTICED
    value = _mix(value ^ maps)
    found[ID_AT], found[ID_LENGTH], found[ENTRY_COUNT] = id_at, id_length, entries
    found[HEALTH] = health if _is_id(data, id_at, id_length) else health | NO_ID
    return value if value != _NONE else _ONE, -1


def _added_up(data: U8, words: U64, at: int, end: int, tag: int) -> tuple[int, int]:
    """The entries of a map in a message of its own: their sum, their number; negative when torn."""
    total, count = _NONE, 0
    while at < end:
        inner, _, start, stop = field(data, at, end)
        if stop < 0:
            whole = _mix(hashed(words, at, end - at) ^ as_word(tag))
            return (total + whole) & _MASK, -count - 1
        at = stop
        if inner == MAP_ENTRY:
            total = (total + _mix(hashed(words, start, stop - start) ^ as_word(tag))) & _MASK
            count += 1
    return total, count


def fields(data: U8, words: U64, spans: I64, out: U64, entries: U32) -> int:  # noqa: C901
    """What each machine says, by the columns above; the entries of its maps go to `entries`.

    `spans` has start, end and first entry of each; an entry is a row of place, length and tag.
    `walk` has walked the same bytes before, so that there is room for every entry. Returns the
    number of rows.
    """
    for row in range(len(spans)):
        at, end, entry = spans[row, 0], spans[row, 1], spans[row, 2]
        while at < end:
            tag, number, start, stop = field(data, at, end)
            if stop < 0:
                break
            at = stop
            kind = _kind(tag)
            if kind == ENTRY:
                entries[entry, 0], entries[entry, 1], entries[entry, 2] = start, stop - start, tag
                entry += 1
            elif kind == ENTRIES:
                entry = _listed(data, start, stop, tag, entry, entries)
            elif tag == HOST:
                out[row, AT_HAS_HOST] = 1
                if not _host(data, start, stop, out[row]):
                    out[row, AT_TORN] = 1
            elif kind == PLAIN and tag < 128 and tag != ID:
                _value(words, out[row], tag, number, start, stop)
    return len(spans)


def _listed(  # noqa: PLR0917 - compiled: no keywords
    data: U8, at: int, end: int, tag: int, entry: int, entries: U32
) -> int:
    """Note the entries of a map in a message of its own; where the next entry goes."""
    while at < end:
        inner, _, start, stop = field(data, at, end)
        if stop < 0:
            break
        at = stop
        if inner == MAP_ENTRY:
            entries[entry, 0], entries[entry, 1], entries[entry, 2] = start, stop - start, tag
            entry += 1
    return entry


def _host(data: U8, at: int, end: int, out: U64) -> bool:
    """Note the two texts of a host; whether it is whole."""
    while at < end:
        inner, _, start, stop = field(data, at, end)
        if stop < 0:
            return False
        at = stop
        if inner == FIRST_TEXT:
            out[AT_PROVIDER], out[AT_PROVIDER + 1] = start, stop - start
        elif inner == SECOND_TEXT:
            out[AT_REF], out[AT_REF + 1] = start, stop - start
    return True


def _value(  # noqa: PLR0917 - compiled: no keywords
    words: U64, out: U64, tag: int, number: int, start: int, stop: int
) -> None:
    """Note a plain value: of two, the later counts."""
    column = _COLUMNS[tag]
    if tag in (PRICE, PROBABILITY):
        out[column] = words[start]
    elif tag in (STATE, CAPACITY_TYPE):
        out[column] = min(number & LOW_BITS, as_word(NUMBER_MAX))
    else:
        out[column], out[column + 1] = start, stop - start
