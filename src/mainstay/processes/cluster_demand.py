"""What a simulated cluster asks for, step by step: a day's rise and fall, a walk, now and then a
spike.

Pure: the same spec gives the same rows in the same order.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from mainstay.model.cost import bucket_for
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import (
    Need,
    NeedProfile,
    Operator,
    Requirement,
    Spread,
    WhenUnsatisfiable,
)
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.resources import Units, scale
from mainstay.providers.sim.fleet import RACK_KEY
from mainstay.providers.sim.offers import GPU, small_catalog

MACHINES_MAX: Final = 100_000

TIDE: Final = 0.3
"""How far a day's peak is above its mean, and its trough below."""

STRAY: Final = 0.05
"""How far the walk goes in a usual step, as a share of the mean."""

PULL: Final = 0.1
"""How much of its way the walk comes back per step."""

SPIKE: Final = 0.5
SPIKE_STEPS: Final = 5
SPIKE_CHANCE: Final = 0.02
"""Of a spike to begin at a step."""

GANG_MACHINES: Final = 4
_GIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of workload: what a machine's worth of it takes, and how much it matters."""

    name: str
    share: float
    """Of the cluster's machines."""

    unit: Units
    exact_type: str
    """The instance type of the catalogue that holds one such unit and no second."""

    priority: int
    penalty_dollars: float
    requirements: tuple[Requirement, ...] = ()
    spread: tuple[Spread, ...] = ()

    @property
    def is_gang(self) -> bool:
        """Whether it runs whole and in one place, or not at all."""
        return any(each.operator is Operator.SAME for each in self.requirements)

    def profile(self, *, exact: bool = False) -> NeedProfile:
        """The identity of its demand."""
        bucket = bucket_for(self.penalty_dollars)
        only = Requirement(INSTANCE_TYPE_KEY, Operator.IN, (self.exact_type,))
        return NeedProfile(
            (*self.requirements, only) if exact else self.requirements,
            self.spread,
            priority=self.priority,
            interruption_penalty_bucket=bucket,
            reclamation_penalty_bucket=bucket,
        )


KINDS: Final = (
    Kind(
        name="web", share=0.5, unit={"cpu": 4_000, "memory": 16 * _GIB},
        exact_type="m5.xlarge", priority=100_000, penalty_dollars=64.0,
        spread=(Spread(ZONE_KEY, 4, WhenUnsatisfiable.SCHEDULE_ANYWAY),),
    ),
    Kind(
        name="batch", share=0.3, unit={"cpu": 8_000, "memory": 16 * _GIB},
        exact_type="c5.2xlarge", priority=1_000, penalty_dollars=1.0,
    ),
    Kind(
        name="inference", share=0.1, unit={"cpu": 4_000, "memory": 16 * _GIB, GPU: 1},
        exact_type="g4dn.xlarge", priority=10_000, penalty_dollars=8.0,
    ),
    Kind(
        name="training", share=0.1, unit={"cpu": 8_000, "memory": 32 * _GIB},
        exact_type="m6i.2xlarge", priority=10_000, penalty_dollars=64.0,
        requirements=(Requirement(RACK_KEY, Operator.SAME),),
    ),
)  # fmt: skip


def whole_machines(instance_type: str, priority: int) -> Kind:
    """Demand for machines of one type, each taken whole."""
    sold = {offer.instance_type: offer for offer in small_catalog()}
    if instance_type not in sold:
        raise Rejected(f"no such instance type: {instance_type[:80]} (one of {', '.join(sold)})")
    return Kind(
        name=instance_type,
        share=1.0,
        unit=dict(sold[instance_type].resources.units),
        exact_type=instance_type,
        priority=priority,
        penalty_dollars=1.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSpec:
    """One cluster's demand over time."""

    cluster: ClusterId
    machines: int
    """About so many are asked for on average."""

    seed: int = 1
    steps_per_day: int = 60
    steady: bool = False
    """Whether it asks for the same at every step."""

    exact: bool = False
    """Whether every machine holds one unit, so that machines can be counted by demand."""

    only: Kind | None = None
    """The one kind of workload there is; None: those of `KINDS`."""

    def __post_init__(self) -> None:
        if not 1 <= self.machines <= MACHINES_MAX:
            raise Rejected(f"a cluster asks for 1 to {MACHINES_MAX} machines: {self.machines}")
        if self.steps_per_day < 2:
            raise Rejected(f"a day has at least two steps: {self.steps_per_day}")


def demands(spec: DemandSpec) -> Iterator[tuple[Need, ...]]:
    """The rows of every step, without an end."""
    for level in levels(spec):
        yield rows(spec, level)


def levels(spec: DemandSpec) -> Iterator[float]:
    """How much is asked for at every step, as a share of the mean; never negative."""
    dice = Random(f"{spec.seed}/{spec.cluster}")
    phase, walk, spike_left, step = dice.random(), 0.0, 0, 0
    while True:
        if spec.steady:
            yield 1.0
            continue
        tide = TIDE * math.sin(2 * math.pi * (phase + step / spec.steps_per_day))
        yield max(0.0, 1.0 + tide + walk + (SPIKE if spike_left else 0.0))
        walk += dice.gauss(0.0, STRAY) - PULL * walk
        begins = dice.random() < SPIKE_CHANCE
        spike_left = max(spike_left - 1, SPIKE_STEPS if begins else 0)
        step += 1


def rows(spec: DemandSpec, level: float) -> tuple[Need, ...]:
    """The demand at a level: a row for each kind of workload, and one for each gang."""
    kinds = KINDS if spec.only is None else (spec.only,)
    return tuple(need for kind in kinds for need in _rows_of(spec, kind, level))


def _rows_of(spec: DemandSpec, kind: Kind, level: float) -> Iterator[Need]:
    machines = round(spec.machines * kind.share * level)
    if not kind.is_gang:
        if machines:
            yield _need(spec, kind, machines)
        return
    for number in range(machines // GANG_MACHINES):
        yield _need(spec, kind, GANG_MACHINES, f"{kind.name}-{number}")


def _need(spec: DemandSpec, kind: Kind, machines: int, group: str = "") -> Need:
    return Need(
        cluster=spec.cluster,
        profile=kind.profile(exact=spec.exact or kind is spec.only),
        aggregate=scale(kind.unit, machines),
        min_unit=kind.unit,
        group=group,
    )
