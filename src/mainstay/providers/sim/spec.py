"""What a simulated cloud is made of: pools of slots, latencies, recordings, a seed."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mainstay.model.calls import Call
from mainstay.model.errors import Rejected
from mainstay.model.profile import CapacityType, Labels, Profile
from mainstay.providers.kit.backend import Slot
from mainstay.providers.sim.catalog import INTERRUPTION_PROBABILITY
from mainstay.providers.sim.faults import Faults
from mainstay.providers.sim.fleet import RACK_KEY
from mainstay.providers.sim.latency import CLOUD, Latency
from mainstay.providers.sim.offers import Offer
from mainstay.providers.sim.trace import Trace

SLOTS_PER_RACK: Final = 16

_SHORT: Final[Mapping[CapacityType, str]] = {
    CapacityType.BARE_METAL: "metal",
    CapacityType.RESERVED: "reserved",
    CapacityType.ON_DEMAND: "od",
    CapacityType.SPOT: "spot",
}
_HELD: Final = frozenset({CapacityType.BARE_METAL, CapacityType.RESERVED})
"""Paid for whether or not anybody uses them."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Slots of one kind."""

    offer: Offer
    capacity_type: CapacityType
    slots: int
    labels: Labels = ()
    """Beside that of the rack."""

    @property
    def price_per_hour(self) -> float:
        """What one of them costs."""
        if self.capacity_type is CapacityType.SPOT:
            return self.offer.spot_dollars_per_hour or self.offer.dollars_per_hour
        return 0.0 if self.capacity_type in _HELD else self.offer.dollars_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSpec:
    """The same spec and the same calls give the same answers."""

    pools: tuple[Pool, ...]
    seed: int = 1
    name: str = "sim"
    latencies: Mapping[Call, Latency] = field(default_factory=lambda: CLOUD)
    """Of the work behind a mutating call, and of the answer of a reading one."""

    traces: Mapping[str, Trace] = field(default_factory=dict)
    """By zone: how much of its spot capacity there is."""

    faults: Faults = field(default_factory=Faults)
    """What goes wrong from the start."""

    holds_grace: bool = False
    """Whether a drain takes all of its grace, as if workloads used every second of it."""

    holds_grace_of: frozenset[str] = frozenset()
    """The same for machines of these clusters only."""

    selectors: bool = False
    """Whether clusters named `fault-...` bring about what they are named for."""


def spread(
    offers: Sequence[Offer], slots: int, capacity_types: Sequence[CapacityType]
) -> tuple[Pool, ...]:
    """So many slots, dealt out evenly over offers and capacity types."""
    if slots < 1 or not offers or not capacity_types:
        raise Rejected(f"a cloud needs a slot, an offer and a capacity type: {slots} slots")
    kinds = [(offer, capacity) for capacity in capacity_types for offer in offers]
    dealt = Counter(itertools.islice(itertools.cycle(range(len(kinds))), slots))
    return tuple(Pool(*kinds[place], count) for place, count in sorted(dealt.items()))


def slots_of(spec: SimSpec) -> Iterator[Slot]:
    """Every slot as it is when the cloud is new: what is held has its hardware from the start."""
    numbers: Counter[str] = Counter()
    for pool in spec.pools:
        offer, capacity = pool.offer, pool.capacity_type
        stem = f"{offer.instance_type}.{offer.zone}.{_SHORT[capacity]}"
        first, numbers[stem] = numbers[stem], numbers[stem] + pool.slots
        for number in range(first, first + pool.slots):
            labels = ((RACK_KEY, f"{offer.zone}-r{number // SLOTS_PER_RACK}"), *pool.labels)
            name = f"{stem}.{number:05d}"
            yield Slot(
                name=name,
                profile=Profile(offer.instance_type, offer.zone, capacity, offer.resources, labels),
                host=f"h-{name}" if capacity in _HELD else "",
                price_per_hour=pool.price_per_hour,
                interruption_probability=INTERRUPTION_PROBABILITY.get(capacity, 0.0),
            )
