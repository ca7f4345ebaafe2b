"""What a shard owns, as the parts that run know it: replaced once its file is written.

A list that was asked for before a domain was ours may name machines of it as its last owner had
them. Of such a list only what we owned then is taken in.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from mainstay.inventory.merge import Named
from mainstay.model.batch import Shape
from mainstay.model.coordination import Domain
from mainstay.shard.ownership.owned import Owned, keys_of, lies_in


@dataclass(frozen=True, slots=True)
class Adoption:
    """Which machines that we do not know are taken in from one report."""

    domains: frozenset[Domain] | None
    """None: those of everywhere."""

    named: Named
    """These, and not those, wherever they lie."""

    keys: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The label keys of the domains."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", keys_of(self.domains))

    def admits(self, shape: Shape) -> bool:
        """Whether machines of this shape are taken in."""
        return lies_in(self.domains or frozenset(), self.keys, shape.profile)


class Holdings:
    """Lives on the event loop."""

    def __init__(self, owned: Owned | None = None) -> None:
        self._owned = owned or Owned()
        self._version = 0
        self._since_s: dict[Domain, float] = {}
        """When each domain became ours, in this life."""

        self._closing: frozenset[Domain] = frozenset()
        self._opening: Domain | None = None

    @property
    def owned(self) -> Owned:
        """What is owned now."""
        return self._owned

    @property
    def closing(self) -> frozenset[Domain]:
        """Domains that are about to be let go of: nothing more is taken in or acquired there."""
        return self._closing

    @property
    def since_s(self) -> float:
        """When the last domain became ours, in this life; before everything, if none did."""
        return max(self._since_s.values(), default=-math.inf)

    @property
    def version(self) -> int:
        """Grows when what lists say of machines that we do not know may mean something else."""
        return self._version

    def put(self, owned: Owned, at_s: float = 0.0) -> None:
        """Own this from now on, a time of `Clock.elapsed_s`."""
        before, self._owned = self._owned, owned
        held = owned.domains or frozenset()
        new = held - (held if before.domains is None else before.domains)
        self._since_s = {each: s for each, s in self._since_s.items() if each in held}
        self._since_s |= dict.fromkeys(new, at_s)
        self._closing &= held
        self._opening = None
        if owned.domains != before.domains or before.away.keys() - owned.away.keys():
            self._version += 1

    def close(self, domain: Domain) -> None:
        """Take in nothing more of a domain: it is about to be let go of."""
        self._closing |= {domain}

    def narrow(self, domain: Domain) -> None:
        """Take in nothing more outside a domain: the first one is about to be assigned."""
        self._opening = domain

    def reopen(self, domains: Iterable[Domain] = ()) -> None:
        """It did not come to that; what was passed over meanwhile is asked for again."""
        closed = self._closing & frozenset(domains)
        if closed or self._opening is not None:
            self._version += 1
        self._closing -= closed
        self._opening = None

    def adoption(self, asked_at_s: float) -> Adoption:
        """What is taken in from a report that was asked for at this time."""
        owned, domains = self._owned, self._owned.domains
        if domains is None:
            domains = None if self._opening is None else frozenset({self._opening})
        else:
            young = {each for each, since_s in self._since_s.items() if since_s >= asked_at_s}
            domains = domains - self._closing - young
        return Adoption(domains, Named(owned.here.keys(), owned.away.keys()))

    def is_too_old(self, asked_at_s: float) -> bool:
        """Whether a report asked for then knows less of a domain than the next one will."""
        return any(since_s >= asked_at_s for since_s in self._since_s.values())
