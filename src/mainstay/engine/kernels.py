"""The inner loops, compiled by numba where that is at hand: same result, less time.

Until `warm` has been called, and wherever numba is missing, the phases use their numpy form. Tests
hold both to the same answers.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Claim = Callable[
    [
        NDArray[np.int64],
        NDArray[np.uint32],
        NDArray[np.bool_],
        NDArray[np.int64],
        NDArray[np.int32],
        NDArray[np.int64],
        int,
    ],
    int,
]

_SIGNATURE: Final = (
    "int64(int64[::1], uint32[::1], bool_[::1], int64[:, ::1], int32[::1], int64[::1], int64)"
)


def claim_in_order(
    rows: NDArray[np.int64],
    shapes: NDArray[np.uint32],
    fits: NDArray[np.bool_],
    alloc: NDArray[np.int64],
    owner: NDArray[np.int32],
    missing: NDArray[np.int64],
    place: int,
) -> int:
    """Claim machines in order until nothing is missing; returns how many.

    `rows[i]` has shape class `shapes[i]`. Skips what is claimed, does not fit or adds nothing wanted.
    Writes `owner` and `missing`.
    """
    claimed = 0
    for at in range(len(rows)):
        row, shape = rows[at], shapes[at]
        if owner[row] >= 0 or not fits[shape]:
            continue
        adds = False
        for dimension in range(len(missing)):
            if missing[dimension] > 0 and alloc[shape, dimension] > 0:
                adds = True
                break
        if not adds:
            continue
        owner[row] = place
        claimed += 1
        short = False
        for dimension in range(len(missing)):
            missing[dimension] = max(0, missing[dimension] - alloc[shape, dimension])
            if missing[dimension] > 0:
                short = True
        if not short:
            break
    return claimed


_compiled: Claim | None = None


def warm() -> bool:
    """Load the compiled loops from the cache, or compile them into it; whether there are any."""
    global _compiled  # noqa: PLW0603 - chosen once per process, never changes an answer
    if _compiled is None:
        try:
            import numba
        except ImportError:
            return False
        _compiled = numba.njit(_SIGNATURE, cache=True)(claim_in_order)
    return True


def cool() -> None:
    """Go back to the numpy form."""
    global _compiled  # noqa: PLW0603
    _compiled = None


def compiled() -> Claim | None:
    """The compiled loop, once it is warm."""
    return _compiled
