"""The inner loops, compiled by numba where that is at hand: same result, less time.

Until `warm` has been called, and wherever numba is missing, the phases use their numpy form. Tests
hold both to the same answers.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Claim = Callable[..., int]
"""`claim_in_order`, compiled or not."""

_SIGNATURE: Final = (
    "int64(int64[::1], uint32[::1], int64[::1], bool_[::1], int64[:, ::1], int32[::1],"
    " int64[::1], int64[::1], int64)"
)


def claim_in_order(
    rows: NDArray[np.int64],
    shapes: NDArray[np.uint32],
    first_free: NDArray[np.int64],
    fits: NDArray[np.bool_],
    adds: NDArray[np.int64],
    owner: NDArray[np.int32],
    missing: NDArray[np.int64],
    claimed: NDArray[np.int64],
    place: int,
) -> int:
    """Claim machines in order until nothing is missing; returns how many, listed in `claimed`.

    `rows[i]` has shape class `shapes[i]`; before `first_free[0]` all are claimed, and that is kept
    true. Skips what is claimed, does not fit or adds nothing wanted. Writes `owner`, `missing`.
    """
    count = 0
    at = first_free[0]
    while at < len(rows) and owner[rows[at]] >= 0:
        at += 1
    first_free[0] = at
    while at < len(rows):
        row, shape = rows[at], shapes[at]
        at += 1
        if owner[row] >= 0 or not fits[shape]:
            continue
        helps = False
        for dimension in range(len(missing)):
            if missing[dimension] > 0 and adds[shape, dimension] > 0:
                helps = True
                break
        if not helps:
            continue
        owner[row] = place
        claimed[count] = row
        count += 1
        short = False
        for dimension in range(len(missing)):
            missing[dimension] = max(0, missing[dimension] - adds[shape, dimension])
            if missing[dimension] > 0:
                short = True
        if not short:
            break
    return count


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
