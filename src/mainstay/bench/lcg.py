"""The fleet on which the Go reference was measured: the same machines and needs, bit for bit.

A linear congruential generator makes it; `input_hash` proves that it is the same one.
"""

from dataclasses import dataclass, field
from typing import Final

from mainstay.model.assignment import Assignment
from mainstay.model.cost import bucket_for
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import (
    INSTANCE_TYPE_KEY,
    ZONE_KEY,
    CapacityType,
    HostRef,
    Profile,
    labels_of,
)
from mainstay.model.resources import Resources, scale
from mainstay.model.state import State

RACK_KEY: Final = "topology.bigfleet/rack"

TIERS: Final = (100, 1_000, 10_000, 100_000, 1_000_000)
DOLLARS: Final = (1, 64, 8192)
CPU: Final = (96, 96, 192, 192, 4, 8, 16, 32, 64, 96, 8, 16, 8, 8, 4, 8, 16, 32, 64, 96)
GIB: Final = (
    768, 1024, 1536, 2048, 16, 32, 64, 128, 256, 384, 64, 128, 32, 32, 8, 16, 32, 64, 128, 192,
)  # fmt: skip
GPUS: Final = 8
GPU_TYPES: Final = 4
CENTS: Final = (0, 15, 25, 8)
SPOT: Final = 3
SPOT_PROBABILITY: Final = 0.05
ZONES: Final = ("zone-a", "zone-b", "zone-c")
CLUSTERS: Final = 50
TYPES: Final = 20

GANG, PLAIN, FLEX, ZONED = range(4)
"""What kinds of needs there are."""

_MASK: Final = 2**64 - 1


class Generator:
    """The generator; the order of its calls is part of the fleet."""

    def __init__(self) -> None:
        self._x = 20260101

    def below(self, bound: int) -> int:
        """The next number below `bound`."""
        self._x = (self._x * 6364136223846793005 + 1442695040888963407) & _MASK
        return (self._x >> 33) % bound


