"""The part of the quota that a shard holds. A cycle reads the numbers and nothing else.

A number is raised after the coordinator has granted it, and lowered before the coordinator is told.
What is told to be held is never less than what is used, nor than what a decision that is under way
may still take: so nothing is given to somebody else that is taken already.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from mainstay.engine.plan import Plan, Unmet
from mainstay.engine.quota import REGION_KEY, Place, Quota
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.coordination import Grant, QuotaKind, QuotaLine, QuotaOf
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, is_id
from mainstay.model.state import State
from mainstay.runtime.aside import Aside
from mainstay.shard.events import Event
from mainstay.shard.facts import Published
from mainstay.shard.ports import Journal

HEADROOM_PERCENT: Final = 10
"""So much more than it uses a shard could use soon, and at least one machine."""

CYCLES_TO_SETTLE: Final = 2
"""A decision that began before a number was lowered is over when so many cycles have ended."""

UNLIMITED: Final = -1


class KeptQuota(Protocol):
    """The file."""

    @property
    def value(self) -> Quota:
        """As it was kept last."""

    def keep(self, value: Quota) -> None:
        """Have this value from now on; Unavailable, and then the old one stays."""


@dataclass(frozen=True, slots=True)
class Used:
    """How much is used, of everything that a quota could limit."""

    machines: Mapping[ClusterId, int]
    slots: Mapping[Place, int]
    """Every place that has a machine or a slot is named."""


class HeldQuota:
    """Lives on the event loop."""

    def __init__(
        self,
        kept: KeptQuota,
        *,
        snapshot: Callable[[], Snapshot],
        published: Callable[[], Published | None],
        knows_all: Callable[[], bool],
        journal: Journal,
        aside: Aside,
    ) -> None:
        """`knows_all`: whether every provider answers, so that what is used is known."""
        self._kept = kept
        self._held = kept.value
        self._snapshot = snapshot
        self._published = published
        self._knows_all = knows_all
        self._journal = journal
        self._aside = aside
        self._one = asyncio.Lock()
        self._lowered: dict[QuotaOf, tuple[int, int]] = {}
        """What was held before, and after which cycle that is over."""

    def held(self) -> Quota:
        """The numbers held now; the same object while none changes."""
        return self._held

    def lines(self) -> tuple[QuotaLine, ...]:
        """How every number stands that a quota could limit, in order of names."""
        published = self._published()
        used = counted(used_of(self._snapshot()))
        held = numbers(self._held)
        stopped = Counter[QuotaOf]()
        if published is not None:
            stopped = stopped_by_quota(published.plan, held)
            asking = (QuotaOf(QuotaKind.CLUSTER, need.cluster) for need in published.plan.needs)
            used = dict.fromkeys(asking, 0) | used
        return tuple(
            self._line(of, held.get(of, UNLIMITED), used.get(of, 0), stopped[of])
            for of in sorted(used.keys() | held.keys())
        )

    async def hear(self, grants: Sequence[Grant]) -> None:
        """Take what is granted, give back what is asked for and not used; durable when this
        returns. Rejected, and then nothing has changed.
        """
        async with self._one:
            new = self._after(grants)
            if new == self._held:
                return
            await asyncio.shield(asyncio.ensure_future(self._keep(new)))

    async def _keep(self, new: Quota) -> None:
        await self._aside(lambda: self._kept.keep(new))
        before, after = numbers(self._held), numbers(new)
        published = self._published()
        settled = (published.cycle if published else 0) + CYCLES_TO_SETTLE
        for of in before.keys() & after.keys():
            if after[of] < before[of]:
                self._lowered[of] = before[of], settled
        self._held = new
        changed = [of for of in before.keys() | after.keys() if before.get(of) != after.get(of)]
        self._journal.noticed(
            Event.QUOTA_CHANGED,
            count=len(changed),
            changed=" ".join(f"{of.name}={after.get(of, UNLIMITED)}" for of in sorted(changed)),
        )

    def _after(self, grants: Sequence[Grant]) -> Quota:
        held = numbers(self._held)
        used = counted(used_of(self._snapshot())) if grants else {}
        for of, granted, target in grants:
            _check(of, granted)
            if granted == UNLIMITED:
                held.pop(of, None)
                continue
            now = held.get(of)
            if 0 <= target < (granted if now is None else now) and self._knows_all():
                held[of] = min(max(target, used.get(of, 0)), granted if now is None else now)
            else:
                held[of] = granted if now is None else max(now, granted)
        return _quota(held)

    def _line(self, of: QuotaOf, held: int, used: int, stopped: int) -> QuotaLine:
        headroom = max(1, used * HEADROOM_PERCENT // 100)
        told = held if held == UNLIMITED else max(held, used, self._may_still_take(of))
        return QuotaLine(of, told, used, used + headroom + stopped)

    def _may_still_take(self, of: QuotaOf) -> int:
        before, settled = self._lowered.get(of, (0, 0))
        published = self._published()
        if published is not None and published.cycle >= settled:
            self._lowered.pop(of, None)
            return 0
        return before


def numbers(quota: Quota) -> dict[QuotaOf, int]:
    """What is held, by its name."""
    clusters = {QuotaOf(QuotaKind.CLUSTER, name): n for name, n in quota.machines.items()}
    places = {QuotaOf(QuotaKind.PLACE, *place): n for place, n in quota.slots.items()}
    return clusters | places


def counted(used: Used) -> dict[QuotaOf, int]:
    """What is used, by the same names."""
    return numbers(Quota(used.machines, used.slots))


def used_of(snapshot: Snapshot) -> Used:
    """How much is used: as `mainstay.engine.usage` counts it, for all of them at once."""
    state, live = snapshot.state, snapshot.state != State.UNSPECIFIED
    bound = np.isin(state, (State.CONFIGURED, State.CONFIGURING))
    serving = np.bincount(snapshot.cluster[bound], minlength=len(snapshot.clusters)).tolist()
    machines = Counter(dict(zip(snapshot.clusters[1:], serving[1:], strict=True)))
    values = snapshot.assignments.values
    for way in (State.CREATING, State.DRAINING):
        meant = np.bincount(snapshot.assignment[state == way], minlength=len(values))
        for code in np.flatnonzero(meant).tolist():
            drained = values[code].drained_for
            cluster = values[code].cluster if way is State.CREATING else drained and drained.cluster
            if cluster:
                machines[cluster] += int(meant[code])
    codes, regions = snapshot.shapes.attribute(REGION_KEY)
    at = snapshot.source[live].astype(np.intp) * len(regions) + codes[snapshot.shape[live]]
    size = len(snapshot.sources) * len(regions)
    there = np.bincount(at, minlength=size)
    more = np.bincount(at[state[live] != State.SPECULATIVE], minlength=size)
    slots = Counter[Place]()
    for place in np.flatnonzero(there).tolist():
        source, region = divmod(place, len(regions))
        slots[snapshot.sources[source], regions[region] or ""] += int(more[place])
    return Used({name: n for name, n in machines.items() if n}, slots)


def stopped_by_quota(plan: Plan, held: Mapping[QuotaOf, int]) -> Counter[QuotaOf]:
    """How many more machines could be had if there were more quota: of whichever number it is."""
    stopped = Counter[QuotaOf]()
    places = [of for of in held if of.kind is QuotaKind.PLACE]
    for each in plan.unsatisfied:
        if each.reason is not Unmet.QUOTA or not each.unresolved:
            continue
        unit = each.need.min_unit
        parts = [n / unit[name] for name, n in each.unresolved.items() if unit.get(name)]
        machines = max(1, math.ceil(max(parts, default=1.0)))
        for of in (QuotaOf(QuotaKind.CLUSTER, each.need.cluster), *places):
            stopped[of] += machines if of in held else 0
    return stopped


def _check(of: QuotaOf, granted: int) -> None:
    if not is_id(of.name) or granted < UNLIMITED:
        raise Rejected(f"not a grant: {granted} of {of.kind} {of.name[:80]!r}")


def _quota(held: Mapping[QuotaOf, int]) -> Quota:
    clusters = {ClusterId(of.name): n for of, n in held.items() if of.kind is QuotaKind.CLUSTER}
    places = {(of.name, of.region): n for of, n in held.items() if of.kind is QuotaKind.PLACE}
    return Quota(clusters, places)
