"""What `mainstay up` tells while it starts: lines for people, and how far each process is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Progress(StrEnum):
    """How far a process is."""

    WAITING = "waiting"
    """For what it stands on."""

    STARTING = "starting"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Standing:
    """One process, while all are started."""

    name: str
    progress: Progress
    seconds: float = 0.0
    """Since it was started; once it is ready, how long that took."""


class Voice(Protocol):
    """Whoever tells it."""

    def say(self, line: str) -> None:
        """A line for people, at once."""

    def show(self, standings: Sequence[Standing]) -> None:
        """All processes as they are now; called again and again."""


@dataclass(slots=True)
class Lines:
    """A line when a process is ready, as a log or a pipe wants it."""

    write: Callable[[str], None]
    told: set[str] = field(default_factory=set)

    def say(self, line: str) -> None:
        """As it is."""
        self.write(line)

    def show(self, standings: Sequence[Standing]) -> None:
        """Only what is new."""
        for each in standings:
            if each.progress is Progress.READY and each.name not in self.told:
                self.told.add(each.name)
                self.write(f"  {each.name:12} ready after {each.seconds:4.1f} s")
