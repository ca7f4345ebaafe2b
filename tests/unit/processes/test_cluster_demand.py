"""What a simulated cluster asks for: by seed, around its mean, with a tide, a walk and spikes."""

from itertools import islice, pairwise

import pytest

from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.model.resources import covers, scale
from mainstay.processes.cluster_demand import (
    GANG_MACHINES,
    KINDS,
    TIDE,
    DemandSpec,
    demands,
    levels,
    rows,
    whole_machines,
)
from mainstay.providers.sim.offers import small_catalog


def spec(
    machines: int = 100, *, seed: int = 1, name: str = "c-1", steady: bool = False
) -> DemandSpec:
    return DemandSpec(cluster=ClusterId(name), machines=machines, seed=seed, steady=steady)


def steps(given: DemandSpec, count: int = 40) -> list[tuple[Need, ...]]:
    return list(islice(demands(given), count))


def units(needs: tuple[Need, ...]) -> int:
    return sum(need.aggregate["cpu"] // need.min_unit["cpu"] for need in needs)


def test_the_same_seed_asks_for_the_same_and_another_for_something_else() -> None:
    assert steps(spec()) == steps(spec())
    assert steps(spec(seed=2)) != steps(spec())


def test_two_clusters_of_one_seed_do_not_move_together() -> None:
    one, two = (list(islice(levels(spec(name=name)), 20)) for name in ("c-1", "c-2"))

    assert one != two


def test_a_steady_cluster_asks_for_its_machines_at_every_step() -> None:
    asked = steps(spec(steady=True))

    assert all(each == asked[0] for each in asked)
    assert 90 <= units(asked[0]) <= 100


def test_demand_changes_around_its_mean_and_is_never_negative() -> None:
    seen = list(islice(levels(spec()), 2_000))

    assert 0.9 < sum(seen) / len(seen) < 1.2
    assert min(seen) >= 0.0
    assert max(seen) > 1.0 + TIDE


def test_a_day_has_a_peak_and_a_trough() -> None:
    day = spec().steps_per_day
    seen = list(islice(levels(spec()), 50 * day))
    by_hour = [sum(seen[hour::day]) / 50 for hour in range(day)]

    assert max(by_hour) - min(by_hour) > TIDE


def test_now_and_then_there_is_a_spike_that_passes() -> None:
    seen = list(islice(levels(spec()), 500))
    jumps = [after - before for before, after in pairwise(seen)]

    assert max(jumps) > 0.3
    assert min(jumps) < -0.3


def test_a_gang_has_one_size_and_one_name_and_only_their_number_changes() -> None:
    few, many = rows(spec(), 0.5), rows(spec(), 1.5)
    gangs = [[need for need in asked if need.group] for asked in (few, many)]

    assert len(gangs[0]) < len(gangs[1])
    assert {need.group for need in gangs[0]} < {need.group for need in gangs[1]}
    assert {units((need,)) for need in gangs[1]} == {GANG_MACHINES}


def test_every_row_is_of_a_known_kind_and_of_the_cluster() -> None:
    asked = rows(spec(), 1.0)

    assert {need.cluster for need in asked} == {ClusterId("c-1")}
    assert {need.profile for need in asked} == {kind.profile() for kind in KINDS}
    assert len({need.ref for need in asked}) == len(asked)


def test_exact_demand_is_for_machines_that_hold_one_unit_each() -> None:
    sold = {offer.instance_type: offer.resources.units for offer in small_catalog()}
    exact = DemandSpec(cluster=ClusterId("c-1"), machines=100, exact=True)

    for need in rows(exact, 1.0):
        (name,) = need.profile.pinned_types
        assert covers(sold[name], need.min_unit)
        assert not covers(sold[name], scale(need.min_unit, 2))


def test_a_cluster_may_want_machines_of_one_type_only_each_whole() -> None:
    given = DemandSpec(
        cluster=ClusterId("c-1"), machines=6, only=whole_machines("p5.48xlarge", 1_000)
    )

    (need,) = rows(given, 1.0)
    assert (need.profile.pinned_types, need.profile.priority) == (("p5.48xlarge",), 1_000)
    assert need.min_unit["nvidia.com/gpu"] == 8
    assert need.aggregate == scale(need.min_unit, 6)


def test_a_type_that_nobody_sells_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(Rejected, match=r"p9\.huge.*p5\.48xlarge"):
        whole_machines("p9.huge", 0)


def test_a_kind_of_which_nothing_is_asked_has_no_row() -> None:
    assert rows(spec(), 0.0) == ()


@pytest.mark.parametrize("machines", [0, -1, 100_001])
def test_a_cluster_that_cannot_be_is_refused(machines: int) -> None:
    with pytest.raises(Rejected, match=str(machines)):
        spec(machines)


def test_a_day_of_one_step_is_refused() -> None:
    with pytest.raises(Rejected, match="two steps"):
        DemandSpec(cluster=ClusterId("c"), machines=1, steps_per_day=1)
