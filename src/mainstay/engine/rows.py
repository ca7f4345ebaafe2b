"""The needs of one cycle in walk order: columns, and a row as an object when somebody asks."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.asked import Asked, Codes, ref_of
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import Fingerprint
from mainstay.model.need import Need, NeedProfile
from mainstay.model.resources import scale
from mainstay.model.texts import Rows

Mask = NDArray[np.bool_]
Matrix = NDArray[np.int64]
Vector = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One need as the phases see it."""

    need: Need
    gangs: tuple[Need, ...] = ()
    """Those it is made of."""

    plain: NeedRef | None = None
    """What a gang is called once it is folded."""

    is_gang: bool
    """Whether its machines must share a domain."""

    place: int
    """Where it is in walk order."""

    requirement_set: int
    min_unit: int
    """Codes of what every machine of it must be and hold."""

    folded: bool = False
    """Made of gangs: a machine adds whole min units only."""

    @cached_property
    def refs(self) -> tuple[NeedRef, ...]:
        """The names under which machines in flight count for it."""
        if self.plain is not None:
            return self.need.ref, self.plain
        return tuple(dict.fromkeys((self.need.ref, *(gang.ref for gang in self.gangs))))


@dataclass(frozen=True)
class Walk:
    """The rows in walk order, as columns; a row as an object is made when somebody asks."""

    asked: Asked
    dimensions: tuple[str, ...]
    """What the columns of the amounts are."""

    amounts: Matrix
    """The distinct amounts asked for."""

    foldable: Mask
    """Which needs are gangs that became plain rows."""

    members: tuple[Rows, ...]
    """For each folded row the needs it is made of, the first one first."""

    need: NDArray[np.int64]
    """Per row the place of its need in the demand; of folded row f it is -1 - f."""

    profile: Codes
    cluster: Codes
    aggregate: Matrix
    min_unit: Codes
    """Code of the smallest unit among the amounts asked for."""

    _made: dict[int, Row] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.need)

    @cached_property
    def is_gang(self) -> Mask:
        """Which rows must stay in one domain."""
        gangs: Mask = self.asked.profiles.is_gang[self.profile]
        return gangs

    @cached_property
    def gangs(self) -> Rows:
        """The places of the gangs."""
        return np.flatnonzero(self.is_gang)

    @cached_property
    def gang_refs(self) -> dict[int, NeedRef]:
        """The name of the gang at each of those places."""
        return {place: self.need_at(place).ref for place in self.gangs.tolist()}

    @cached_property
    def folded(self) -> Mask:
        """Which rows are made of gangs."""
        return self.need < 0

    @cached_property
    def priority(self) -> NDArray[np.int64]:
        """Highest first."""
        return self.asked.profiles.priority[self.profile]

    @cached_property
    def requirement_set(self) -> Codes:
        """Code of what every machine of each must be."""
        return self.asked.profiles.requirement_set[self.profile]

    @cached_property
    def interruption(self) -> NDArray[np.int64]:
        """The interruption penalty bucket of each."""
        return self.asked.profiles.interruption[self.profile]

    @cached_property
    def is_spread(self) -> Mask:
        """Which rows must be spread."""
        return self.asked.profiles.is_spread[self.profile]

    @cached_property
    def precedence(self) -> NDArray[np.int64]:
        """Within a priority: who acquires first has the larger number."""
        profiles = self.asked.profiles
        both: NDArray[np.int64] = profiles.interruption * 64 + profiles.reclamation
        return both[self.profile]

    def row(self, place: int) -> Row:
        """A row as an object."""
        if place not in self._made:
            self._made[place] = self._make(place)
        return self._made[place]

    def need_at(self, place: int) -> Need:
        """The need of a row, as normalised."""
        at = int(self.need[place])
        return self.asked.needs[at] if at >= 0 else self.row(place).need

    def named_by(self, prints: set[Fingerprint]) -> Rows:
        """The rows that have one of these fingerprints among their names."""
        profiles = self.asked.profiles
        named = np.array([profile.fingerprint in prints for profile in profiles.values])
        found: Mask = named[self.profile] | named[profiles.without_same[self.profile]]
        folded = np.flatnonzero(self.folded)
        if len(folded):
            sizes = np.array([len(gangs) for gangs in self.members])
            member = named[self.asked.profile[np.concatenate(self.members)]]
            any_member = np.logical_or.reduceat(member, np.cumsum(sizes) - sizes)
            found[folded] |= any_member[-1 - self.need[folded]]
        return np.flatnonzero(found)

    def _make(self, place: int) -> Row:
        at, profiles = int(self.need[place]), self.asked.profiles
        gangs: tuple[Need, ...] = ()
        plain = None
        if at < 0:
            gangs = tuple(map(self.asked.needs.__getitem__, self.members[-1 - at].tolist()))
            need = _fold(profiles.values[self.profile[place]], gangs)
        else:
            need = self.asked.needs[at]
            if self.is_gang[place]:
                stripped = profiles.values[profiles.without_same[self.profile[place]]]
                plain = ref_of(need.cluster, stripped)
        return Row(
            need=need,
            gangs=gangs,
            plain=plain,
            is_gang=bool(self.is_gang[place]),
            place=place,
            requirement_set=int(self.requirement_set[place]),
            min_unit=int(self.min_unit[place]),
            folded=at < 0,
        )


def _fold(profile: NeedProfile, gangs: tuple[Need, ...]) -> Need:
    """One need for gangs that are alike."""
    arrivals = [gang.arrival_nanos for gang in gangs if gang.arrival_nanos]
    return Need(
        cluster=gangs[0].cluster,
        profile=profile,
        aggregate=scale(gangs[0].aggregate, len(gangs)),
        min_unit=gangs[0].aggregate,
        arrival_nanos=min(arrivals, default=0),
    )
