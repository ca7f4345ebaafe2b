"""Decision quality: the optimum is the optimum, and nobody is told to be better than it."""

import io
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from random import Random
from typing import Final

import pytest

from builders import a_machine, a_need, a_need_profile, a_profile, an_assignment
from mainstay.bench import quality
from mainstay.bench.frame import Bench, FixtureError
from mainstay.bench.optimum import Case, case_of, cheapest, most_satisfied, satisfied
from mainstay.bench.quality import Size, Tally
from mainstay.bench.solver import Model
from mainstay.cli import bench as command
from mainstay.cli import exits
from mainstay.engine.decide import decide
from mainstay.engine.plan import Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.model.cost import effective_cost, upper_bound
from mainstay.model.machine import Machine
from mainstay.model.need import Need, Operator, Requirement
from mainstay.model.resources import Units, covers
from mainstay.model.state import State
from mainstay.runtime.clock import StepClock
from oracles.fleets import World, world_of

FIGURES: Final = [
    "cost_gap_pct", "kept_cost_gap_pct", "lp_gap_pct", "kept_lp_gap_pct", "utilisation_pct",
    "satisfied_pct", "preemptions", "reclaims", "cases", "seconds",
]  # fmt: skip
TINY: Final = Size(configured=3, idle=2, speculative=2, needs=2, clusters=1, racks=2)


def decided(world: World) -> Plan:
    snapshot = world.inventory().snapshot()
    return decide(snapshot, world.demand, Memory.empty(), Policy(), world.now)


def idle(name: str, cores: int, price: float, rack: str = "r1") -> Machine:
    resources = {"cpu": str(cores)}
    profile = a_profile(resources=resources, labels={"rack": rack})
    return a_machine(State.IDLE, id=name, profile=profile, price_per_hour=price)


def eight_cores(*requirements: Requirement) -> Need:
    profile = a_need_profile(requirements=requirements)
    return a_need(profile=profile, aggregate={"cpu": 8000}, min_unit={"cpu": 1000})


class TestByHand:
    def test_two_cheap_machines_can_cost_more_than_a_dear_one(self) -> None:
        machines = [idle("a", 4, 1.0), idle("b", 4, 1.0), idle("c", 8, 1.5)]

        case = case_of(decided(world_of(machines, [eight_cores()])))

        assert case.cost() == 2.0
        assert cheapest(case) == pytest.approx(1.5)
        assert cheapest(case, keep=True) == pytest.approx(1.5)

    def test_what_serves_stays_if_it_is_to_be_kept(self) -> None:
        serving = a_machine(State.CONFIGURED, id="s", price_per_hour=3.0)
        world = world_of([serving, idle("c", 8, 1.5)], [eight_cores()])

        case = case_of(decided(world))

        assert case.cost() == 3.0
        assert cheapest(case) == pytest.approx(1.5)
        assert cheapest(case, keep=True) == pytest.approx(3.0)

    def test_a_gang_pays_for_one_rack_and_its_bound_does_not(self) -> None:
        machines = [
            idle("a", 4, 1.0, "r1"), idle("b", 4, 1.0, "r2"), idle("c", 4, 5.0, "r1"),
            idle("d", 4, 6.0, "r2"),
        ]  # fmt: skip
        gang = eight_cores(Requirement("rack", Operator.SAME))

        plan = decided(world_of(machines, [gang]))

        assert cheapest(case_of(plan)) == pytest.approx(6.0)
        assert cheapest(case_of(plan, exact=False), exact=False) == pytest.approx(2.0)

    def test_half_of_a_need_is_compared_with_half_of_it(self) -> None:
        case = case_of(decided(world_of([idle("a", 4, 2.0)], [eight_cores()])))

        assert cheapest(case) == case.cost() == 2.0
        assert satisfied(case, 100) == 0.5

    def test_an_incomplete_gang_counts_for_nothing_and_neither_does_what_it_holds(self) -> None:
        gang = eight_cores(Requirement("rack", Operator.SAME))
        profile = a_profile(resources={"cpu": "4"}, labels={"rack": "r1"})
        held = a_machine(State.CONFIGURED, id="h", profile=profile, price_per_hour=7.0)

        case = case_of(decided(world_of([held], [gang])))

        assert (case.cost(), cheapest(case), satisfied(case, 100)) == (0.0, 0.0, 0.0)

    def test_what_an_incomplete_gang_holds_is_not_there_for_others(self) -> None:
        gang = a_need(
            profile=a_need_profile(requirements=(Requirement("rack", Operator.SAME),)), group="g"
        )
        profile = a_profile(resources={"cpu": "4"}, labels={"rack": "r1"})
        own = an_assignment(fingerprint=gang.ref.fingerprint, group="g")
        held = a_machine(
            State.CONFIGURED, id="h", profile=profile, price_per_hour=1.0, assignment=own
        )
        other = a_need(profile=a_need_profile(), aggregate={"cpu": 4000})

        case = case_of(decided(world_of([held, idle("i", 4, 9.0, "r2")], [gang, other])))

        assert cheapest(case) == case.cost() == 9.0

    def test_gangs_that_share_machines_come_whole(self) -> None:
        """Two gangs of three cores fit on eight, and no part of a third."""
        same = a_need_profile(requirements=(Requirement("rack", Operator.SAME),))
        gangs = [
            a_need(profile=same, aggregate={"cpu": 3000}, min_unit={"cpu": 3000}, group=f"g-{n}")
            for n in range(5)
        ]
        machines = [idle("a", 8, 1.0), idle("b", 8, 1.0), idle("c", 3, 5.0)]

        case = case_of(decided(world_of(machines, gangs)))

        assert cheapest(case) == case.cost() == 7.0

    def test_a_machine_that_is_drained_for_a_need_serves_it(self) -> None:
        """And the need that had it has it no more."""
        low = a_need(cluster="low", profile=a_need_profile(priority=10))
        high = a_need(cluster="high", profile=a_need_profile(priority=1000))
        serving = a_machine(State.CONFIGURED, id="s", cluster="low", price_per_hour=3.0)

        case = case_of(decided(world_of([serving], [low, high])))

        assert (satisfied(case, 1000), satisfied(case, 10)) == (1.0, 0.0)
        assert (most_satisfied(case, 1000), most_satisfied(case, 10)) == (1.0, 0.0)
        assert cheapest(case) == case.cost() == 3.0


