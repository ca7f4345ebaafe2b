"""The circuit breaker: when too much of a rack, zone or type fails at once, buy nothing there.

`Breaker` is the rule, `Breakers` holds those of all racks, zones and types, and of what providers
sell: a machine that never got its host says nothing of hardware, but that an offer is sold out.
What counts towards which share is a table, `COUNTS`. Times are of `Clock.elapsed_s`.
"""

import math
from collections import Counter, deque
from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.barred import Offer
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.state import RULES, Presence, State
from mainstay.runtime.clock import Clock
from mainstay.shard.events import Event
from mainstay.shard.ports import Journal

RACK_KEY: Final = "topology.bigfleet/rack"

HOSTED: Final = [each for each, rule in RULES.items() if rule.host is not Presence.NEVER]
"""Where a machine is more than quota: a share of all that are there is a share of these."""


class Fate(Enum):
    """What became of a machine."""

    WELL = "a step ended well"
    STEP_FAILED = "a step failed"
    LOST = "lost, or Failed, while nothing was done to it"


class Share(Enum):
    """Of what so much is too much."""

    MACHINES = "of the machines that are there"
    STEPS = "of the steps that ended there"


COUNTS: Final[Mapping[Fate, frozenset[Share]]] = MappingProxyType({
    Fate.WELL: frozenset(),
    Fate.STEP_FAILED: frozenset(Share),
    Fate.LOST: frozenset({Share.MACHINES}),
})  # fmt: skip
"""Towards which share a fate counts as bad. Where nothing is done nothing ends well either, so of a
quiet fleet any loss would be half of all ends, however large the fleet.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerOptions:
    """When a breaker opens, and for how long."""

    rack_key: str = RACK_KEY
    """The label that names a machine's rack."""

    window_s: float = 300.0
    """What happened longer ago does not count."""

    failures_min: int = 5
    """Fewer machines than this are bad luck."""

    share_of_machines: float = 0.2
    """It opens when so much of all machines there failed or were lost,"""

    share_of_ends: float = 0.5
    """or when so much of all steps that ended there failed."""

    open_s: float = 60.0
    """For how long, at first; twice as long when it opens again within a window."""

    open_longest_s: float = 900.0


class End(NamedTuple):
    """What became of which machine, and when."""

    at_s: float
    machine: MachineId
    fate: Fate


class Breaker:
    """Of one rack, zone or type. It reads no clock: whoever tells it something says when.

    What ends while it is open does not count. Once its time is over it closes, and counts anew.
    """

    def __init__(self, options: BreakerOptions) -> None:
        self._options = options
        self._ends: deque[End] = deque()
        """Oldest first."""

        self._well = 0
        self._bad: dict[Share, Counter[MachineId]] = {share: Counter() for share in Share}
        self.open_until_s: float | None = None
        """None: closed."""

        self.last_open_s = 0.0
        """How long it was opened for the last time; 0: never."""

        self._closed_at_s = -math.inf

    @property
    def failures(self) -> int:
        """How many machines failed or were lost in the window; one that failed twice is one."""
        return len(self._bad[Share.MACHINES])

    @property
    def is_forgotten(self) -> bool:
        """Whether it is like a new one."""
        return self.open_until_s is None and not self._ends and math.isinf(self._closed_at_s)

    def ended(self, end: End, machines: int) -> bool:
        """This became of a machine where so many machines are; whether it opens.

        `machines` is 0 where that is not known.
        """
        now_s = end.at_s
        self.pass_time(now_s)
        if self.open_until_s is not None:
            return False
        self._ends.append(end)
        self._count(end, 1)
        if not self._is_too_much(machines):
            return False
        self._open(now_s)
        return True

    def trip(self, now_s: float) -> bool:
        """Open it whatever was counted; whether it was closed."""
        self.pass_time(now_s)
        if self.open_until_s is not None:
            return False
        self._open(now_s)
        return True

    def _open(self, now_s: float) -> None:
        longer_s = min(self.last_open_s * 2, self._options.open_longest_s)
        self.last_open_s = self._options.open_s if math.isinf(self._closed_at_s) else longer_s
        self.open_until_s = now_s + self.last_open_s

    def pass_time(self, now_s: float) -> bool:
        """Let what is too old fall out; whether it closes."""
        closes = self.open_until_s is not None and now_s >= self.open_until_s
        if closes:
            self._closed_at_s, self.open_until_s = self.open_until_s or 0.0, None
            self._ends.clear()
            self._well = 0
            for bad in self._bad.values():
                bad.clear()
        horizon_s = now_s - self._options.window_s
        while self._ends and self._ends[0].at_s <= horizon_s:
            self._count(self._ends.popleft(), -1)
        if self._closed_at_s <= horizon_s:
            self._closed_at_s = -math.inf
        return closes

    def _count(self, end: End, by: int) -> None:
        self._well += by * (end.fate is Fate.WELL)
        for share in COUNTS[end.fate]:
            bad = self._bad[share]
            bad[end.machine] += by
            if not bad[end.machine]:
                del bad[end.machine]

    def _is_too_much(self, machines: int) -> bool:
        options = self._options
        steps = len(self._bad[Share.STEPS])
        shares = (
            (self.failures, options.share_of_machines, machines),
            (steps, options.share_of_ends, steps + self._well),
        )
        return any(
            bad >= options.failures_min and all_of_them > 0 and bad >= share * all_of_them
            for bad, share, all_of_them in shares
        )


