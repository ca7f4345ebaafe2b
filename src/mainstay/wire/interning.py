"""Loops that give equal bytes equal codes; like those of mainstay.wire.scan, for numba to compile.

numba's cache follows this file only: touch it when `hashed` or `equal` change.
"""

from typing import Final

from mainstay.model.texts import U8, U64
from mainstay.wire.scan import I64, LOW_BITS, U32, as_place, as_word, equal, hashed

SORTED_MAX: Final = 64
"""Up to so many entries a machine's are sorted by insertion: more come sorted."""

TABLE_FULL, TOO_ALIKE = -1, -2
PROBES_MAX: Final = 1000
"""More values than this on one heap in a table that is half empty: somebody made them so."""


def gather(data: U8, places: I64, out: U8) -> int:
    """The bytes at these places, one behind the other; how many they are."""
    end = 0
    for row in range(len(places)):
        at = as_place(places[row, 0])
        for byte in range(at, at + as_place(places[row, 1])):
            out[end] = data[byte]
            end += 1
    return end


def intern(words: U64, places: U32, slots: U64, firsts: I64, codes: U32) -> int:
    """Codes for the texts at these places, the same for the same bytes; how many there are.

    `firsts` gets the first row of each code. A hash only finds candidates: bytes are compared.
    TABLE_FULL asks for more slots, which are a power of two; TOO_ALIKE means that values were made
    to have one hash.
    """
    count, mask = 0, len(slots) - 1
    for row in range(len(places)):
        at, length = as_place(places[row, 0]), as_place(places[row, 1])
        value = hashed(words, at, length)
        slot = as_place(value & as_word(mask))
        mark = value ^ (value & LOW_BITS)
        probes = 0
        while slots[slot] != 0:
            held = as_word(slots[slot])
            if held ^ (held & LOW_BITS) == mark:
                code = as_place(held & LOW_BITS) - 1
                other = as_place(firsts[code])
                same = as_place(places[other, 1]) == length
                if same and equal(words, as_place(places[other, 0]), at, length):
                    codes[row] = code
                    break
            slot = (slot + 1) & mask
            probes += 1
            if probes > PROBES_MAX:
                return TOO_ALIKE
        if slots[slot] == 0:
            if count == len(firsts):
                return TABLE_FULL
            firsts[count] = row
            codes[row] = count
            count += 1
            slots[slot] = mark | as_word(count)
    return count


def arrange(keys: U64, bounds: I64, tags: I64, cuts: I64) -> int:
    """Put the entries of each machine in order of tag and code; note where each of `tags` begins.

    A key is tag * 2**32 + code. Machines with more than SORTED_MAX entries come in order already.
    Returns the number of rows.
    """
    for row in range(len(bounds) - 1):
        first, end = bounds[row], bounds[row + 1]
        if end - first <= SORTED_MAX:
            for place in range(first + 1, end):
                key = keys[place]
                before = place
                while before > first and keys[before - 1] > key:
                    keys[before] = keys[before - 1]
                    before -= 1
                keys[before] = key
        place = first
        for tag in range(len(tags)):
            while place < end and as_place(as_word(keys[place]) >> as_word(32)) < tags[tag]:
                place += 1
            cuts[row, tag] = place
    return len(bounds) - 1