@dataclass(slots=True)
class Wish:
    """A need before it has a size and a form."""

    cluster: int
    kind: int = GANG
    type: int = 0
    zone: int = 0
    tier: int = 0
    interruption: int = 0
    reclamation: int = 0
    machines: int = 0
    weight: int = 0
    group: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """A machine before it has a form."""

    state: State
    type: int
    rack: int
    capacity: int
    wish: Wish | None


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything the generator made."""

    wishes: list[Wish]
    slots: list[Slot]
    new_gangs: list[Wish] = field(default_factory=list)
    preemptors: list[Wish] = field(default_factory=list)
    preemptor_racks: list[int] = field(default_factory=list)


def generate(machines: int, needs: int, racks: int) -> Fleet:
    """Needs, then their machines, then idle and speculative ones, then burst and preemptors."""
    random = Generator()
    configured, idle = machines * 85 // 100, machines * 10 // 100
    wishes = _wishes(random, needs)
    _size(wishes, configured)
    slots = [slot for wish in wishes for slot in _serving(random, wish, racks)]
    for state, count in ((State.IDLE, idle), (State.SPECULATIVE, machines - configured - idle)):
        for _ in range(count):
            kind, rack = random.below(TYPES), random.below(racks)
            slots.append(Slot(state, kind, rack, random.below(4), None))
    fleet = Fleet(wishes, slots)
    for number in range(needs // 50):
        fleet.new_gangs.append(_new_gang(random, number))
    for number in range(needs // 100):
        fleet.preemptors.append(_preemptor(random, number, racks, fleet.preemptor_racks))
    return fleet


def _wishes(random: Generator, count: int) -> list[Wish]:
    used: set[tuple[int, ...]] = set()
    wishes = []
    for number in range(count):
        wish = Wish(cluster=number % CLUSTERS)
        if (number // CLUSTERS) % 10 == 9:
            wish.type, wish.machines = random.below(4), 4 + random.below(13)
            wish.group = f"gang-{number}"
        else:
            _choose_kind(random, wish)
        tier, interruption = random.below(5), random.below(3)
        wish.reclamation = random.below(3)
        wish.tier, wish.interruption = tier, interruption
        if wish.kind != GANG:
            _make_distinct(wish, used, tier, interruption)
        wishes.append(wish)
    return wishes


def _choose_kind(random: Generator, wish: Wish) -> None:
    roll = random.below(16)
    if roll < 8:
        wish.kind, wish.type = PLAIN, 4 + roll
    elif roll == 8:
        wish.kind, wish.type = FLEX, 12
    else:
        wish.kind, wish.type = ZONED, 14 + random.below(6)
        wish.zone = random.below(3)
    wish.weight = 1 + random.below(100)


def _make_distinct(wish: Wish, used: set[tuple[int, ...]], tier: int, interruption: int) -> None:
    for attempt in range(15):
        wish.tier = (tier + attempt) % 5
        wish.interruption = (interruption + attempt // 5) % 3
        key = (
            wish.cluster, wish.type, wish.zone, wish.tier, wish.interruption, wish.reclamation,
        )  # fmt: skip
        if key not in used:
            used.add(key)
            return


def _size(wishes: list[Wish], configured: int) -> None:
    """Share the machines that gangs leave over by weight, the rest one each."""
    plain = [wish for wish in wishes if wish.kind != GANG]
    left = configured - sum(wish.machines for wish in wishes if wish.kind == GANG)
    weights = sum(wish.weight for wish in plain)
    for wish in plain:
        wish.machines = max(1, wish.weight * left // weights)
    spare = left - sum(wish.machines for wish in plain)
    while spare > 0:
        for wish in plain[:spare]:
            wish.machines += 1
        spare -= len(plain)


def _serving(random: Generator, wish: Wish, racks: int) -> list[Slot]:
    rack = random.below(racks) if wish.kind == GANG else 0
    slots = []
    for number in range(wish.machines):
        kind = 12 + number % 2 if wish.kind == FLEX else wish.type
        if wish.kind in {PLAIN, FLEX}:
            rack = random.below(racks)
        elif wish.kind == ZONED:
            rack = wish.zone + 3 * random.below(racks // 3)
        slots.append(Slot(State.CONFIGURED, kind, rack, random.below(4), wish))
    return slots


def _new_gang(random: Generator, number: int) -> Wish:
    wish = Wish(cluster=random.below(CLUSTERS), type=random.below(4), group=f"newgang-{number}")
    wish.machines = 4 + random.below(5)
    wish.tier = random.below(5)
    return wish


def _preemptor(random: Generator, number: int, racks: int, at: list[int]) -> Wish:
    wish = Wish(cluster=random.below(CLUSTERS), kind=PLAIN, type=4 + random.below(8))
    wish.tier, wish.interruption, wish.reclamation, wish.machines = 4, 2, 2, 5
    at.append(random.below(racks))
    if number % 10 == 9:
        wish.kind, wish.type, wish.group = GANG, random.below(4), f"p2gang-{number}"
    return wish


def input_hash(fleet: Fleet) -> str:
    """FNV-1a over a line per machine and need: equal for equal inputs, whoever made them."""
    lines = [_machine_line(number, slot) for number, slot in enumerate(fleet.slots)]
    lines += [
        f"{i}|{w.cluster}|{w.kind}|{w.type}|{w.zone}|{w.tier}|{w.interruption}|{w.reclamation}"
        f"|{w.machines}|{w.group}\n"
        for i, w in enumerate(fleet.wishes)
    ]
    lines += [
        f"B{i}|{w.cluster}|{w.type}|{w.tier}|{w.machines}\n" for i, w in enumerate(fleet.new_gangs)
    ]
    lines += [
        f"P{i}|{w.cluster}|{w.kind}|{w.type}|{fleet.preemptor_racks[i]}\n"
        for i, w in enumerate(fleet.preemptors)
    ]
    value = 14695981039346656037
    for byte in "".join(lines).encode():
        value = ((value ^ byte) * 1099511628211) & _MASK
    return f"{value:016x}"


def _machine_line(number: int, slot: Slot) -> str:
    wish = slot.wish
    cents = CENTS[slot.capacity] * (slot.type + 1)
    stamped = "0|0|0|"
    if wish is not None:
        dollars = DOLLARS[wish.interruption], DOLLARS[wish.reclamation]
        stamped = f"{TIERS[wish.tier]}|{dollars[0]}|{dollars[1]}|{wish.group}"
    cluster = "" if wish is None else f"cluster-{wish.cluster}"
    return (
        f"m-{number:07d}|{int(slot.state)}|{cluster}|type-{slot.type}|{ZONES[slot.rack % 3]}"
        f"|{slot.capacity + 1}|rack-{slot.rack}|{cents}|{stamped}\n"
    )


class Forms:
    """Gives wishes and slots their form; equal parts are made once."""

    def __init__(self) -> None:
        self._resources = [_resources(kind) for kind in range(TYPES)]
        self._profiles: dict[tuple[int, int, int], Profile] = {}
        self._assignments: dict[int, Assignment] = {}

    def need(self, wish: Wish, machines: int | None = None) -> Need:
        """A wish as a need for `machines` machines, or as many as it was given."""
        count = wish.machines if machines is None else machines
        whole = self._resources[wish.type].units
        quarter = {"cpu": CPU[wish.type] * 1000 // 4, "memory": GIB[wish.type] * 2**20 // 4}
        return Need(
            cluster=_cluster(wish),
            profile=_need_profile(wish),
            aggregate=scale(whole, count),
            min_unit=whole if wish.kind == GANG else quarter,
            arrival_nanos=1,
            group=wish.group,
        )

    def machine(self, number: int, slot: Slot) -> Machine:
        """A slot as a machine."""
        wish = slot.wish
        key = (slot.type, slot.rack, slot.capacity)
        if key not in self._profiles:
            self._profiles[key] = self._profile(slot)
        host = None if slot.state == State.SPECULATIVE else HostRef("lcg", f"h-{number:07d}")
        return Machine(
            id=MachineId(f"m-{number:07d}"),
            state=slot.state,
            profile=self._profiles[key],
            host=host,
            cluster=None if wish is None else _cluster(wish),
            price_per_hour=CENTS[slot.capacity] * (slot.type + 1) / 100,
            interruption_probability=SPOT_PROBABILITY if slot.capacity == SPOT else 0.0,
        )

    def assignment(self, wish: Wish) -> Assignment:
        """What a machine that serves a wish is committed to."""
        if id(wish) not in self._assignments:
            self._assignments[id(wish)] = Assignment(
                fingerprint=_need_profile(wish).fingerprint,
                group=wish.group,
                cluster=_cluster(wish),
                priority=TIERS[wish.tier],
                interruption_penalty_dollars=float(DOLLARS[wish.interruption]),
                reclamation_penalty_dollars=float(DOLLARS[wish.reclamation]),
            )
        return self._assignments[id(wish)]

    def _profile(self, slot: Slot) -> Profile:
        labels = {
            RACK_KEY: f"rack-{slot.rack}",
            "node.bigfleet/pool": f"pool-{slot.type % 4}",
            "kubernetes.io/arch": "amd64",
        }
        return Profile(
            f"type-{slot.type}",
            ZONES[slot.rack % 3],
            CapacityType(slot.capacity + 1),
            self._resources[slot.type],
            labels_of(labels),
        )


def _cluster(wish: Wish) -> ClusterId:
    return ClusterId(f"cluster-{wish.cluster}")


def _resources(kind: int) -> Resources:
    texts = {"cpu": str(CPU[kind]), "memory": f"{GIB[kind]}Gi"}
    if kind < GPU_TYPES:
        texts["nvidia.com/gpu"] = str(GPUS)
    return Resources(texts)


def _need_profile(wish: Wish) -> NeedProfile:
    types = ("type-12", "type-13") if wish.kind == FLEX else (f"type-{wish.type}",)
    requirements = [Requirement(INSTANCE_TYPE_KEY, Operator.IN, types)]
    if wish.kind == GANG:
        requirements.append(Requirement(RACK_KEY, Operator.SAME))
    if wish.kind == ZONED:
        requirements.append(Requirement(ZONE_KEY, Operator.IN, (ZONES[wish.zone],)))
    return NeedProfile(
        tuple(requirements),
        priority=TIERS[wish.tier],
        interruption_penalty_bucket=bucket_for(DOLLARS[wish.interruption]),
        reclamation_penalty_bucket=bucket_for(DOLLARS[wish.reclamation]),
    )
