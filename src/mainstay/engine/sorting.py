"""Sorting machines by several keys: packed into one word where they fit."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine import kernels
from mainstay.model.texts import Rows

Words = NDArray[np.uint64]

_FEW: Final = 4096
"""So many are sorted faster by numpy."""

_DISTINCT_MAX: Final = 1 << 16


def sorted_by(*keys: NDArray[np.generic]) -> Rows:
    """Positions in order of the first key, then the next; what is equal stays as it was."""
    bits, packed = 0, np.zeros(len(keys[0]), dtype=np.uint64)
    for key in keys:
        place = _places(key)
        width = int(place.max(initial=0)).bit_length()
        bits += width
        if bits > 64:
            return np.lexsort(keys[::-1])
        packed = (packed << np.uint64(width)) | place
    loops = kernels.loops()
    if loops is None or len(packed) < _FEW:
        return np.argsort(packed, kind="stable")
    order: Rows = loops.radix(packed, bits)
    return order


def _places(key: NDArray[np.generic]) -> Words:
    """Numbers in the same order as the key: itself if it is a small whole number, else ranks."""
    if np.issubdtype(key.dtype, np.integer) and int(key.min(initial=0)) >= 0:
        return key.astype(np.uint64)
    loops = kernels.loops()
    if loops is not None and key.dtype == np.float64 and len(key) >= _FEW:
        codes, distinct = loops.codes_of(key, _DISTINCT_MAX)
        if len(distinct):
            return np.asarray(codes).astype(np.uint64)
    ranks: Words = np.unique(key, return_inverse=True)[1].astype(np.uint64)
    return ranks


def counted(first: NDArray[np.int64], second: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """The distinct pairs of two columns, and how often each is there."""
    rights = np.unique(second)
    least = first.min(initial=0)
    packed = (first - least) * len(rights) + np.searchsorted(rights, second)
    codes, counts = np.unique(packed, return_counts=True)  # not by code: there may be 10^10 of them
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        left, right = divmod(code, len(rights))
        yield left + int(least), int(rights[right]), count
