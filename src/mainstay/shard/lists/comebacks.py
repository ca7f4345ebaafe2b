"""When a machine that we gave up, and that its provider reports alive, may come back.

The first time at once. One that is given up again and again comes back ever later: otherwise the
next decision would take the same machine again, and fail the same way, for ever.
"""

from typing import Final

from mainstay.model.ids import MachineId

FIRST_S: Final = 60.0
MOST_S: Final = 900.0
FORGET_S: Final = 3600.0
"""Whoever has not come back for so long starts anew."""


class Comebacks:
    """Remembers who came back, and how often; the longest ago first."""

    def __init__(self) -> None:
        self._last: dict[MachineId, tuple[float, int]] = {}

    def allow(self, machine: MachineId, now_s: float) -> bool:
        """Whether it may come back now; if so, it has."""
        self._forget(now_s)
        last_s, times = self._last.get(machine, (0.0, 0))
        if times and now_s - last_s < min(FIRST_S * 2.0 ** (times - 1), MOST_S):
            return False
        self._last.pop(machine, None)
        self._last[machine] = (now_s, times + 1)
        return True

    def _forget(self, now_s: float) -> None:
        while self._last:
            longest_ago = next(iter(self._last))
            if now_s - self._last[longest_ago][0] <= FORGET_S:
                return
            del self._last[longest_ago]
