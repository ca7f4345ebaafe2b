"""The fleets `uber5k` and `uber50k` of the Go reference's published runs, made by arithmetic alone.

Its catalogue gives each archetype a frequency of workload objects, pods per object and pods per
machine. Machines are shared out by that, with largest remainders, and a gang archetype gets at
least one block of its largest gang per zone. Pods are shared out the same way over clusters of
25,000. What is drawn there (sizes, gang sizes, spread) is rotated here, in the same proportions.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from mainstay.bench.workloads import RACK_KEY, Counts, Workload
from mainstay.engine.plan import Demand
from mainstay.inventory.inventory import Inventory
from mainstay.model.assignment import Assignment
from mainstay.model.batch import batch_of
from mainstay.model.cost import bucket_for
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.metadata import encode
from mainstay.model.need import (
    Need,
    NeedProfile,
    Operator,
    Requirement,
    Spread,
    WhenUnsatisfiable,
)
from mainstay.model.needs import NeedsTable
from mainstay.model.profile import (
    INSTANCE_TYPE_KEY,
    ZONE_KEY,
    CapacityType,
    HostRef,
    Profile,
    labels_of,
)
from mainstay.model.resources import Resources, from_units, scale
from mainstay.model.state import State

ZONES: Final = ("zone-a", "zone-b", "zone-c")
RACKS_PER_ZONE: Final = 4
PODS_PER_CLUSTER: Final = 25_000
MACHINES_PER_CLUSTER: Final = 250
"""Nominal; gang archetypes are rounded up to their blocks."""

IDLE_SHARE: Final = Fraction(1, 5)
SPECULATIVE_TIMES: Final = 3
MEAN_REPLICAS: Final = Fraction(21_375, 1_000)
SPECULATIVE_PRICE: Final = 1.0
SPECULATIVE_PROBABILITY: Final = 0.05

CLUSTERS: Final[Mapping[str, int]] = {"uber5k": 20, "uber50k": 200}
"""At full size."""


class Pod(NamedTuple):
    """One size of pod, and how many of a hundred are of it."""

    milli_cpu: int
    mebibytes: int
    gpus: int
    weight: int

    @property
    def units(self) -> dict[str, int]:
        """Its amounts per dimension."""
        amounts = {"cpu": self.milli_cpu, "memory": self.mebibytes * 1024}
        return amounts | ({"nvidia.com/gpu": self.gpus} if self.gpus else {})


class Archetype(NamedTuple):
    """A kind of workload."""

    name: str
    weight: int
    pods_per_machine: int
    types: tuple[str, ...]
    pods: tuple[Pod, ...]
    priority: int
    dollars: tuple[int, int]
    """Interruption and reclamation penalty."""

    gang: tuple[int, int] = (0, 0)
    """Smallest and largest gang, all in one rack; none when zero."""

    spread_percent: int = 0
    """Of its pods, how many insist on being spread over zones with a skew of one."""

    @property
    def mean_pods(self) -> Fraction:
        """Pods of one workload object."""
        return Fraction(sum(self.gang), 2) if self.gang[1] else MEAN_REPLICAS


GI: Final = 1024
A3: Final = ("a3-highgpu-8g",)

# fmt: off
CATALOGUE: Final = (
    Archetype("tiny-stateless", 16_073, 100, ("m6i.large", "m6i.xlarge"),
              (Pod(400, 500, 0, 60), Pod(300, 384, 0, 40)), 100, (32, 64)),
    Archetype("cpu-service", 2_755, 100, ("m6i.xlarge", "m6i.2xlarge"),
              (Pod(2200, 8500, 0, 70), Pod(4200, 16_500, 0, 30)), 1000, (1024, 8192),
              spread_percent=75),
    Archetype("cpu-batch", 1_378, 100, ("c6i.4xlarge", "c6i.8xlarge", "n2-standard-32"),
              (Pod(4000, 8 * GI, 0, 60), Pod(8000, 16 * GI, 0, 40)), 100, (64, 256)),
    Archetype("critical-realtime", 230, 100, ("c6i.4xlarge", "m6i.2xlarge"),
              (Pod(4000, 8 * GI, 0, 100),), 1_000_000, (65_536, 65_536), spread_percent=100),
    Archetype("memory-cache", 2_000, 100, ("r6i.xlarge", "r6i.2xlarge"),
              (Pod(2000, 16 * GI, 0, 100),), 1000, (4096, 16_384), gang=(3, 5)),
    Archetype("stateful-db", 2_000, 100, ("r6i.2xlarge", "r6i.4xlarge"),
              (Pod(8000, 32 * GI, 0, 100),), 1000, (8192, 32_768), gang=(3, 5)),
    Archetype("gpu-inference", 100, 8, ("a3-highgpu-8g", "a2-highgpu-8g"),
              (Pod(8000, 32 * GI, 1, 100),), 1000, (4096, 8192)),
    Archetype("gpu-training-small", 32, 1, A3,
              (Pod(64_000, 256 * GI, 8, 100),), 1000, (16_384, 32_768), gang=(2, 8)),
    Archetype("gpu-training-medium", 18, 1, A3,
              (Pod(64_000, 256 * GI, 8, 100),), 1000, (32_768, 65_536), gang=(8, 16)),
)
# fmt: on
"""Without the one gang of hundreds that the reference keeps for a burst."""


def machines_of(total: int) -> dict[str, int]:
    """A number of machines shared out over the archetypes, gang archetypes rounded up."""
    rates = [kind.weight * kind.mean_pods / kind.pods_per_machine for kind in CATALOGUE]
    shared = _largest_remainder(total, rates)
    floors = [kind.gang[1] * len(ZONES) for kind in CATALOGUE]
    return {
        kind.name: max(count, floor)
        for kind, count, floor in zip(CATALOGUE, shared, floors, strict=True)
    }


def _largest_remainder(total: int, rates: Sequence[Fraction]) -> list[int]:
    shares = [total * rate / sum(rates) for rate in rates]
    counts = [int(share) for share in shares]
    by_remainder = sorted(range(len(rates)), key=lambda at: (counts[at] - shares[at], at))
    for at in by_remainder[: total - sum(counts)]:
        counts[at] += 1
    return counts


def expected(name: str, share: float = 1.0) -> Counts:
    """The counts of a workload, by arithmetic; the published ones at full size."""
    clusters = _clusters(name, share)
    nominal = clusters * MACHINES_PER_CLUSTER
    by_state = {
        State.SPECULATIVE: sum(machines_of(nominal * SPECULATIVE_TIMES).values()),
        State.IDLE: sum(machines_of(int(nominal * IDLE_SHARE)).values()),
        State.CONFIGURED: clusters * sum(machines_of(MACHINES_PER_CLUSTER).values()),
    }
    gangs = sum(int(_gangs_per_cluster(kind) * clusters) for kind in CATALOGUE if kind.gang[1])
    plain = sum(len(_spreads(kind)) for kind in CATALOGUE if not kind.gang[1])
    return Counts(by_state, gangs + plain * clusters, gangs)


def _clusters(name: str, share: float) -> int:
    return max(1, int(CLUSTERS[name] * share))


def make(name: str, share: float = 1.0) -> Workload:
    """A workload by name, at a share of its clusters."""
    clusters = [ClusterId(f"cluster-{number:03d}") for number in range(_clusters(name, share))]
    needs = {
        cluster: [need for kind in CATALOGUE for need in _needs(kind, number, cluster)]
        for number, cluster in enumerate(clusters)
    }
    inventory = Inventory()
    inventory.merge(batch_of(list(_machines(needs))), now=0.0)
    table = NeedsTable()
    for cluster, rows in needs.items():
        table.replace(cluster, rows)
    return Workload(inventory, Demand(table.snapshot(), frozenset(clusters)))


# Demand


def _pods_per_cluster(kind: Archetype) -> Fraction:
    rates = {other.name: other.weight * other.mean_pods for other in CATALOGUE}
    return PODS_PER_CLUSTER * rates[kind.name] / sum(rates.values())


def _gangs_per_cluster(kind: Archetype) -> Fraction:
    return _pods_per_cluster(kind) / kind.mean_pods


def _spreads(kind: Archetype) -> list[tuple[int, bool]]:
    """(Percent of its pods, whether they insist on a spread): each a row of its own."""
    hard = kind.spread_percent
    return [(percent, is_hard) for percent, is_hard in ((100 - hard, False), (hard, True))
            if percent]  # fmt: skip


def _needs(kind: Archetype, cluster_number: int, cluster: ClusterId) -> Iterator[Need]:
    if kind.gang[1]:
        yield from _gang_needs(kind, cluster_number, cluster)
        return
    pods = _pods_per_cluster(kind)
    smallest = {
        dimension: max(pod.units[dimension] for pod in kind.pods)
        for dimension in kind.pods[0].units
    }
    for percent, is_hard in _spreads(kind):
        total = {
            dimension: int(sum(
                pods * percent * pod.weight * pod.units[dimension] / 10_000 for pod in kind.pods
            ))
            for dimension in smallest
        }  # fmt: skip
        yield Need(
            cluster=cluster, profile=_need_profile(kind, spread=is_hard),
            aggregate=total, min_unit=smallest, arrival_nanos=1,
        )  # fmt: skip


def _gang_needs(kind: Archetype, cluster_number: int, cluster: ClusterId) -> Iterator[Need]:
    """Numbered over the whole fleet, so that clusters get the fractions in turn."""
    per_cluster, (least, most) = _gangs_per_cluster(kind), kind.gang
    first, end = (int(per_cluster * number) for number in (cluster_number, cluster_number + 1))
    for number in range(first, end):
        pods = least + number % (most - least + 1)
        yield Need(
            cluster=cluster, profile=_need_profile(kind), arrival_nanos=1,
            aggregate=scale(kind.pods[0].units, pods), min_unit=kind.pods[0].units,
            group=f"{kind.name}-{number}",
        )  # fmt: skip


def _need_profile(kind: Archetype, *, spread: bool = False, same: bool = True) -> NeedProfile:
    requirements = [Requirement(INSTANCE_TYPE_KEY, Operator.IN, kind.types)]
    if kind.gang[1] and same:
        requirements.append(Requirement(RACK_KEY, Operator.SAME))
    return NeedProfile(
        tuple(requirements),
        (Spread(ZONE_KEY, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE),) if spread else (),
        priority=kind.priority,
        interruption_penalty_bucket=bucket_for(kind.dollars[0]),
        reclamation_penalty_bucket=bucket_for(kind.dollars[1]),
    )


# Machines


def _machines(needs: Mapping[ClusterId, Sequence[Need]]) -> Iterator[Machine]:
    forms = Forms()
    for number, (cluster, rows) in enumerate(needs.items()):
        for kind in CATALOGUE:
            count = machines_of(MACHINES_PER_CLUSTER)[kind.name]
            serving = _serving(kind, cluster, rows, count)
            for at in range(count):
                yield forms.machine(State.CONFIGURED, kind, at, number, serving[at])
    nominal = len(needs) * MACHINES_PER_CLUSTER
    totals = (
        (State.IDLE, int(nominal * IDLE_SHARE)), (State.SPECULATIVE, nominal * SPECULATIVE_TIMES),
    )  # fmt: skip
    for state, total in totals:
        for kind in CATALOGUE:
            for at in range(machines_of(total)[kind.name]):
                yield forms.machine(state, kind, at)


def _serving(
    kind: Archetype, cluster: ClusterId, rows: Sequence[Need], count: int
) -> list[Assignment]:
    """What each of a cluster's machines of one archetype is committed to.

    Gangs of whole machines own theirs, each in a block of its own; gangs that share a machine own
    it together; rows of one archetype own machines as they own pods.
    """
    if kind.gang[1] and kind.pods_per_machine > 1:
        return [_commitment(kind, cluster, _need_profile(kind, same=False))] * count
    if not kind.gang[1]:
        parts = _spreads(kind)
        hard = count * parts[-1][0] // 100 if parts[-1][1] else 0
        return [
            _commitment(kind, cluster, _need_profile(kind, spread=at < hard))
            for at in range(count)
        ]  # fmt: skip
    spare = _commitment(kind, cluster, _need_profile(kind))
    serving, block = [spare] * count, kind.gang[1]
    gangs = [need for need in rows if need.group.startswith(f"{kind.name}-")]
    for place, need in enumerate(gangs):
        members = need.aggregate["cpu"] // kind.pods[0].milli_cpu
        own = _commitment(kind, cluster, need.profile, need.group)
        serving[place * block : place * block + members] = [own] * members
    return serving


def _commitment(
    kind: Archetype, cluster: ClusterId, profile: NeedProfile, group: str = ""
) -> Assignment:
    return Assignment(
        fingerprint=profile.fingerprint, group=group, cluster=cluster, priority=kind.priority,
        interruption_penalty_dollars=float(kind.dollars[0]),
        reclamation_penalty_dollars=float(kind.dollars[1]),
    )  # fmt: skip


class Forms:
    """Gives machines their form; equal parts are made once."""

    def __init__(self) -> None:
        self._number = 0
        self._profiles: dict[tuple[str, str, str, str, bool], Profile] = {}
        self._metadata: dict[Assignment, Mapping[str, str]] = {}

    def machine(
        self, state: State, kind: Archetype, at: int, cluster: int = 0,
        serving: Assignment | None = None,
    ) -> Machine:  # fmt: skip
        """The machine number `at` of its archetype in its cluster, or in the fleet."""
        number, self._number = self._number, self._number + 1
        slot = state is State.SPECULATIVE
        metadata: Mapping[str, str] = {}
        if serving is not None:
            if serving not in self._metadata:
                self._metadata[serving] = encode(serving)
            metadata = self._metadata[serving]
        return Machine(
            id=MachineId(f"m-{number:06d}"),
            state=state,
            profile=self._profile(kind, at, cluster, slot=slot),
            host=None if slot else HostRef("uber", f"h-{number:06d}"),
            cluster=None if serving is None else serving.cluster,
            price_per_hour=SPECULATIVE_PRICE if slot else 0.0,
            interruption_probability=SPECULATIVE_PROBABILITY if slot else 0.0,
            shard_metadata=metadata,
        )

    def _profile(self, kind: Archetype, at: int, cluster: int, *, slot: bool) -> Profile:
        """Types rotate by machine; zones too, or by whole blocks where gangs are to fit in."""
        block = at // kind.gang[1] if kind.gang[1] else at
        zone = ZONES[block % len(ZONES)]
        rack = f"{zone}-{kind.name}-{(cluster + block // len(ZONES)) % RACKS_PER_ZONE}"
        instance_type = kind.types[at % len(kind.types)]
        key = (kind.name, instance_type, zone, rack, slot)
        if key not in self._profiles:
            capacity_type = CapacityType.ON_DEMAND if slot else CapacityType.BARE_METAL
            self._profiles[key] = Profile(
                instance_type, zone, capacity_type, _capacity(kind), labels_of({RACK_KEY: rack})
            )
        return self._profiles[key]


def _capacity(kind: Archetype) -> Resources:
    """As many pods of the most frequent size as belong on one machine."""
    units = scale(kind.pods[0].units, kind.pods_per_machine)
    return Resources({name: from_units(name, amount) for name, amount in units.items()})
