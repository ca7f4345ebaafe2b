"""Which needs are short because of what is barred (docs/explanation/decision.md, section 2)."""

from functools import cached_property

import numpy as np

from mainstay.engine.cover import Coverage
from mainstay.engine.domains import domain_sums
from mainstay.engine.gangs import domains_of
from mainstay.engine.rows import Mask, Row, Vector
from mainstay.engine.world import World
from mainstay.model.state import State


class Lockout:
    """Asked once phase 2 is over; while nothing is barred, nobody is locked out."""

    def __init__(self, world: World, coverage: Coverage) -> None:
        self.world, self._coverage = world, coverage

    def holds(self, row: Row) -> bool:
        """Whether a need that misses something could have it, were it not for the bars."""
        if self.world.barred is None:
            return False
        near = self.world.fits(row) & (self._barred > 0)
        if not near.any():
            return False
        return self._holds_gang(row, near) if row.is_gang else self._holds_plain(row, near)

    def _holds_plain(self, row: Row, near: Mask) -> bool:
        missing = self._coverage.missing[row.place] > 0
        return bool((self.world.adds(row)[near][:, missing] > 0).any())

    def _holds_gang(self, row: Row, near: Mask) -> bool:
        world, domains = self.world, domains_of(self.world, row)
        classes = np.where(world.fits(row), self._free + self._claimed(row.place), 0)
        total, _ = domain_sums(domains, world.alloc, classes)
        covers = (total >= self._coverage.walk.aggregate[row.place]).all(axis=1)
        lying = domains.code[near]
        return bool(covers[lying[lying >= 0]].any())

    @cached_property
    def _barred(self) -> Vector:
        """How many machines of each class are barred."""
        shape, barred = self.world.snapshot.shape, self.world.barred
        named = shape[:0] if barred is None else shape[barred]
        return np.bincount(named, minlength=len(self.world.alloc))

    @cached_property
    def _free(self) -> Vector:
        """How many Idle and Speculative ones nobody claims, barred or not."""
        state = self.world.snapshot.state
        free = ((state == State.IDLE) | (state == State.SPECULATIVE)) & (self.world.owner < 0)
        return np.bincount(self.world.snapshot.shape[free], minlength=len(self.world.alloc))

    @cached_property
    def _by_need(self) -> tuple[Vector, Vector]:
        """The classes of what is claimed, need after need; and the need of each."""
        rows = np.flatnonzero(self.world.owner >= 0)
        owner = self.world.owner[rows].astype(np.int64)
        order = np.argsort(owner, kind="stable")
        return self.world.snapshot.shape[rows[order]].astype(np.int64), owner[order]

    def _claimed(self, place: int) -> Vector:
        shapes, owner = self._by_need
        first, last = np.searchsorted(owner, [place, place + 1])
        return np.bincount(shapes[first:last], minlength=len(self.world.alloc))
