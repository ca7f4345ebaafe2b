"""Phase 2 as far as it takes to know that some needs stay short.

An explanation tries many changes and most of them do not help. Whether one helps is known as soon
as the needs it is about have had their turn, and often before: when all that they may take from
others is too little, nobody has to take anything.
"""

from collections.abc import Sequence

import numpy as np

from mainstay.engine.cover import Coverage, acquirable_in_domain
from mainstay.engine.lanes import is_short
from mainstay.engine.preempt import Takings, _preempt_for, _Stock, preempt
from mainstay.engine.rows import Row
from mainstay.engine.take import additions
from mainstay.engine.world import World
from mainstay.model.ids import ClusterId


def preempt_unless_refused(
    world: World, coverage: Coverage, heard: frozenset[ClusterId], about: Sequence[int]
) -> Takings | None:
    """What mainstay.engine.preempt.preempt takes; None once the needs at these places stay short.

    None also leaves the coverage half done.
    """
    wanting = [place for place in about if coverage.is_short(place)]
    if not wanting:
        return preempt(world, coverage, heard)
    if coverage.parked[wanting].any() or not world.any_configured:
        return None
    stock, takings = _Judged(world, coverage, heard), Takings()
    if any(stock.is_beyond(coverage, coverage.walk.row(place)) for place in wanting):
        return None
    last = max(wanting)
    for place in np.flatnonzero(is_short(coverage.missing) & ~coverage.parked).tolist():
        if not coverage.walk.is_gang[place] or coverage.choice_of(place).domain is not None:
            _preempt_for(world, coverage, coverage.walk.row(place), stock, takings)
        if place == last and is_short(coverage.missing[wanting]).any():
            return None
    return takings


class _Judged(_Stock):
    """The same machines, and whether they are too few for a need."""

    def is_beyond(self, coverage: Coverage, row: Row) -> bool:
        """Whether a need stays short though all that it may take were its own."""
        domain = coverage.choice_of(row.place).domain if row.is_gang else None
        if row.is_gang and domain is None:
            return True
        rows = self._candidates(row, domain)
        lesser = self._standing[rows] < row.need.profile.priority
        most = additions(self._world, row, rows[self._is_excess[rows] | lesser]).sum(axis=0)
        if domain is not None:
            near = acquirable_in_domain(self._world, row, domain)
            most = most + additions(self._world, row, near).sum(axis=0)
        return bool((most < coverage.missing[row.place]).any())
