"""Which machines are this shard's to take in: those of the domains that it was assigned.

A shard that was never assigned one takes everything. One that has lost its last domain takes
nothing more: it must not widen by itself.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mainstay.model.batch import Shape
from mainstay.model.errors import Rejected


class Domain(NamedTuple):
    """All machines with this value of an attribute: a zone, a rack, a pool."""

    key: str
    value: str


Save = Callable[[frozenset[Domain]], None]
"""Keeps what is assigned over a restart; whatever it raises, nothing has changed."""


def _not_saved(assigned: frozenset[Domain]) -> None:
    """Nobody keeps it."""


class Domains:
    """What is assigned now. Machines that we have stay ours, wherever they are."""

    def __init__(
        self, assigned: Iterable[tuple[str, str]] | None = None, *, save: Save = _not_saved
    ) -> None:
        """`assigned` is None for a shard that never was assigned anything."""
        self._assigned = None if assigned is None else frozenset(map(_domain, assigned))
        self._save = save
        self._version = 0

    @property
    def assigned(self) -> frozenset[Domain] | None:
        """None: everything."""
        return self._assigned

    @property
    def version(self) -> int:
        """Grows when something is assigned or taken away."""
        return self._version

    def assign(self, key: str, value: str) -> bool:
        """Take this domain in; false when it is assigned already."""
        domain = _domain((key, value))
        held = self._assigned or frozenset()
        if domain in held:
            return False
        self._put(held | {domain})
        return True

    def unassign(self, key: str, value: str) -> bool:
        """Take nothing more from this domain; false when it is not assigned."""
        domain = _domain((key, value))
        held = self._assigned or frozenset()
        if domain not in held:
            return False
        self._put(held - {domain})
        return True

    def admits(self, shape: Shape) -> bool:
        """Whether machines of this shape are ours to take in: one of the domains has them."""
        if self._assigned is None:
            return True
        return any(shape.profile.attribute(key) == value for key, value in self._assigned)

    def _put(self, assigned: frozenset[Domain]) -> None:
        self._save(assigned)
        self._assigned = assigned
        self._version += 1


def _domain(given: tuple[str, str]) -> Domain:
    key, value = given
    if not key or not value:
        raise Rejected(f"a domain needs a key and a value, as in zone=a: {key!r}={value!r}")
    return Domain(key, value)
