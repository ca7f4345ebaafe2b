"""What waits to be said to one cluster: bounded, and the newer word takes the older one's place.

A frame with a key that waits already is put where the older one stood, so that what changes often
is not put off for ever. What is replayed goes out when nothing else waits, and of a machine that
was told of meanwhile nothing is replayed: that is older.
"""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import count

from mainstay.model.frames import BootstrapAsked, CapacityHint, NodeState, ShardFrame

Keyed = NodeState | CapacityHint


class Outbox:
    """One writer takes; anybody puts, and never waits."""

    def __init__(self, *, frames_max: int, replay: Iterable[Keyed] = ()) -> None:
        self._frames_max = frames_max
        self._frames: dict[str, ShardFrame] = {}
        self._numbers = count()
        self._filled = asyncio.Event()
        self._replay: Iterator[Keyed] | None = None
        self._told: set[str] = set()
        self.replay(replay)

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, frame: ShardFrame) -> bool:
        """Have it said; false when too much waits: then it is not taken."""
        key = self._key(frame)
        if key not in self._frames and len(self._frames) >= self._frames_max:
            return False
        self._frames[key] = frame
        if self._replay is not None:
            self._told.add(key)
        self._filled.set()
        return True

    def replay(self, frames: Iterable[Keyed]) -> None:
        """Have all this said when nothing else waits, in the place of what was being replayed."""
        self._replay = iter(frames)
        self._told = set(self._frames)
        self._filled.set()

    def withdraw(self, frame: BootstrapAsked) -> None:
        """Nobody waits for the answer any more."""
        self._frames.pop(self._key(frame), None)

    async def take(self) -> ShardFrame:
        """What to say next; waits until there is something."""
        while True:
            if self._frames:
                return self._frames.pop(next(iter(self._frames)))
            if (frame := self._replayed()) is not None:
                return frame
            self._filled.clear()
            await self._filled.wait()

    def _replayed(self) -> Keyed | None:
        for frame in self._replay or ():
            if frame.key not in self._told:
                return frame
        self._replay = None
        self._told.clear()
        return None

    def _key(self, frame: ShardFrame) -> str:
        match frame:
            case NodeState() | CapacityHint():
                return frame.key
            case BootstrapAsked():
                return f"ask:{frame.request}"
            case _:
                return f"once:{next(self._numbers)}"
