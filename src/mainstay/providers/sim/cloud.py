"""The hardware of a simulated cloud: hosts come, cost money, and are lost, all by seed.

Time is the clock's: whatever was due since the last look happens at the next. Chances are drawn by
what they are about (a host, an operation, a minute), never in the order of calls, so that the same
seed gives the same fate to the same host.
"""

import dataclasses
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from mainstay.model.errors import NoCapacity
from mainstay.model.notice import InterruptionNotice
from mainstay.model.profile import CapacityType
from mainstay.providers.kit.backend import Slot
from mainstay.providers.sim.bill import Bill
from mainstay.providers.sim.faults import ANY, Fault, Faults
from mainstay.providers.sim.spec import SimSpec, slots_of
from mainstay.runtime.clock import Clock

DRIFT_STEP_S: Final = 60.0
REASON: Final = "spot capacity is taken back"
_HOUR_S: Final = 3600.0


@dataclass(slots=True)
class _Host:
    slot: str
    born_s: float
    operation: str
    interruption_due: float
    """How much hazard it survives: hazard adds up over time at whatever rate then holds."""

    loss_due: float


class Cloud:
    """Slots, the hosts in them, prices and the bill."""

    def __init__(
        self, spec: SimSpec, clock: Clock, bill: Bill, struck: Callable[[Fault], None]
    ) -> None:
        self.spec = spec
        self.faults: Faults = spec.faults
        self.bill = bill
        self._clock = clock
        self.struck = struck
        self._slots = {slot.name: slot for slot in slots_of(spec)}
        self._hosts: dict[str, _Host] = {}
        self._taken_s: dict[str, float] = {}
        """When hosts whose hazard is spent are taken."""

        self._by_type: Counter[str] = Counter()
        self._spot_slots = Counter(
            slot.profile.zone for slot in self._slots.values() if _is_spot(slot)
        )
        self._start_s = self._seen_s = clock.now_s()
        self._drifted = 0

    def slots(self) -> Iterator[Slot]:
        """All there is, with today's prices."""
        return iter(self._slots.values())

    def has(self, slot: str, host: str) -> bool:
        """Whether the slot is there and holds this host; an empty name is no host."""
        found = self._slots.get(slot)
        return found is not None and (not host or found.host == host)

    def random(self, *about: object) -> Random:
        """The dice for one purpose."""
        return Random("/".join(map(str, (self.spec.seed, *about))))

    def populate(self, known: Mapping[str, str], machines: Mapping[str, str]) -> None:
        """Begin: with the hosts known from before a restart, by slot, and what is held anyway.

        `machines` are those that are known, by slot; the first of a slot is called as it is. What
        the bill has ended, and a kill did not let be noted elsewhere, has ended; what nobody can
        have any more, ends now.
        """
        called = {name: machines.get(name, name) for name in self._slots}
        for name, slot in self._slots.items():
            host = known.get(name, slot.host)
            if self.bill.has_ended(host):
                host = ""
            self._slots[name] = dataclasses.replace(slot, host=host)
            if host:
                self._put(host, name, "", called[name])
        self.bill.close_others({*called.values()}, now_s=self._clock.now_s())

    def refuse(self, slot: str) -> None:
        """Say no to a Create for which there is no stock or no quota."""
        profile = self._slots[slot].profile
        kind, zone = profile.instance_type, profile.zone
        if any((k, z) in self.faults.stock_outs for k in (kind, ANY) for z in (zone, ANY)):
            self.struck(Fault.STOCK_OUT)
            raise NoCapacity(f"out of stock: {kind} in {zone}")
        for name, used in ((kind, self._by_type[kind]), (ANY, len(self._hosts))):
            if name in self.faults.quotas and used >= self.faults.quotas[name]:
                self.struck(Fault.QUOTA)
                raise NoCapacity(f"quota reached: {used} hosts of {name} (slot {slot})")
        most = self._spot_most(zone, self._clock.now_s() - self._start_s)
        replayed = zone in self.spec.traces and _is_spot(self._slots[slot])
        if replayed and self._spot_running(zone) >= most:
            self.struck(Fault.STOCK_OUT)
            raise NoCapacity(f"no spot capacity in zone {zone}")

    def launch(self, slot: str, operation: str, machine: str) -> str:
        """Make a host for a machine; the same operation gets the same one."""
        there = self._slots[slot]
        if there.host:
            if self._hosts[there.host].operation != operation:
                raise NoCapacity(f"slot {slot} holds a host already: {there.host}")
            return there.host
        host = f"i-{hashlib.blake2b(f'{self.spec.seed}/{operation}'.encode()).hexdigest()[:17]}"
        self._put(host, slot, operation, machine)
        self._slots[slot] = dataclasses.replace(there, host=host)
        return host

    def terminate(self, slot: str) -> None:
        """Give the host of a slot back, if there is one."""
        host = self._slots[slot].host
        if host:
            self._remove(host)

    def lose(self, host: str, fault: Fault = Fault.LOSS) -> bool:
        """Take a host away; whether it was there."""
        if host not in self._hosts:
            return False
        self.struck(fault)
        self._remove(host)
        return True

    def advance(self) -> None:
        """Let happen what is due by now."""
        now = self._clock.now_s()
        hours = (now - self._seen_s) / _HOUR_S
        if hours <= 0.0:
            return
        self._seen_s = now
        self._drift(now)
        if self.faults.interruptions or self.faults.losses_per_hour or self._taken_s:
            self._strike(hours)
        for zone in self.spec.traces:
            self._replay(zone)

    def _strike(self, hours: float) -> None:
        for host, there in list(self._hosts.items()):
            slot = self._slots[there.slot]
            there.loss_due -= self.faults.losses_per_hour * hours
            there.interruption_due -= _hazard(slot) * self.faults.interruptions * hours
            if there.interruption_due <= 0.0 and host not in self._taken_s:
                self._taken_s[host] = self._seen_s + self.faults.notice_s
                self._tell(host, self._taken_s[host])
            if self._taken_s.get(host, math.inf) <= self._seen_s:
                self.lose(host, Fault.INTERRUPTION)
            elif there.loss_due <= 0.0:
                self.lose(host, Fault.LOSS)

    def _put(self, host: str, slot: str, operation: str, machine: str) -> None:
        now, there = self._clock.now_s(), self._slots[slot]
        if not self.bill.is_running(host):  # first: what cannot be billed is not there
            self.bill.open(host, there.price_per_hour, now_s=now, machine=machine)
        fate = self.random("fate", host)
        due = (fate.expovariate(1.0), fate.expovariate(1.0))
        self._hosts[host] = _Host(slot, now, operation, *due)
        self._by_type[there.profile.instance_type] += 1

    def _remove(self, host: str) -> None:
        self.bill.close(host, now_s=self._clock.now_s())
        slot = self._hosts.pop(host).slot
        self._taken_s.pop(host, None)
        there = self._slots[slot]
        self._slots[slot] = dataclasses.replace(there, host="", notice=None)
        self._by_type[there.profile.instance_type] -= 1

    def _drift(self, now_s: float) -> None:
        """Move spot prices, once a minute; a slot of one kind and zone costs as its neighbour."""
        due = int((now_s - self._start_s) // DRIFT_STEP_S)
        sigma = self.faults.price_drift * math.sqrt(DRIFT_STEP_S / _HOUR_S)
        steps, self._drifted = range(self._drifted, due), due
        if not sigma or not steps:
            return
        factors: dict[tuple[str, str], float] = {}
        for name, slot in self._slots.items():
            if not _is_spot(slot):
                continue
            key = (slot.profile.instance_type, slot.profile.zone)
            if key not in factors:
                moved = sum(self.random("price", *key, step).gauss(0.0, sigma) for step in steps)
                factors[key] = math.exp(moved)
            price = round(slot.price_per_hour * factors[key], 4)
            if slot.host:
                self.bill.reprice(slot.host, price, now_s=now_s)
            self._slots[name] = dataclasses.replace(slot, price_per_hour=price)

    def _replay(self, zone: str) -> None:
        """Take the youngest spot hosts of a zone, down to what the recording had.

        Who was told goes first. Who is told depends on who else is there: a word may be withdrawn.
        """
        ranked = sorted(
            (self._slots[there.slot].notice is not None, there.born_s, host)
            for host, there in self._hosts.items()
            if self._is_spot_in(zone, there)
        )
        running = [host for _, _, host in ranked]
        passed_s = self._seen_s - self._start_s
        most = self._spot_most(zone, passed_s)
        for host in running[most:]:
            self.lose(host, Fault.INTERRUPTION)
        taken_s = dict(self._taken_s)
        for tick in self.spec.traces[zone].ticks(passed_s, passed_s + self.faults.notice_s):
            for host in running[self._spot_most(zone, tick) : most]:
                taken_s[host] = min(taken_s.get(host, math.inf), self._start_s + tick)
        for host in running[:most]:
            self._tell(host, taken_s.get(host, math.inf))

    def _tell(self, host: str, taken_s: float) -> None:
        """Let the slot say when its host is taken; a host that stays has no notice."""
        slot = self._hosts[host].slot
        notice = None if math.isinf(taken_s) else InterruptionNotice(taken_s, REASON)
        if self._slots[slot].notice != notice:
            self._slots[slot] = dataclasses.replace(self._slots[slot], notice=notice)

    def _is_spot_in(self, zone: str, there: _Host) -> bool:
        slot = self._slots[there.slot]
        return _is_spot(slot) and slot.profile.zone == zone

    def _spot_most(self, zone: str, passed_s: float) -> int:
        """So many hosts there may be when this time has passed."""
        trace = self.spec.traces.get(zone)
        share = 1.0 if trace is None else trace.share_at(passed_s)
        return int(self._spot_slots[zone] * share)

    def _spot_running(self, zone: str) -> int:
        return sum(self._is_spot_in(zone, there) for there in self._hosts.values())


def _is_spot(slot: Slot) -> bool:
    return slot.profile.capacity_type is CapacityType.SPOT


def _hazard(slot: Slot) -> float:
    """The hourly rate whose chance within an hour is the declared one."""
    return -math.log1p(-min(slot.interruption_probability, 0.999999))
