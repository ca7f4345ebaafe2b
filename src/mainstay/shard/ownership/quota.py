"""The part of the quota that a shard holds. A cycle reads the numbers and nothing else.

A number is raised after the coordinator has granted it, and lowered before the coordinator is told.
What is told to be held is never less than what is used, nor than what a decision that is under way
may still take, nor than what the file may say after a write that failed: so nothing is given to
somebody else that is taken already. What goes with machines that go is lowered before they are.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from mainstay.engine.plan import Plan, Unmet
from mainstay.engine.quota import NO_QUOTA, REGION_KEY, Place, Quota
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.coordination import Grant, QuotaKind, QuotaLine, QuotaMoved, QuotaOf
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, is_id
from mainstay.model.profile import Profile
from mainstay.model.state import State
from mainstay.runtime.aside import Aside
from mainstay.runtime.one_at_a_time import OneAtATime
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
        """Have this value from now on; Unavailable, and then nothing is sure."""


@dataclass(frozen=True, slots=True)
class Used:
    """How much is used, of everything that a quota could limit."""

    machines: Mapping[ClusterId, int]
    slots: Mapping[Place, int]
    """Every place that has a machine or a slot is named."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What is too heavy for the event loop; some seconds old is good enough."""

    used: Mapping[QuotaOf, int] = field(default_factory=dict)
    """Of everything that a quota could limit."""

    stopped: Mapping[QuotaOf, int] = field(default_factory=dict)
    """How many more machines could be had if there were more of it."""


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
        self._held = self._usable = kept.value
        self._doubt: Quota | None = None
        """What the file may say instead: a write of it is under way, or has failed."""

        self._snapshot = snapshot
        self._published = published
        self._knows_all = knows_all
        self._journal = journal
        self._aside = aside
        self._whole = OneAtATime()
        self._lowered: dict[QuotaOf, tuple[int, int]] = {}
        """What was held before, and after which cycle that is over."""

        self._moved = Counter[QuotaOf]()

    def held(self) -> Quota:
        """The numbers that may be used up now; the same object while none changes."""
        return self._usable

    @property
    def moved(self) -> Mapping[QuotaOf, int]:
        """How much has gone with machines, in this life."""
        return dict(self._moved)

    def tallying(self) -> Callable[[], Tally]:
        """What counts the heavy part, beside the loop."""
        snapshot, published, held = self._snapshot(), self._published(), self._held
        plan = None if published is None else published.plan
        return lambda: tally(snapshot, plan, held)

    def lines(self, tally: Tally) -> tuple[QuotaLine, ...]:
        """How every number stands that a quota could limit, in order of names.

        Of the numbers that are held what is used is counted now: less must not be told.
        """
        limits, used = self._limits(), dict(tally.used)
        if limits:
            now = counted(used_of(self._snapshot()))
            used |= {of: now.get(of, 0) for of in limits}
        return tuple(
            self._line(of, limits.get(of, UNLIMITED), used[of], tally.stopped.get(of, 0))
            for of in sorted(used)
        )

    async def hear(
        self,
        grants: Sequence[Grant],
        *,
        since: Mapping[QuotaOf, int] | None = None,
        coming: Collection[str] = (),
    ) -> None:
        """Take what is granted, give back what is asked for and not used; durable when this
        returns. Rejected, and then nothing has changed.

        `since` is what had moved when the report was made that this answers: who grants does not
        know of more. Where machines are `coming` from a provider more is held and not used yet: it
        is theirs, and they are not counted.
        """
        since = self._moved.copy() if since is None else since
        await self._whole(self._hear(grants, since, coming))

    async def lower(self, places: Mapping[Place, int]) -> tuple[QuotaMoved, ...]:
        """Hold so much less of these places: it goes with machines that go. Durable when this
        returns, and told as far as a number is held.
        """
        return await self._whole(self._lower(places))

    def _limits(self) -> dict[QuotaOf, int]:
        """What is held, as far as the file may say so."""
        held, doubt = numbers(self._held), numbers(self._doubt or NO_QUOTA)
        return {
            of: max(held.get(of, UNLIMITED), doubt.get(of, UNLIMITED))
            for of in held.keys() | doubt.keys()
        }

    async def _hear(
        self, grants: Sequence[Grant], since: Mapping[QuotaOf, int], coming: Collection[str]
    ) -> None:
        for of, granted, _ in grants:
            _check(of, granted)
        await self._make_sure()
        used: Mapping[QuotaOf, int] = {}
        if any(target >= 0 for _, _, target in grants):
            snapshot = self._snapshot()
            used = await self._aside(lambda: counted(used_of(snapshot)))
        before, new = numbers(self._held), self._after(grants, used, since, coming)
        if new != self._held:
            await self._keep(new)
        after, usable, published = numbers(new), numbers(self._usable), self._published()
        waits = {
            of: min(usable[of], count)
            for of, count in after.items()
            if of.kind is QuotaKind.PLACE and of.name in coming
        }
        self._use(after | waits)
        settled = (published.cycle if published else 0) + CYCLES_TO_SETTLE
        for of in before.keys() & after.keys():
            if after[of] < before[of]:
                self._lowered[of] = max(before[of], self._may_still_take(of)), settled

    async def _lower(self, places: Mapping[Place, int]) -> tuple[QuotaMoved, ...]:
        await self._make_sure()
        held = numbers(self._held)
        going = {QuotaOf(QuotaKind.PLACE, *place): count for place, count in places.items()}
        moved = {of: count for of, count in sorted(going.items()) if of in held and count > 0}
        if moved:
            usable = numbers(self._usable)
            await self._keep(_quota(_less(held, moved)))
            self._use(_less(usable, moved))
        for of, count in moved.items():
            self._moved[of] += count
            if of in self._lowered:
                before, settled = self._lowered[of]
                self._lowered[of] = max(0, before - count), settled
        return tuple(QuotaMoved(*each) for each in moved.items())

    def _use(self, usable: Mapping[QuotaOf, int]) -> None:
        if (new := _quota(usable)) != self._usable:
            self._usable = new

    async def _make_sure(self) -> None:
        """After a write that failed: have the file say what is held."""
        held = self._held
        if self._doubt is not None:
            await self._aside(lambda: self._kept.keep(held))
            self._doubt = None

    async def _keep(self, new: Quota) -> None:
        """The file first; until it is certain which of both it has, the higher number is told."""
        self._doubt = new
        await self._aside(lambda: self._kept.keep(new))
        before, after = numbers(self._held), numbers(new)
        self._held, self._doubt = new, None
        usable = numbers(self._usable)
        self._use({of: min(usable.get(of, count), count) for of, count in after.items()})
        changed = [of for of in before.keys() | after.keys() if before.get(of) != after.get(of)]
        self._journal.noticed(
            Event.QUOTA_CHANGED,
            count=len(changed),
            changed=" ".join(f"{of.name}={after.get(of, UNLIMITED)}" for of in sorted(changed)),
        )

    def _after(
        self,
        grants: Sequence[Grant],
        used: Mapping[QuotaOf, int],
        since: Mapping[QuotaOf, int],
        coming: Collection[str],
    ) -> Quota:
        """What machines will use that are coming and not counted is not given back."""
        held = numbers(self._held)
        for of, granted, target in grants:
            if granted == UNLIMITED:
                held.pop(of, None)
                continue
            granted_now = max(0, granted - self._moved[of] + since.get(of, 0))
            now = held.get(of, granted_now)
            awaited = of.kind is QuotaKind.PLACE and of.name in coming
            if 0 <= target < now and self._knows_all() and not awaited:
                held[of] = min(max(target, used.get(of, 0)), now)
            else:
                held[of] = max(now, granted_now)
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


def tally(snapshot: Snapshot, plan: Plan | None, held: Quota) -> Tally:
    """The heavy part of what is told."""
    used = counted(used_of(snapshot))
    if plan is None:
        return Tally(used)
    asking = sorted({need.cluster for need in plan.needs})
    used = dict.fromkeys((QuotaOf(QuotaKind.CLUSTER, name) for name in asking), 0) | used
    return Tally(used, stopped_by_quota(plan, numbers(held)))


def place_of(source: str, profile: Profile) -> Place:
    """Which number a machine of a provider counts for, once it is more than a slot."""
    return source, profile.attribute(REGION_KEY) or ""


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


def _less(held: Mapping[QuotaOf, int], moved: Mapping[QuotaOf, int]) -> dict[QuotaOf, int]:
    return {of: max(0, count - moved.get(of, 0)) for of, count in held.items()}


def _quota(held: Mapping[QuotaOf, int]) -> Quota:
    clusters = {ClusterId(of.name): n for of, n in held.items() if of.kind is QuotaKind.CLUSTER}
    places = {(of.name, of.region): n for of, n in held.items() if of.kind is QuotaKind.PLACE}
    return Quota(clusters, places)
