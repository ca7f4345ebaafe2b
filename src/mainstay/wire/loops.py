"""Which form of the loops of this package runs: compiled once they are warm, plain before."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final

import numpy as np

from mainstay.wire import interning, scan

Loop = Callable[..., int]


@dataclass(frozen=True, slots=True)
class Loops:
    """The loops, all compiled or none."""

    walk: Loop = scan.walk
    fields: Loop = scan.fields
    gather: Loop = interning.gather
    intern: Loop = interning.intern
    arrange: Loop = interning.arrange


_HELPERS: Final = (
    "_kind", "_varint", "field", "_mix", "_tail", "hashed", "equal", "_is_id", "_added_up",
    "_machine", "_listed", "_host", "_value",
)  # fmt: skip
_WORDS: Final = ("_START", "_MULTIPLIER", "_MASK", "LOW_BITS", "_ONE", "_NONE", "_BYTE")
_PLAIN_LOOPS: Final = Loops()
_loops = _PLAIN_LOOPS
_ready: Loops | None = None


def warm() -> bool:
    """Load the compiled loops from the cache, or compile them into it; whether there are any."""
    global _loops, _ready  # noqa: PLW0603 - chosen once per process, never changes an answer
    if _ready is None:
        try:
            import numba  # noqa: PLC0415 - slow to import, and may be missing
        except ImportError:
            return False
        if sys.byteorder == "big":
            return False
        _ready = _compiled(numba)
    _loops = _ready
    return True


def cool() -> None:
    """Go back to the plain form."""
    global _loops  # noqa: PLW0603
    _loops = _PLAIN_LOOPS


def loops() -> Loops:
    """The loops to use: compiled, once they are warm."""
    return _loops


def _compiled(numba: Any) -> Loops:
    """The same functions over machine words: only the constants and the helpers are others."""
    words = {name: np.uint64(getattr(scan, name)) for name in _WORDS}
    scope = {**vars(scan), **vars(interning), **words, "as_word": np.uint64, "as_place": np.int64}
    for name in _HELPERS:
        scope[name] = numba.njit(_rebound(getattr(scan, name), scope))
    compiled = {
        name: numba.njit(signature, cache=True, nogil=True)(
            _rebound(getattr(_PLAIN_LOOPS, name), scope)
        )
        for name, signature in _signatures(numba.types).items()
    }
    return Loops(**compiled)


def _rebound(function: Any, scope: dict[str, Any]) -> FunctionType:
    return FunctionType(function.__code__, scope, function.__name__)


def _signatures(types: Any) -> dict[str, Any]:
    i64, array = types.int64, types.Array
    data = array(types.uint8, 1, "C", readonly=True)
    words = array(types.uint64, 1, "A", readonly=True, aligned=False)
    places = types.uint32[:, :]
    return {
        "walk": i64(data, words, i64[::1], i64[:, ::1], types.uint64[::1], i64[:, ::1]),
        "fields": i64(data, words, i64[:, ::1], types.uint64[:, ::1], types.uint32[:, ::1]),
        "gather": i64(data, i64[:, :], types.uint8[::1]),
        "intern": i64(words, places, types.uint64[::1], i64[::1], types.uint32[::1]),
        "arrange": i64(types.uint64[::1], i64[::1], i64[::1], i64[:, ::1]),
    }