class Brute:
    """Every way to give each machine of one cluster to one need or to none."""

    def __init__(self, case: Case, machines: Sequence[Machine]) -> None:
        self.case, self.machines = case, machines
        self.needs = case.needs

    def ways(self) -> Iterator[list[list[Machine]]]:
        for places in itertools.product(range(-1, len(self.needs)), repeat=len(self.machines)):
            given: list[list[Machine]] = [[] for _ in self.needs]
            for machine, place in zip(self.machines, places, strict=True):
                if place >= 0:
                    given[place].append(machine)
            if all(
                self.fits(need, m) for need, g in zip(self.needs, given, strict=True) for m in g
            ):
                yield given

    def fits(self, need: Need, machine: Machine) -> bool:
        units = machine.effective_allocatable.units
        return need.profile.matches(machine.profile) and covers(units, need.min_unit)

    def reached(self, place: int, machines: Sequence[Machine]) -> Units:
        need = self.needs[place]
        racks = {m.profile.attribute(key) for key in need.profile.same_keys for m in machines}
        total = dict.fromkeys(need.aggregate, 0)
        for machine in machines:
            units, unit = machine.effective_allocatable.units, need.min_unit
            times = min(units.get(d, 0) // amount for d, amount in unit.items())
            for name in total:
                whole = unit.get(name, 0) * times
                total[name] += whole if self.case.folded[place] else units.get(name, 0)
        got = {name: min(amount, total[name]) for name, amount in need.aggregate.items()}
        if need.profile.same_keys and (len(racks) > 1 or not covers(got, need.aggregate)):
            return {}
        return got

    def cost(self, given: Sequence[Sequence[Machine]]) -> float:
        return sum(
            effective_cost(
                machine.price_per_hour,
                machine.interruption_probability if machine.state is State.SPECULATIVE else 0.0,
                upper_bound(need.profile.interruption_penalty_bucket),
            )
            for need, machines in zip(self.needs, given, strict=True)
            for machine in machines
        )

    def share(self, given: Sequence[Sequence[Machine]], priority: int) -> float:
        return sum(
            sum(self.reached(place, given[place]).get(d, 0) / a for d, a in need.aggregate.items())
            / len(need.aggregate)
            for place, need in enumerate(self.needs)
            if need.profile.priority == priority
        )

    def cheapest(self) -> float:
        return min(
            self.cost(given)
            for given in self.ways()
            if all(covers(self.reached(p, g), self.case.reached[p]) for p, g in enumerate(given))
        )

    def most_satisfied(self, priority: int) -> float:
        above = {n.profile.priority for n in self.needs if n.profile.priority > priority}
        return max(
            self.share(given, priority)
            for given in self.ways()
            if all(self.share(given, p) >= satisfied(self.case, p) - 1e-6 for p in above)
        )


@pytest.fixture(scope="module")
def tiny_cases() -> list[Brute]:
    found = []
    for seed in range(40):
        workload = quality.make(TINY, Random(seed))
        snapshot = workload.inventory.snapshot()
        plan = decide(snapshot, workload.demand, Memory.empty(), Policy(), 0.0)
        case = case_of(plan)
        machines = [workload.inventory.machine(id_) for id_ in workload.inventory.ids()]
        if not case.incomplete:
            found.append(Brute(case, machines))
    return found


def test_the_optimum_is_what_trying_everything_finds(tiny_cases: list[Brute]) -> None:
    assert len(tiny_cases) > 15
    for brute in tiny_cases:
        assert cheapest(brute.case) == pytest.approx(brute.cheapest())


def test_the_most_that_can_be_satisfied_is_what_trying_everything_finds(
    tiny_cases: list[Brute],
) -> None:
    for brute in tiny_cases:
        for priority in {need.profile.priority for need in brute.needs}:
            most = most_satisfied(brute.case, priority)
            assert most == pytest.approx(brute.most_satisfied(priority), abs=1e-5)


def test_no_bound_is_above_the_optimum_and_no_optimum_above_us() -> None:
    for seed in range(15):
        workload = quality.make(quality.SMALL, Random(seed))
        snapshot = workload.inventory.snapshot()
        plan = decide(snapshot, workload.demand, Memory.empty(), Policy(), 0.0)
        case = case_of(plan)
        bound = cheapest(case_of(plan, exact=False), exact=False)

        best, kept = cheapest(case), cheapest(case, keep=True)
        assert bound <= best + 1e-6
        assert best <= kept + 1e-6
        assert kept <= case.cost() + 1e-6


def ran(words: Sequence[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = exits.run(command.app, ["quality", *words], name="bench")
    return code, out.getvalue(), err.getvalue()


def test_the_quality_bench_prints_every_key_and_its_fixture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quality, "LARGE", Size(60, 20, 20, needs=12, clusters=3, racks=4))

    code, out, _ = ran(["--cases", "6", "--large", "1", "--json"])

    answer = json.loads(out)
    assert code == exits.DONE
    assert [key for key in FIGURES if key not in answer] == []
    assert answer["fixture"]["by_state"] == {"Speculative": 56, "Idle": 44, "Configured": 132}
    assert answer["fixture"]["needs"] == 48
    assert len(answer["samples"]["cost_gap_pct"]) == 6
    gap = answer["cost_gap_pct"]
    assert 0 <= answer["kept_cost_gap_pct"]["mean"] <= gap["mean"] <= gap["p95"] <= gap["max"]
    assert 0 < answer["satisfied_pct"]["all"] <= 100
    assert 0 < answer["utilisation_pct"]["weighted"] <= 100


def test_the_same_seed_gives_the_same_figures() -> None:
    answers = []
    for seed in (1, 1, 2):
        bench = Bench("quality", {}, StepClock(), lambda _: None)
        quality.run(bench, cases=4, seed=seed, large=0)
        answers.append(bench.figures)

    assert answers[0] == answers[1] != answers[2]
    assert answers[0]["lp_gap_pct"] is None


def test_without_the_solver_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)

    code, out, err = ran(["--cases", "1", "--large", "0"])

    assert (code, out) == (exits.FAILED, "")
    assert err == (
        "mainstay: the package highspy is not installed: pip install highspy, or make install-dev\n"
    )


def test_to_be_better_than_the_best_stops_the_bench() -> None:
    bench = Bench("quality", {}, StepClock(), lambda _: None)
    size = quality.SMALL
    counts = {"Speculative": size.speculative, "Idle": size.idle, "Configured": size.configured}
    tally = Tally(by_state=Counter(counts), needs=size.needs)

    quality._add_gap(tally, "cost_gap_pct", "small 1 7", cost=9.5, best=10.0)

    told = "small 1 7: cost_gap_pct: costs 9.5, at least 10.0"
    with pytest.raises(FixtureError, match=re.escape(told)):
        quality._check(bench, tally, cases=1, large=0)


def test_a_model_that_has_no_solution_is_not_answered() -> None:
    model = Model()
    model.at_least(2.0, {model.variable(cost=1.0): 1.0})

    with pytest.raises(AssertionError, match="not solved to the end"):
        model.minimum()
