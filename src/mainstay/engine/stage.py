"""The machines of one plan for many decisions on demands that are nearly the same."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mainstay.engine.allowance import Allowance
from mainstay.engine.asked import Asked
from mainstay.engine.cover import Coverage, _protect, cover
from mainstay.engine.lanes import is_short
from mainstay.engine.plan import Plan
from mainstay.engine.quota import NO_QUOTA
from mainstay.engine.rows import Mask, Walk
from mainstay.engine.world import World
from mainstay.model.assignment import NeedRef


class Stage(World):
    """The machines of a plan for many decisions: what is known of them stays known."""

    given_up: set[NeedRef]
    """The gangs that keep nothing any longer."""

    protects: bool
    """Whether a need that is short keeps what was given to it; not before all have claimed."""

    def __init__(self, plan: Plan) -> None:
        walk = plan.walk
        super().__init__(plan.snapshot, walk.asked, plan.kept, walk, plan.demand.barred)
        self.given_up, self.protects = set(), True

    @override
    def keep_for_gangs(self, gangs: Iterable[NeedRef]) -> None:
        """As ever; but what a gang has given up stays so."""
        super().keep_for_gangs(gangs)
        super().give_up(self.given_up)

    @override
    def give_up(self, gangs: Collection[NeedRef]) -> None:
        """As ever, and it is remembered."""
        self.given_up.update(gangs)
        super().give_up(gangs)

    @override
    def is_anything_assigned_to(self, ref: NeedRef) -> bool:
        """Nothing that counts until needs are protected."""
        return self.protects and super().is_anything_assigned_to(ref)

    def begin(self, asked: Asked) -> None:
        """Nobody has claimed anything, and this is asked; its codes go on from the last ones."""
        column = {name: place for place, name in enumerate(self.dimensions)}
        new = asked.amounts[len(self.amounts) :]
        more = np.zeros((len(new), len(self.dimensions)), dtype=np.int64)
        for code, amounts in enumerate(new):
            for name, amount in amounts:
                more[code, column[name]] = amount
        self.asked = asked
        self.amounts = np.concatenate([self.amounts, more])
        self.start_over()

    @override
    def start_over(self) -> None:
        """As ever; and no gang has given up anything."""
        super().start_over()
        self.given_up.clear()


@dataclass(frozen=True, slots=True)
class Head:
    """What the first needs of a walk have claimed in phase 1, before any other."""

    coverage: Coverage
    owner: NDArray[np.int32]
    given_up: frozenset[NeedRef]

    @staticmethod
    def of(world: Stage, walk: Walk, count: int, parked: Mask) -> "Head":
        """Let so many claim; nothing is limited by quota."""
        world.keep_for_gangs(walk.gang_refs.values())
        world.protects = False
        coverage = cover(world, part(walk, 0, count), parked[:count])
        world.protects = True
        return Head(coverage, world.owner.copy(), frozenset(world.given_up))

    def holds(self, walk: Walk) -> bool:
        """Whether a walk begins with these needs."""
        mine = self.coverage.walk
        theirs = part(walk, 0, len(mine))
        return len(theirs) == len(mine) and all(
            np.array_equal(getattr(mine, name), getattr(theirs, name))
            for name in ("profile", "cluster", "aggregate", "min_unit", "folded")
        )

    def go_on(self, world: Stage, walk: Walk, parked: Mask) -> Coverage:
        """The whole of phase 1: these as they were, then all the others."""
        head, count = self.coverage, len(self.coverage.walk)
        world.owner[:] = self.owner
        world.given_up |= self.given_up
        world.keep_for_gangs(walk.gang_refs.values())
        before = world.owner >= 0
        tail = cover(world, part(walk, count, len(walk)), parked[count:])
        world.owner[~before & (world.owner >= 0)] += count
        for place in np.flatnonzero(is_short(head.missing)).tolist():
            _protect(world, walk.row(place))
        return Coverage(
            walk,
            np.concatenate([head.parked, tail.parked]),
            Allowance(world, NO_QUOTA, walk),
            np.concatenate([head.missing, tail.missing]),
            choice=head.choice | {place + count: made for place, made in tail.choice.items()},
            acquired=[*head.acquired, *((rows, at + count) for rows, at in tail.acquired)],
        )


def part(walk: Walk, begin: int, stop: int) -> Walk:
    """Some of the rows of a walk, as a walk of their own."""
    columns = ("need", "profile", "cluster", "aggregate", "min_unit")
    sliced: dict[str, Any] = {name: getattr(walk, name)[begin:stop] for name in columns}
    return replace(walk, _made={}, **sliced)
