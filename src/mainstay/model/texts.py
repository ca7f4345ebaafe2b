"""Many short strings as two number columns and one byte arena, hashed and compared in bulk.

A Python string costs about sixty bytes and a reference; here it costs its own bytes and six more,
and half a million of them are hashed or compared without making a single Python object.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mainstay.model.errors import Rejected

PAD: Final = 8
"""Zero bytes kept behind the last text, so that whole words can be read anywhere."""

ARENA_BYTES_MAX: Final = 2**32 - 1

_WORD: Final = 8
_MASK: Final = 2**64 - 1
_START: Final = 0x9E3779B97F4A7C15
_MULTIPLIER: Final = 0xD6E8FEB86659FD93

_TO_SMALL: Final = np.uint8(ord("a") - ord("A"))
_IS_CAPITAL: Final = np.isin(np.arange(256), np.arange(ord("A"), ord("Z") + 1))

U8 = NDArray[np.uint8]
Lengths = NDArray[np.unsignedinteger[Any]]
U64 = NDArray[np.uint64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Texts:
    """Text i is `arena[offset[i] : offset[i] + length[i]]`, in UTF-8."""

    arena: U8
    offset: NDArray[np.uint32]
    length: Lengths

    def __len__(self) -> int:
        return len(self.offset)

    def __getitem__(self, position: int) -> str:
        start = int(self.offset[position])
        return (
            self.arena[start : start + int(self.length[position])]
            .tobytes()
            .decode(errors="surrogatepass")
        )

    def __iter__(self) -> Iterator[str]:
        buffer = self.arena.tobytes()
        for start, length in zip(self.offset.tolist(), self.length.tolist(), strict=True):
            yield buffer[start : start + length].decode(errors="surrogatepass")

    def take(self, positions: Rows) -> "Texts":
        """Some of them; the arena is shared."""
        return Texts(self.arena, self.offset[positions], self.length[positions])

    def words(self, word: int) -> U64:
        """The `word`-th eight bytes of every text, little-endian, zero behind its end."""
        overlapping = np.ndarray(
            shape=(len(self.arena) - PAD + 1,), dtype="<u8", buffer=self.arena, strides=(1,)
        )
        rest = self.length.astype(np.int64) - word * _WORD
        here = rest > 0
        start = np.where(here, self.offset.astype(np.int64) + word * _WORD, len(overlapping) - 1)
        words: U64 = np.where(here, overlapping[start], np.uint64(0))
        cut = here & (rest < _WORD)
        words[cut] &= (np.uint64(1) << (rest[cut] * 8).astype(np.uint64)) - np.uint64(1)
        return words

    def word_count(self) -> int:
        """How many words the longest text has."""
        return -(-int(self.length.max(initial=0)) // _WORD)

    def hashes(self) -> U64:
        """One 64-bit hash per text, equal to `hash_of` of its bytes."""
        value = self.length.astype(np.uint64) ^ np.uint64(_START)
        for word in range(self.word_count()):
            mixed = mix(value ^ self.words(word))
            value = np.where(self.length > word * _WORD, mixed, value)
        return mix(value)

    def equals(self, other: "Texts") -> NDArray[np.bool_]:
        """Where text i of both is the same."""
        same: NDArray[np.bool_] = self.length == other.length
        for word in range(self.word_count()):
            if not same.any():
                break
            same &= self.words(word) == other.words(word)
        return same

    def containing(self, part: str) -> NDArray[np.bool_]:
        """Where a text has this in it; of the letters a to z either case will do."""
        wanted = part.encode(errors="surrogatepass").lower()
        starts = len(self.arena) - len(wanted) + 1
        if not wanted or starts <= 0:
            return np.full(len(self), not wanted)
        arena = np.where(_IS_CAPITAL[self.arena], self.arena | _TO_SMALL, self.arena)
        here = np.ones(starts, dtype=np.bool_)
        for at, byte in enumerate(wanted):
            here &= arena[at : at + starts] == byte
        before = np.concatenate([[0], np.cumsum(here, dtype=np.int64)])
        first = self.offset.astype(np.int64)
        last = first + self.length.astype(np.int64) - len(wanted) + 1
        fits = last > first
        found: NDArray[np.bool_] = fits & (
            before[np.where(fits, last, 0)] > before[np.where(fits, first, 0)]
        )
        return found

    def order(self) -> Rows:
        """Positions in byte order of the texts."""
        keys = [self.words(word).byteswap() for word in range(self.word_count())]
        return np.lexsort(keys[::-1]) if keys else np.arange(len(self))


def texts_of(strings: Iterable[str]) -> Texts:
    """Columns of these strings."""
    encoded = [string.encode(errors="surrogatepass") for string in strings]
    length = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    ends = np.cumsum(length)
    if len(ends) and ends[-1] > ARENA_BYTES_MAX:
        raise Rejected("the texts of one column exceed 4 GiB: send them in several batches")
    arena = np.frombuffer(b"".join(encoded) + bytes(PAD), dtype=np.uint8)
    return Texts(arena, (ends - length).astype(np.uint32), length.astype(np.uint32))


def mix(value: U64) -> U64:
    """Spread every bit over the whole word."""
    value = (value ^ (value >> np.uint64(32))) * np.uint64(_MULTIPLIER)
    value = (value ^ (value >> np.uint64(29))) * np.uint64(_MULTIPLIER)
    return value ^ (value >> np.uint64(32))


def hash_of(text: bytes) -> int:
    """The hash of one text: the same number as `Texts.hashes` gives."""
    words = [*memoryview(text + bytes(-len(text) % _WORD)).cast("Q"), 0]
    if sys.byteorder == "big":
        words = [int.from_bytes(word.to_bytes(_WORD, "big"), "little") for word in words]
    value = len(text) ^ _START
    for word in words:
        value ^= word
        value = ((value ^ (value >> 32)) * _MULTIPLIER) & _MASK
        value = ((value ^ (value >> 29)) * _MULTIPLIER) & _MASK
        value ^= value >> 32
    return value


def ragged(arena: U8, offset: NDArray[np.uint32], length: Lengths) -> U8:
    """The bytes of these texts, one behind the other."""
    wide = length.astype(np.int64)
    ends = np.cumsum(wide)
    total = int(ends[-1]) if len(ends) else 0
    inside = np.arange(total) - np.repeat(ends - wide, wide)
    copied: U8 = arena[np.repeat(offset.astype(np.int64), wide) + inside]
    return copied
