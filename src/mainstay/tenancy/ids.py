"""Ids of ours: a prefix that says what it is, a time so that they sort, and randomness."""

from collections.abc import Callable
from random import Random
from typing import Final

from mainstay.runtime.clock import Clock

Ids = Callable[[str], str]
"""A new id for a prefix such as `alc`."""

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's 32, without what looks alike."""


def ids_from(clock: Clock, random: Random) -> Ids:
    """Ids from this clock and this randomness: `alc_` with 10 characters of time and 16 others."""

    def new(prefix: str) -> str:
        millis = int(clock.now_s() * 1000)
        return f"{prefix}_{_digits(millis, 10)}{_digits(random.getrandbits(80), 16)}"

    return new


def _digits(number: int, count: int) -> str:
    found = []
    for _ in range(count):
        number, digit = divmod(number, 32)
        found.append(ALPHABET[digit])
    return "".join(reversed(found))
