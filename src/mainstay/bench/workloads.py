"""Other fleets the Go reference publishes benches for: many small needs on idle machines."""

from typing import Final, NamedTuple

from mainstay.engine.plan import Demand
from mainstay.inventory.inventory import Inventory
from mainstay.model.batch import batch_of
from mainstay.model.cost import bucket_for
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.needs import NeedsTable
from mainstay.model.profile import INSTANCE_TYPE_KEY, CapacityType, HostRef, Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State

RACK_KEY: Final = "topology.bigfleet/rack"
RACKS: Final = 8
BUCKET: Final = bucket_for(8192)


class Archetype(NamedTuple):
    """A kind of workload: its share of a hundred, and what it cycles through."""

    name: str
    weight: int
    types: tuple[str, ...]
    sizes: tuple[tuple[int, int, int], ...]
    """(cpu, GiB, GPUs)."""

    priorities: tuple[int, ...]
    zones: tuple[str, ...]
    same_rack: bool = False


ABC: Final = ("zone-a", "zone-b", "zone-c")

# fmt: off
REALISTIC: Final = (
    Archetype("gpu-training", 5, ("a3-highgpu-8g",),
              ((64, 256, 8), (128, 512, 16)), (1000,), ABC, same_rack=True),
    Archetype("gpu-inference", 15, ("a3-highgpu-1g", "a2-highgpu-1g"),
              ((8, 32, 1), (16, 64, 2)), (100, 1000), ABC),
    Archetype("cpu-batch", 35, ("c6i.4xlarge", "c6i.8xlarge", "n2-standard-32"),
              ((4, 8, 0), (8, 16, 0), (16, 32, 0), (32, 64, 0)), (100,), ABC),
    Archetype("cpu-service", 30, ("m6i.large", "m6i.xlarge", "m6i.2xlarge"),
              ((2, 8, 0), (4, 16, 0), (8, 32, 0), (16, 64, 0)), (1000,), ABC),
    Archetype("memory-db", 10, ("r6i.xlarge", "r6i.2xlarge"),
              ((4, 32, 0), (4, 64, 0), (8, 128, 0)), (1000,), ABC[:2], same_rack=True),
    Archetype("critical-realtime", 5, ("c6i.4xlarge", "m6i.2xlarge"),
              ((8, 16, 0), (16, 32, 0)), (1_000_000,), ABC),
)
# fmt: on


SIZES: Final = {
    "realistic50k": (60_000, 50_000),
    "allsame50k": (60_000, 50_000),
    "onepool": (100_000, 20_000),
}
"""Machines, all Idle, and needs of each workload at full size."""


class Counts(NamedTuple):
    """What a workload is made of."""

    by_state: dict[State, int]
    needs: int
    gangs: int


class Workload(NamedTuple):
    """A stocked inventory and what is asked of it."""

    inventory: Inventory
    demand: Demand


def realistic50k(*, all_same: bool, share: float = 1.0) -> Workload:
    """60,000 idle machines, 50 clusters with 1,000 needs of one machine each."""
    machines = int(60_000 * share)
    per_cluster = int(1_000 * share)
    stock = [_machine(at, _archetype(at % 100), at) for at in range(machines)]
    clusters = [ClusterId(f"cluster-{number:05d}") for number in range(50)]
    needs = {
        cluster: [
            _need(cluster, _archetype((at * 37 + number) % 100), at, same=all_same)
            for at in range(per_cluster)
        ]
        for number, cluster in enumerate(clusters)
    }
    return Workload(_stocked(stock), _demand(needs))


def onepool(*, share: float = 1.0) -> Workload:
    """100,000 idle machines of one type in 8 racks; 20,000 clusters, each with a gang of one."""
    kind = Archetype(
        "cache", 100, ("r6i.2xlarge",), ((4, 32, 0),), (1000,), ("zone-a",), same_rack=True
    )
    stock = [_machine(at, kind, at) for at in range(int(100_000 * share))]
    clusters = [ClusterId(f"cluster-{number:05d}") for number in range(int(20_000 * share))]
    return Workload(_stocked(stock), _demand({c: [_need(c, kind, 0, same=True)] for c in clusters}))


def _archetype(roll: int) -> Archetype:
    for archetype in REALISTIC:
        if roll < archetype.weight:
            return archetype
        roll -= archetype.weight
    raise AssertionError("the weights add up to a hundred")


def _machine(number: int, kind: Archetype, at: int) -> Machine:
    rack = f"rack-{kind.name}-{at // 100 % RACKS}"
    profile = Profile(
        kind.types[at // 7 % len(kind.types)],
        kind.zones[at // 3 % len(kind.zones)],
        CapacityType.BARE_METAL,
        _resources(kind.sizes[at // 11 % len(kind.sizes)]),
        ((RACK_KEY, rack),),
    )
    return Machine(
        id=MachineId(f"m-{number:06d}"),
        state=State.IDLE,
        profile=profile,
        host=HostRef("bench", f"h-{number:06d}"),
        price_per_hour=1.0,
    )


def _need(cluster: ClusterId, kind: Archetype, at: int, *, same: bool) -> Need:
    requirements = [
        Requirement(INSTANCE_TYPE_KEY, Operator.IN, (kind.types[at % len(kind.types)],))
    ]
    if same or kind.same_rack:
        requirements.append(Requirement(RACK_KEY, Operator.SAME))
    units = _resources(kind.sizes[at % len(kind.sizes)]).units
    profile = NeedProfile(
        tuple(requirements),
        priority=kind.priorities[at % len(kind.priorities)],
        interruption_penalty_bucket=BUCKET,
        reclamation_penalty_bucket=BUCKET,
    )
    return Need(
        cluster=cluster, profile=profile, aggregate=units, min_unit=units,
        arrival_nanos=1, group=f"g-{at}" if same or kind.same_rack else "",
    )  # fmt: skip


_MADE: dict[tuple[int, int, int], Resources] = {}


def _resources(size: tuple[int, int, int]) -> Resources:
    if size not in _MADE:
        cpu, gib, gpus = size
        texts = {"cpu": str(cpu), "memory": f"{gib}Gi"}
        _MADE[size] = Resources(texts | ({"nvidia.com/gpu": str(gpus)} if gpus else {}))
    return _MADE[size]


def _stocked(machines: list[Machine]) -> Inventory:
    inventory = Inventory()
    inventory.merge(batch_of(machines), now=0.0)
    return inventory


def _demand(needs: dict[ClusterId, list[Need]]) -> Demand:
    table = NeedsTable()
    for cluster, rows in needs.items():
        table.replace(cluster, rows)
    return Demand(table.snapshot(), frozenset(needs))


def make(name: str, share: float) -> Workload:
    """A workload by name, at a share of its size."""
    if name == "onepool":
        return onepool(share=share)
    return realistic50k(all_same=name == "allsame50k", share=share)


def expected(name: str, share: float) -> Counts:
    """The counts of a workload: those of the reference at full size."""
    machines, needs = (int(count * share) for count in SIZES[name])
    gangs = needs
    if name == "realistic50k":
        rolls = ((at * 37 + number) % 100 for number in range(50) for at in range(needs // 50))
        gangs = sum(_archetype(roll).same_rack for roll in rolls)
    return Counts({State.IDLE: machines}, needs, gangs)
