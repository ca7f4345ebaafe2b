"""Protobuf bytes by hand: what a test writes itself, also where no honest writer would."""

import random
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)

MAPS: Final = (10, 15, 1001)
"""Fields of a machine that are entries of a map."""

MAP_MESSAGES: Final = (9, 13)
"""Fields of a machine that are messages with a map in field 1."""


class Field(NamedTuple):
    """One field as it stands in a message."""

    number: int
    kind: int
    payload: bytes


def varint(number: int) -> bytes:
    low = []
    while number >= 0x80:
        low.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*low, number])


def field(number: int, payload: bytes | str | int, kind: int = BYTES) -> bytes:
    """A field; a number is written as a varint, a text in UTF-8."""
    if isinstance(payload, int):
        return varint(number << 3 | VARINT) + varint(payload % 2**64)
    raw = payload.encode() if isinstance(payload, str) else payload
    length = varint(len(raw)) if kind == BYTES else b""
    return varint(number << 3 | kind) + length + raw


def entry(key: str | bytes, value: str | bytes) -> bytes:
    return field(1, key) + field(2, value)


def a_map(number: int, entries: Mapping[str, str]) -> bytes:
    return b"".join(field(number, entry(key, value)) for key, value in entries.items())


def a_list(*machines: bytes) -> bytes:
    return b"".join(field(1, machine) for machine in machines)


def read(message: bytes) -> Iterator[Field]:
    """The fields of a message that some honest writer has written."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        start = at
        if tag & 7 == BYTES:
            length, start = _varint(message, at)
            at = start + length
        elif tag & 7 == VARINT:
            _, at = _varint(message, at)
        else:
            at += {FIXED64: 8, FIXED32: 4}[tag & 7]
        yield Field(tag >> 3, tag & 7, message[start:at])


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while message[at] >= 0x80:
        number |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return number | message[at] << shift, at + 1


def written(fields: list[Field]) -> bytes:
    return b"".join(
        varint(number << 3 | kind) + payload if kind == VARINT else field(number, payload, kind)
        for number, kind, payload in fields
    )


def shuffled(machine: bytes, rng: random.Random) -> bytes:
    """The machine with the entries of its maps anywhere; all else stays in its order."""
    fields = [_inner_shuffled(each, rng) for each in read(machine)]
    loose = [each for each in fields if each.number in MAPS]
    rest = [each for each in fields if each.number not in MAPS]
    for each in loose:
        rest.insert(rng.randint(0, len(rest)), each)
    return written(rest)


def _inner_shuffled(whole: Field, rng: random.Random) -> Field:
    if whole.number not in MAP_MESSAGES:
        return whole
    entries = list(read(whole.payload))
    rng.shuffle(entries)
    return whole._replace(payload=written(entries))
