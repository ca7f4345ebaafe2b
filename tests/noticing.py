"""A journal that only remembers."""

from collections.abc import Iterable
from typing import NamedTuple

from mainstay.shard.events import Event
from mainstay.shard.orders import Disposed


class Noticed(NamedTuple):
    """One thing that was told."""

    event: Event
    reason: str
    facts: dict[str, object]


class NoticingJournal:
    """What was told, in order."""

    def __init__(self) -> None:
        self.events: list[Noticed] = []
        self.records: list[Disposed] = []

    def disposed(self, records: Iterable[Disposed]) -> None:
        """Remember them."""
        self.records += records

    def noticed(self, event: Event, *, reason: str = "", **facts: object) -> None:
        """Remember it."""
        self.events.append(Noticed(event, str(reason), facts))

    def of(self, event: Event) -> list[Noticed]:
        """What was told of one kind."""
        return [each for each in self.events if each.event is event]