Attribute = tuple[str, str]
"""(key, value): a rack, a zone, a type."""

Place = Attribute | Offer


class Breakers:
    """All breakers of a shard: implements the port `Failures`."""

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        options: BreakerOptions | None = None,
        announced: Container[MachineId] = frozenset(),
    ) -> None:
        """`announced`: whose host will be taken back, as their provider has said. What becomes of
        them says nothing of any other machine.
        """
        self._announced = announced
        self._clock = clock
        self._journal = journal
        self._options = options or BreakerOptions()
        self._keys = (self._options.rack_key, ZONE_KEY, INSTANCE_TYPE_KEY)
        self._breakers: dict[Place, Breaker] = {}
        self._snapshot: Snapshot | None = None
        self._hosted: NDArray[np.int64] | None = None
        """Machines with a host by class, once somebody has asked."""

    def look(self, snapshot: Snapshot) -> None:
        """What there is, so that a share of it can be told."""
        if snapshot is not self._snapshot:
            self._snapshot, self._hosted = snapshot, None

    def failed(self, machine: Machine, source: str) -> None:
        """A step of a machine failed."""
        sold_out: list[Place] = [_offer(machine, source)]
        places = self._places(machine) if machine.host else sold_out
        self._ended(machine, source, Fate.STEP_FAILED, places)

    def lost(self, machine: Machine, source: str) -> None:
        """A machine that served is gone, or one to which nothing was done is Failed."""
        self._ended(machine, source, Fate.LOST, self._places(machine))

    def succeeded(self, machine: Machine, source: str) -> None:
        """A step of a machine ended well."""
        places = self._places(machine)
        if machine.state is State.IDLE:
            places.append(_offer(machine, source))
        self._ended(machine, source, Fate.WELL, places)

    def sold_out(self, machine: Machine, source: str) -> None:
        """A provider says that it has no more of these."""
        place, now_s = _offer(machine, source), self._clock.elapsed_s()
        breaker = self._breaker_at(place, now_s)
        if breaker.trip(now_s):
            self._tell_opened(place, breaker, source)

    def barred(self, now_s: float) -> frozenset[Attribute]:
        """Where nothing is bought at this time: (key, value) of an attribute."""
        self._pass_time(now_s)
        return frozenset(each for each in self.open_until_s if not isinstance(each, Offer))

    def offers(self, now_s: float) -> frozenset[Offer]:
        """What is not bought at this time."""
        self._pass_time(now_s)
        return frozenset(each for each in self.open_until_s if isinstance(each, Offer))

    @property
    def open_until_s(self) -> Mapping[Place, float]:
        """The open ones, and until when."""
        return {
            place: breaker.open_until_s
            for place, breaker in self._breakers.items()
            if breaker.open_until_s is not None
        }

    def _places(self, machine: Machine) -> list[Place]:
        found = [(key, machine.profile.attribute(key)) for key in self._keys]
        return [(key, value) for key, value in found if value]

    def _ended(self, machine: Machine, source: str, fate: Fate, places: list[Place]) -> None:
        is_well = fate is Fate.WELL
        if not is_well and machine.id in self._announced:
            return
        end = End(self._clock.elapsed_s(), machine.id, fate)
        for place in places:
            breaker = self._breaker_at(place, end.at_s)
            if breaker.ended(end, 0 if is_well else self._machines_at(place)):
                self._tell_opened(place, breaker, source)

    def _breaker_at(self, place: Place, now_s: float) -> Breaker:
        breaker = self._breakers.setdefault(place, Breaker(self._options))
        self._close_in_time(place, breaker, now_s)
        return breaker

    def _pass_time(self, now_s: float) -> None:
        for place, breaker in list(self._breakers.items()):
            self._close_in_time(place, breaker, now_s)
            if breaker.is_forgotten:
                del self._breakers[place]

    def _close_in_time(self, place: Place, breaker: Breaker, now_s: float) -> None:
        if breaker.pass_time(now_s):
            key, value = _told(place)
            self._journal.noticed(Event.BREAKER_CLOSED, reason=key, value=value)

    def _tell_opened(self, place: Place, breaker: Breaker, source: str) -> None:
        key, value = _told(place)
        self._journal.noticed(
            Event.BREAKER_OPENED,
            reason=key,
            value=value,
            failures=breaker.failures,
            seconds=breaker.last_open_s,
            provider=source,
        )

    def _machines_at(self, place: Place) -> int:
        """How many machines with a host there are there, 0 if unknown. They are counted once for a
        snapshot; after that it costs classes, not machines.
        """
        if self._snapshot is None or isinstance(place, Offer):
            return 0
        if self._hosted is None:
            self._hosted = _hosted(self._snapshot)
        key, value = place
        codes, values = self._snapshot.shapes.attribute(key)
        if value not in values:
            return 0
        return int(self._hosted[codes[: len(self._hosted)] == values.index(value)].sum())


def _hosted(snapshot: Snapshot) -> NDArray[np.int64]:
    classes = snapshot.shape[np.isin(snapshot.state, HOSTED)]
    return np.bincount(classes, minlength=len(snapshot.machines_of_shape))


def _offer(machine: Machine, source: str) -> Offer:
    profile = machine.profile
    return Offer(source, profile.instance_type, profile.zone, profile.capacity_type)


def _told(place: Place) -> Attribute:
    """As people read it."""
    if not isinstance(place, Offer):
        return place
    return "offer", f"{place.instance_type}/{place.zone}/{place.capacity_type}"
