"""What must not be acquired now, however well it would fit: an input of a decision, like quota."""

from dataclasses import dataclass
from typing import Final

from mainstay.model.ids import MachineId


@dataclass(frozen=True, slots=True)
class Barred:
    """Idle and Speculative machines that any of these names are left alone. Serving ones serve on,
    and whatever is on its way counts as before.
    """

    sources: frozenset[str] = frozenset()
    """Providers that do not answer."""

    values: frozenset[tuple[str, str]] = frozenset()
    """(key, value) of an attribute, as requirements see it: a rack, a zone, an instance type."""

    machines: frozenset[MachineId] = frozenset()
    """Single machines, such as those whose host will be taken back."""


NOTHING_BARRED: Final = Barred()
