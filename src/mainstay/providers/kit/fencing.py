"""Fences: a shard that was replaced is refused, whatever it still has in flight.

A high-water mark per shard and machine, because the calls of one healthy shard to several machines
overtake each other; and a floor per shard, so that an old life of a shard is refused on machines,
too, that the new one has not touched yet.
"""

from collections.abc import Iterator

from mainstay.model.calls import Fence
from mainstay.model.errors import Fenced
from mainstay.providers.kit.store import Sql, Stored, Write


class Fences:
    """The marks and floors of one provider."""

    def __init__(self, stored: Stored) -> None:
        self._marks = stored.marks
        self._floors = stored.floors

    def check(self, fence: Fence, machine: str) -> None:
        """Refuse a fence that is not newer than what was seen; nothing changes."""
        if not fence:
            return
        floor = self._floors.get(fence.shard)
        if floor is not None and fence.epoch < floor:
            why = f"{_shown(fence, machine)} (epoch {floor} of that shard was seen)"
            raise Fenced(why, epoch=floor)
        mark = self._marks.get((fence.shard, machine))
        if mark is not None and fence.position <= mark:
            seen = f"epoch {mark[0]} sequence {mark[1]}"
            why = f"{_shown(fence, machine)} (seen for this machine: {seen})"
            raise Fenced(why, epoch=floor)

    def advance(self, fence: Fence, machine: str) -> Iterator[Write]:
        """Remember a fence that passed, whatever becomes of its call."""
        if not fence:
            return
        self._marks[fence.shard, machine] = fence.position
        yield Sql.PUT_MARK, (fence.shard, machine, *fence.position)
        floor = self._floors.get(fence.shard)
        if floor is None or fence.epoch > floor:
            self._floors[fence.shard] = fence.epoch
            yield Sql.PUT_FLOOR, (fence.shard, fence.epoch)
            if floor is not None:
                yield from self._forget_below(fence)

    def _forget_below(self, fence: Fence) -> Iterator[Write]:
        """Marks below the floor refuse nothing that the floor lets through."""
        below = [
            key
            for key, (epoch, _) in self._marks.items()
            if key[0] == fence.shard and epoch < fence.epoch
        ]
        for key in below:
            del self._marks[key]
        yield Sql.DROP_MARKS_BELOW, (fence.shard, fence.epoch)


def _shown(fence: Fence, machine: str) -> str:
    token = f"shard {fence.shard} epoch {fence.epoch} sequence {fence.sequence}"
    return f"stale fence for machine {machine}: {token}"
