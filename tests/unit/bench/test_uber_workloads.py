"""The published fleets `uber5k` and `uber50k`: their arithmetic, and what is made of it."""

from collections import Counter
from fractions import Fraction
from typing import Final

import pytest

from mainstay.bench import uber
from mainstay.bench.workloads import RACK_KEY, Workload
from mainstay.engine.decide import decide
from mainstay.engine.plan import Memory
from mainstay.engine.policy import Policy
from mainstay.model.need import Need
from mainstay.model.state import State

SHARE: Final = 0.1
"""Two clusters of twenty."""

PUBLISHED: Final = {
    "uber5k": {State.CONFIGURED: 6_520, State.IDLE: 1_006, State.SPECULATIVE: 15_000},
    "uber50k": {State.CONFIGURED: 65_200, State.IDLE: 10_000, State.SPECULATIVE: 150_000},
}
PUBLISHED_TOTAL: Final = {"uber5k": 22_526, "uber50k": 225_200}


@pytest.fixture(scope="module")
def small() -> Workload:
    return uber.make("uber5k", SHARE)


def test_the_machines_of_a_cluster_are_shared_out_as_published() -> None:
    shared = uber.machines_of(uber.MACHINES_PER_CLUSTER)

    assert list(shared.values()) == [166, 29, 14, 2, 15, 15, 13, 24, 48]
    assert sum(shared.values()) == 326


@pytest.mark.parametrize("name", uber.CLUSTERS)
def test_the_machines_by_state_are_the_published_ones(name: str) -> None:
    counts = uber.expected(name)

    assert counts.by_state == PUBLISHED[name]
    assert sum(counts.by_state.values()) == PUBLISHED_TOTAL[name]


def test_the_needs_are_as_many_as_published_to_the_hundred() -> None:
    """About 4.6 thousand and 45.7 thousand, 228 per cluster, of which six are plain."""
    small, large = uber.expected("uber5k"), uber.expected("uber50k")

    assert (small.needs, large.needs) == (4_566, 45_670)
    assert (small.needs - small.gangs, large.needs - large.gangs) == (120, 1_200)


@pytest.mark.parametrize(
    ("name", "machines", "pods"),
    [
        ("tiny-stateless", 66.4, 75.5), ("cpu-service", 11.4, 12.9), ("cpu-batch", 5.7, 6.5),
        ("critical-realtime", 0.95, 1.1), ("memory-cache", 1.5, 1.8), ("stateful-db", 1.5, 1.8),
        ("gpu-inference", 5.2, 0.47), ("gpu-training-small", 3.1, 0.035),
        ("gpu-training-medium", 4.2, 0.047),
    ],
)  # fmt: skip
def test_the_shares_of_an_archetype_are_the_published_ones(
    name: str, machines: float, pods: float
) -> None:
    objects = {kind.name: kind.weight * kind.mean_pods for kind in uber.CATALOGUE}
    hosts = {k.name: objects[k.name] / k.pods_per_machine for k in uber.CATALOGUE}

    def percent(part: Fraction, whole: dict[str, Fraction]) -> float:
        return float(100 * part / sum(whole.values()))

    assert percent(hosts[name], hosts) == pytest.approx(machines, rel=0.04)
    assert percent(objects[name], objects) == pytest.approx(pods, rel=0.04)


def test_what_is_made_is_what_was_reckoned(small: Workload) -> None:
    counts = uber.expected("uber5k", SHARE)
    gangs = [need for need in small.demand.needs if need.profile.same_keys]

    assert small.inventory.snapshot().by_state == counts.by_state
    assert len(small.demand.needs) == counts.needs
    assert len(gangs) == counts.gangs
    assert len(small.demand.heard) == 2


def test_the_same_name_gives_the_same_fleet(small: Workload) -> None:
    again = uber.make("uber5k", SHARE)

    assert again.demand == small.demand
    ids = small.inventory.ids()
    assert [again.inventory.machine(i) for i in ids] == [small.inventory.machine(i) for i in ids]


def test_a_cluster_asks_for_its_pods_and_no_more(small: Workload) -> None:
    cpu = Counter[str]()
    for need in small.demand.needs:
        cpu[need.cluster] += need.aggregate["cpu"]
    mean = {k.name: sum(p.weight * p.milli_cpu for p in k.pods) / 100 for k in uber.CATALOGUE}
    objects = {k.name: k.weight * k.mean_pods for k in uber.CATALOGUE}
    pods = uber.PODS_PER_CLUSTER / sum(objects.values())

    wanted = sum(float(objects[name] * pods) * mean[name] for name in mean)
    assert list(cpu.values()) == [pytest.approx(wanted, rel=0.05)] * 2


def machines_of(need: Need, workload: Workload) -> list[str]:
    """The racks of the machines that are committed to a need."""
    found = [workload.inventory.machine(id_) for id_ in workload.inventory.ids()]
    return [m.profile.attribute(RACK_KEY) or "" for m in found
            if m.assignment.group == need.group and m.cluster == need.cluster]  # fmt: skip


def test_a_training_gang_begins_with_its_machines_in_one_rack(small: Workload) -> None:
    gangs = [need for need in small.demand.needs if "gpu-training" in need.group]

    assert len(gangs) == 4
    for gang in gangs:
        racks = machines_of(gang, small)
        assert len(racks) == gang.aggregate["nvidia.com/gpu"] // 8
        assert len(set(racks)) == 1


def test_the_small_gangs_share_machines_and_everything_is_satisfied(small: Workload) -> None:
    plan = decide(small.inventory.snapshot(), small.demand, Memory.empty(), Policy(), 0.0)

    gangs = [need.group for need in plan.needs if need.profile.same_keys]
    assert len(gangs) == 4
    assert [group for group in gangs if "gpu-training" not in group] == []
    assert plan.unsatisfied == ()
