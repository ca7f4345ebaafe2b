"""What a look at the providers has found, as counts."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a look has found; counts of machines, but for `lists`."""

    lists: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    skipped: int = 0
    """In our own hands when they were reported, or since."""

    refused: int = 0
    foreign: int = 0
    removed: int = 0
    retired: int = 0
    held: int = 0
    """Missing, and not believed to be gone yet."""

    def __add__(self, other: "Looked") -> "Looked":
        return Looked(**{name: getattr(self, name) + getattr(other, name) for name in COUNTS})

    @property
    def wrote(self) -> bool:
        """Whether the inventory is another than before."""
        return bool(self.added or self.changed or self.removed or self.retired)


COUNTS: Final = (
    "lists", "added", "changed", "unchanged", "skipped", "refused", "foreign", "removed",
    "retired", "held",
)  # fmt: skip
NOTHING: Final = Looked()
