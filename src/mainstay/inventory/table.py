"""Distinct values by code, with how many rows use each. Code 0 is `nothing`.

A code nobody uses keeps its value until more codes are dead than alive; then it may be given to
another value, and `recycled` says so to those who remember codes. That is arranged by `collect`,
between writes: within a write, a code that was just handed out is not in use yet.
"""

import sys
from collections.abc import Hashable
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.growing import grown_capacity, resized

ValueT = TypeVar("ValueT", bound=Hashable)

_DEAD_MIN: Final = 64


class Table(Generic[ValueT]):
    """Dictionary encoding for one column."""

    def __init__(self, nothing: ValueT) -> None:
        self._values: list[ValueT] = [nothing]
        self._codes: dict[ValueT, int] = {nothing: 0}
        self._users: NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        self._live = 0
        self._reusable: dict[int, None] = {}
        self.version = 0
        """Grows whenever a code gets a value."""
        self.recycled = 0
        """Grows whenever a code gets another value than it had."""

    def __len__(self) -> int:
        return len(self._values)

    def code(self, value: ValueT) -> int:
        """The code of `value`, a new one if it has none."""
        code = self._codes.get(value)
        if code is None:
            return self._put(value)
        if self._reusable:
            self._reusable.pop(code, None)
        return code

    def collect(self) -> None:
        """Let dead codes be used again, if they are many. Call it when no write is under way."""
        dead = len(self._values) - 1 - self._live
        if dead < _DEAD_MIN or dead <= self._live:
            self._reusable.clear()
        elif not self._reusable:
            unused = np.flatnonzero(self.users() == 0).tolist()
            self._reusable = dict.fromkeys(code for code in unused[::-1] if code)

    def value(self, code: int) -> ValueT:
        """The value of `code`."""
        return self._values[code]

    def values(self) -> tuple[ValueT, ...]:
        """All values by code."""
        return tuple(self._values)

    def users(self) -> NDArray[np.int64]:
        """How many rows use each code."""
        return self._users[: len(self._values)]

    def move(self, old: int, new: int) -> None:
        """One row goes from one code to another."""
        if old:
            self._users[old] -= 1
            self._live -= not self._users[old]
        if new:
            self._live += not self._users[new]
            self._users[new] += 1

    def move_many(self, old: NDArray[Any], new: NDArray[Any]) -> None:
        """Many rows at once."""
        size = len(self._values)
        users = self._users[:size]
        users += np.bincount(new, minlength=size) - np.bincount(old, minlength=size)
        users[0] = 0
        self._live = int(np.count_nonzero(users))

    def nbytes(self) -> int:
        """Bytes of the table itself; values are counted by `value_bytes`."""
        return int(self._users.nbytes) + sys.getsizeof(self._values) + sys.getsizeof(self._codes)

    def _put(self, value: ValueT) -> int:
        if self._reusable:
            code, _ = self._reusable.popitem()
            del self._codes[self._values[code]]
            self._values[code] = value
            self.recycled += 1
        else:
            code = len(self._values)
            self._values.append(value)
            if code >= len(self._users):
                self._users = resized(self._users, grown_capacity(len(self._users), code + 1))
        self._codes[value] = code
        self.version += 1
        self._filled(code, value)
        return code

    def _filled(self, code: int, value: ValueT) -> None:
        """Called when a code gets a value: for columns that a subclass derives from values."""
