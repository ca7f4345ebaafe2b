"""The circuit breaker: when too much of a rack, zone or type fails at once, buy nothing there.

`Breaker` is the rule, `Breakers` holds those of all racks, zones and types, and of what providers
sell: a machine that never got its host says nothing of hardware, but that an offer is sold out.
Times are of `Clock.elapsed_s`.
"""

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mainstay.engine.barred import Offer
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.state import State
from mainstay.runtime.clock import Clock
from mainstay.shard.events import Event
from mainstay.shard.ports import Journal

RACK_KEY: Final = "topology.bigfleet/rack"


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
    """It opens when so much of all machines there failed,"""

    share_of_ends: float = 0.5
    """or so much of everything that ended there, well or badly."""

    open_s: float = 60.0
    """For how long, at first; twice as long when it opens again within a window."""

    open_longest_s: float = 900.0


class Breaker:
    """Of one rack, zone or type. It reads no clock: whoever tells it something says when.

    What ends while it is open does not count. Once its time is over it closes, and counts anew.
    """

    def __init__(self, options: BreakerOptions) -> None:
        self._options = options
        self._ends: deque[tuple[float, MachineId | None]] = deque()
        """When, and which machine failed; None: something ended well. Oldest first."""

        self._bad: Counter[MachineId] = Counter()
        self.open_until_s: float | None = None
        """None: closed."""

        self.last_open_s = 0.0
        """How long it was opened for the last time; 0: never."""

        self._closed_at_s = -math.inf

    @property
    def failures(self) -> int:
        """How many machines failed in the window; one that failed twice is one bad machine."""
        return len(self._bad)

    @property
    def is_forgotten(self) -> bool:
        """Whether it is like a new one."""
        return self.open_until_s is None and not self._ends and math.isinf(self._closed_at_s)

    def ended(self, bad: MachineId | None, now_s: float, machines: int) -> bool:
        """A machine failed, or something ended well, where so many machines are; whether it opens.

        `machines` is 0 where that is not known.
        """
        self.pass_time(now_s)
        if self.open_until_s is not None:
            return False
        self._ends.append((now_s, bad))
        if bad is not None:
            self._bad[bad] += 1
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
            self._bad.clear()
        horizon_s = now_s - self._options.window_s
        while self._ends and self._ends[0][0] <= horizon_s:
            _, bad = self._ends.popleft()
            if bad is not None:
                self._bad[bad] -= 1
                if not self._bad[bad]:
                    del self._bad[bad]
        if self._closed_at_s <= horizon_s:
            self._closed_at_s = -math.inf
        return closes

    def _is_too_much(self, machines: int) -> bool:
        options, bad = self._options, self.failures
        good = len(self._ends) - self._bad.total()
        return bad >= options.failures_min and (
            bad >= options.share_of_ends * (bad + good)
            or (machines > 0 and bad >= options.share_of_machines * machines)
        )


Attribute = tuple[str, str]
"""(key, value): a rack, a zone, a type."""

Place = Attribute | Offer


class Breakers:
    """All breakers of a shard: implements the port `Failures`."""

    def __init__(
        self, clock: Clock, journal: Journal, options: BreakerOptions | None = None
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._options = options or BreakerOptions()
        self._keys = (self._options.rack_key, ZONE_KEY, INSTANCE_TYPE_KEY)
        self._breakers: dict[Place, Breaker] = {}
        self._snapshot: Snapshot | None = None

    def look(self, snapshot: Snapshot) -> None:
        """What there is, so that a share of it can be told."""
        self._snapshot = snapshot

    def failed(self, machine: Machine, source: str) -> None:
        """A machine went Failed, or was lost while it served."""
        for place in self._places(machine) if machine.host else [_offer(machine, source)]:
            self._ended(place, machine.id, source)

    def succeeded(self, machine: Machine, source: str) -> None:
        """A step of a machine ended well."""
        for place in self._places(machine):
            self._ended(place, None, source)
        if machine.state is State.IDLE:
            self._ended(_offer(machine, source), None, source)

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

    def _ended(self, place: Place, bad: MachineId | None, source: str) -> None:
        now_s = self._clock.elapsed_s()
        breaker = self._breaker_at(place, now_s)
        if breaker.ended(bad, now_s, 0 if bad is None else self._machines_at(place)):
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
        """How many machines there are there, 0 if unknown; costs classes, not machines."""
        if self._snapshot is None or isinstance(place, Offer):
            return 0
        key, value = place
        codes, values = self._snapshot.shapes.attribute(key)
        if value not in values:
            return 0
        of_class = self._snapshot.machines_of_shape
        return int(of_class[codes[: len(of_class)] == values.index(value)].sum())


def _offer(machine: Machine, source: str) -> Offer:
    profile = machine.profile
    return Offer(source, profile.instance_type, profile.zone, profile.capacity_type)


def _told(place: Place) -> Attribute:
    """As people read it."""
    if not isinstance(place, Offer):
        return place
    return "offer", f"{place.instance_type}/{place.zone}/{place.capacity_type}"
