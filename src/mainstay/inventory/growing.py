"""Arrays that grow: by doubling while small, by a quarter when large, so that little lies idle."""

from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

ScalarT = TypeVar("ScalarT", bound=np.generic)

_SMALL: Final = 4096


def grown_capacity(capacity: int, needed: int) -> int:
    """The next capacity that holds `needed`."""
    if needed <= capacity:
        return capacity
    step = capacity * 2 if capacity < _SMALL else capacity + capacity // 4
    return max(needed, step, 16)


def resized(array: NDArray[ScalarT], capacity: int, fill: Any = 0) -> NDArray[ScalarT]:
    """A copy with room for `capacity` rows, the new ones holding `fill`."""
    bigger = np.full((capacity, *array.shape[1:]), fill, dtype=array.dtype)
    bigger[: len(array)] = array
    return bigger


def frozen(array: NDArray[ScalarT]) -> NDArray[ScalarT]:
    """A copy nobody can write to."""
    copied = array.copy()
    copied.flags.writeable = False
    return copied
