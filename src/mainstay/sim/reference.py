"""The closed-loop scenarios of the reference, S76 to S87, as scenes.

Machines whose size a scenario does not name have eight cores. Pods are left out: a need states what
they add up to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from random import Random
from types import MappingProxyType
from typing import Final

from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, CapacityType
from mainstay.model.resources import Resources, Units, scale
from mainstay.model.state import State
from mainstay.sim.stage import BATCH, CORES, RACK_KEY, TRAIN, WEB, Builder, Kind, Scene, a_need

TINY: Final = Kind("tiny", Resources({"cpu": "10"}))
SERVICE: Final = Kind("service", Resources({"cpu": "20"}))
GPUS: Final = Kind("a3-highgpu-8g", Resources({"nvidia.com/gpu": "8"}))
EVEN: Final = Kind("even", Resources({"cpu": "10", "memory": "10Gi"}))
LARGE: Final = Kind("large", Resources({"cpu": "20", "memory": "160Gi"}))
METAL: Final = replace(CORES, capacity_type=CapacityType.BARE_METAL)
ON_DEMAND: Final = replace(CORES, capacity_type=CapacityType.ON_DEMAND, price_per_hour=6.0)


def _wanted(
    cluster: ClusterId, kind: Kind, machines: int,
    *, min_unit: Units | None = None, gang: str = "", same: str = RACK_KEY,
) -> Need:  # fmt: skip
    """So many machines of a kind; each must hold the min unit, by default all of a machine."""
    requirements = [Requirement(INSTANCE_TYPE_KEY, Operator.IN, (kind.instance_type,))]
    if gang:
        requirements.append(Requirement(same, Operator.SAME))
    return Need(
        cluster=cluster,
        profile=NeedProfile(tuple(requirements), priority=100, reclamation_penalty_bucket=3),
        aggregate=scale(kind.resources.units, machines),
        min_unit=kind.resources.units if min_unit is None else min_unit,
        group=gang,
    )


def _gangs(cluster: ClusterId, kind: Kind, sizes: tuple[int, ...]) -> list[Need]:
    return [
        _wanted(cluster, kind, size, gang=f"{cluster}-{number}")
        for number, size in enumerate(sizes)
    ]


def _s76(_: Random) -> Scene:
    """Two clusters with plain demand for two kinds of machines and gangs of a third."""
    build = Builder()
    needs: list[Need] = []
    for place, cluster in enumerate((WEB, BATCH)):
        tiny = _wanted(cluster, TINY, 20, min_unit={"cpu": 1_000})
        service = _wanted(cluster, SERVICE, 5, min_unit={"cpu": 2_000})
        gangs = _gangs(cluster, GPUS, (4, 4, 4))
        build.add(22, State.CONFIGURED, need=tiny, kind=TINY)
        build.add(4, State.CONFIGURED, need=service, kind=SERVICE)
        for number, gang in enumerate(gangs):
            build.add(4, State.CONFIGURED, rack=3 * place + number, need=gang, kind=GPUS)
        needs += [tiny, service, *gangs]
    for kind in (TINY, SERVICE, GPUS):
        build.add(2, State.IDLE, rack=6, kind=kind)
        build.add(4, State.SPECULATIVE, rack=6, kind=kind)
    return build.done(needs)


def _s79(_: Random) -> Scene:
    """Gangs of four that serve from racks of one or two machines; no rack could hold one."""
    build = Builder()
    needs = [*_gangs(WEB, CORES, (4, 4, 4)), *_gangs(BATCH, CORES, (4, 4, 4))]
    racks = cycle(range(20))
    for need in [need for need in needs for member in range(4)]:
        build.add(1, State.CONFIGURED, rack=next(racks), need=need)
    for state in (State.IDLE,) * 8 + (State.SPECULATIVE,) * 8:
        build.add(1, state, rack=next(racks))
    return build.done(needs)


def _s80(_: Random) -> Scene:
    """A gang of eight that holds a rack of four, all there can be, and two gangs of four."""
    mega, *others = _gangs(TRAIN, CORES, (8, 4, 4))
    build = Builder()
    build.add(4, State.CONFIGURED, rack=0, need=mega)
    for rack in range(1, 6):
        build.add(4, State.IDLE, rack=rack)
    return build.done([mega, *others])


def _s81(_: Random) -> Scene:
    """Two clusters with twelve gangs each, of which two fit into one machine, and six machines."""
    needs = [
        replace(gang, aggregate={"cpu": 8_000, "memory": 64 << 20},
                min_unit={"cpu": 2_000, "memory": 16 << 20})
        for cluster in (WEB, BATCH)
        for gang in _gangs(cluster, LARGE, (1,) * 12)
    ]  # fmt: skip
    build = Builder(LARGE)
    for rack in range(4):
        build.add(3, State.IDLE, rack=rack)
    return build.done(needs)


def _s82_idle(_: Random) -> Scene:
    """Gangs of twelve, and racks of eight free machines."""
    build = Builder()
    for rack in range(10):
        build.add(4, State.IDLE, rack=rack)
        build.add(4, State.SPECULATIVE, rack=rack)
    return build.done([*_gangs(WEB, CORES, (12,) * 3), *_gangs(BATCH, CORES, (12,) * 3)])


def _s82_serving(_: Random) -> Scene:
    """Six clusters with gangs of twelve that hold a rack of four each."""
    build = Builder()
    clusters = [ClusterId(f"c-{number}") for number in range(6)]
    needs = [gang for cluster in clusters for gang in _gangs(cluster, CORES, (12,) * 3)]
    for rack, need in enumerate(needs):
        build.add(4, State.CONFIGURED, rack=rack, need=need)
    for rack in range(18, 24):
        build.add(4, State.IDLE, rack=rack)
    return build.done(needs)


def _s83(_: Random) -> Scene:
    """Two clusters whose machines are just enough, with pods that are not bound yet."""
    build = Builder(EVEN)
    needs = [_wanted(cluster, EVEN, 20, min_unit={"cpu": 4_000}) for cluster in (WEB, BATCH)]
    for need in needs:
        build.add(20, State.CONFIGURED, need=need)
    build.add(12, State.IDLE)
    return build.done(needs)


def _s85(_: Random) -> Scene:
    """Gangs of three in racks of three, with as many racks again that are free."""
    build = Builder()
    needs = [*_gangs(WEB, CORES, (3,) * 4), *_gangs(BATCH, CORES, (3,) * 4)]
    for rack, need in enumerate(needs):
        build.add(3, State.CONFIGURED, rack=rack, need=need)
    for rack in range(8, 26):
        build.add(3, State.IDLE if rack < 14 else State.SPECULATIVE, rack=rack)
    return build.done(needs)


@dataclass(frozen=True, slots=True)
class _Field:
    """A pool of racks, and what each of two clusters wants of it."""

    racks: int
    per_rack: int
    in_rack: tuple[int, ...]
    """Sizes of the gangs that must share a rack."""

    in_zone: tuple[int, ...]
    """Sizes of the gangs that must share a zone of five racks."""


_FIELDS: Final[Mapping[str, _Field]] = MappingProxyType({
    "aligned": _Field(20, 4, (4, 4, 2, 2), (4, 8)),
    "mismatched": _Field(20, 3, (2, 2, 4), (4, 5)),
    "non-tiling": _Field(15, 5, (3, 3, 4), (7, 4)),
    "many-racks": _Field(40, 2, (2, 2, 2, 2), (6, 8)),
    "tight-pool": _Field(10, 4, (4, 4, 2), (4, 5)),
    "big-pool": _Field(50, 4, (4, 3, 2), (4, 6)),
    "field-scale": _Field(60, 5, (4, 4, 3, 3, 2, 2), (8, 8, 6, 4)),
})  # fmt: skip


def _s86(field: _Field, _: Random) -> Scene:
    """Two clusters that have nothing yet, with gangs of both sorts, on one kind of machine."""
    needs: list[Need] = []
    for cluster in (WEB, BATCH):
        needs += _gangs(cluster, CORES, field.in_rack)
        needs += [
            _wanted(cluster, CORES, size, gang=f"{cluster}-z{number}", same=ZONE_KEY)
            for number, size in enumerate(field.in_zone)
        ]
    build = Builder(racks_per_zone=5)
    for rack in range(field.racks):
        build.add(field.per_rack, State.SPECULATIVE if rack % 3 == 2 else State.IDLE, rack=rack)
    return build.done(needs)


def _s87(_: Random) -> Scene:
    """A cluster on bare metal that wants more than there is of it, and slots to buy."""
    web = a_need(WEB, 20, priority=100)
    build = Builder(METAL)
    build.add(12, State.CONFIGURED, need=web)
    build.add(3, State.IDLE)
    build.add(9, State.SPECULATIVE, kind=ON_DEMAND)
    return build.done([web])


REFERENCE_SCENES: Final[Mapping[str, Callable[[Random], Scene]]] = MappingProxyType(
    {
        "s76": _s76,
        "s79": _s79,
        "s80": _s80,
        "s81": _s81,
        "s82-idle": _s82_idle,
        "s82-serving": _s82_serving,
        "s83": _s83,
        "s85": _s85,
        **{f"s86-{name}": partial(_s86, field) for name, field in _FIELDS.items()},
        "s87": _s87,
    }
)
