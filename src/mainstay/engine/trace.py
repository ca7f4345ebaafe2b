"""Phase 1 whole, with its exchange, and what it came to on the way.

A plan keeps this while some need is short: then somebody may ask why, and changes of the demand are
tried (mainstay.engine.resume) from what was claimed here.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.cover import Coverage, Settled, cover
from mainstay.engine.exchange import Exchanged, exchanged, survey
from mainstay.engine.kinds import Kinds
from mainstay.engine.lanes import is_short
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.engine.rows import Mask, Matrix, Walk
from mainstay.engine.world import NOBODY, World
from mainstay.model.texts import Rows

Owners = NDArray[np.int32]


@dataclass(frozen=True)
class Claims:
    """What everybody has claimed when all had their turn."""

    coverage: Coverage
    """But for what is missing: the next phase lowers that."""

    missing: Matrix
    owner: Owners
    settled: Settled | None = None
    """What was credited before anybody claimed."""

    @staticmethod
    def of(world: World, coverage: Coverage, settled: Settled | None = None) -> "Claims":
        """As they are now."""
        return Claims(coverage, coverage.missing.copy(), world.owner.copy(), settled)

    @property
    def walk(self) -> Walk:
        """The needs."""
        return self.coverage.walk

    @cached_property
    def counting(self) -> Owners:
        """The owner of each machine for whom it counts: not of one that is only protected."""
        owner = self.owner.copy()
        for rows, _ in self.coverage.protected:
            owner[rows] = NOBODY
        return owner

    @cached_property
    def acquired(self) -> tuple[Rows, Rows]:
        """Machines, and the place of the need of each, in the order of acquisition."""
        none = np.empty(0, dtype=np.intp)
        rows, places = (
            np.concatenate([none, *(pair[side] for pair in self.coverage.acquired)])
            for side in (0, 1)
        )
        return rows, places


@dataclass(frozen=True, slots=True)
class Trace:
    """How phase 1 went."""

    quota: Quota
    parked: Mask
    """The gangs that were parked before it began."""

    first: Claims
    exchange: Exchanged
    second: Claims | None
    """After the exchange; none where nothing moved."""


def claim(
    world: World, walk: Walk, parked: Mask, quota: Quota = NO_QUOTA, last: Kinds | None = None
) -> tuple[Coverage, Trace | None]:
    """Phase 1, and a trace of it when somebody is short.

    When plain needs gain by an exchange of what they were credited, it runs once more with these
    credits settled.
    """
    coverage = cover(world, walk, parked, quota, last)
    found = exchanged(world, coverage, survey(world, coverage))
    if found.settled is None:
        if not is_short(coverage.missing).any():
            return coverage, None
        return coverage, Trace(quota, parked, Claims.of(world, coverage), found, None)
    first = Claims.of(world, coverage)
    world.start_over()
    again = cover(world, walk, parked, quota, coverage.kinds, settled=found.settled)
    if not is_short(again.missing).any():
        return again, None
    return again, Trace(quota, parked, first, found, Claims.of(world, again, found.settled))
