"""Every certificate holds: a checker that knows nothing of how it was made finds no fault in it.

And the checker is worth something: a certificate with any one field changed does not pass.
"""

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given, settings

import outside
from builders import A_NEED_REF
from mainstay.engine.certificate import (
    Fewer,
    Filter,
    Group,
    HigherPriority,
    How,
    MoreQuota,
    NearMiss,
    NeedCertificate,
    Relaxation,
    SoftSpread,
    Step,
)
from mainstay.engine.decide import decide
from mainstay.engine.explain import explain_cluster, explain_machine, explain_need
from mainstay.engine.plan import Plan, Unmet
from mainstay.engine.policy import Policy
from mainstay.engine.quota import Quota
from mainstay.inventory.inventory import Inventory
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import MachineId
from oracles.certificate_checker import ORDER, Premises, cluster_of, faults, is_true
from oracles.fleets import World, seeded_world, worlds

POLICY: Final = Policy()
DRAWN: Final = 40
SEEDED: Final = 120

GHOST: Final = MachineId("no-such-machine")


def decided(world: World, inventory: Inventory) -> Plan:
    return decide(inventory.snapshot(), world.demand, world.memory, POLICY, world.now)


def premises_of(world: World, inventory: Inventory, plan: Plan) -> Premises:
    """What the checker may know: records, demand, and the plan as plain values."""
    snapshot = plan.snapshot
    claims = {
        MachineId(snapshot.ids[row]): place
        for row, place in enumerate(plan.owner.tolist())
        if place >= 0
    }
    return Premises(
        entries=world.machines,
        sources={machine: inventory.source(machine) for machine in world.machines},
        demand=plan.demand,
        policy=plan.policy,
        needs=plan.needs,
        claims=claims,
        actions=tuple(plan.actions),
        unsatisfied=plan.unsatisfied,
        gang_ages=plan.gang_ages,
    )


def certified(world: World, *, relax: bool = True) -> Iterator[tuple[NeedCertificate, Premises]]:
    inventory = world.inventory()
    plan = decided(world, inventory)
    premises = premises_of(world, inventory, plan)
    for place in range(len(plan.needs)):
        yield explain_need(plan, place, relax=relax), premises


@given(worlds())
@settings(max_examples=outside.examples(DRAWN))
def test_every_certificate_holds(world: World) -> None:
    for certificate, premises in certified(world):
        assert faults(certificate, premises) == []


@given(worlds())
@settings(max_examples=outside.examples(DRAWN))
def test_a_plain_need_that_is_short_has_nothing_left_that_it_could_take(world: World) -> None:
    for certificate, _ in certified(world, relax=False):
        if certificate.missing and not certificate.need.profile.same_keys:
            assert certificate.funnel[-1].left == 0


@given(worlds())
@settings(max_examples=outside.examples(DRAWN))
def test_every_need_that_is_short_is_blocked_by_some_step(world: World) -> None:
    for certificate, _ in certified(world, relax=False):
        assert (certificate.blocking is None) == (not certificate.missing)


def limited(world: World, seed: int) -> World:
    """The same with small numbers for every cluster and every provider without a region."""
    rng = random.Random(seed)
    inventory = world.inventory()
    places = sorted({(inventory.source(machine), "") for machine in world.machines})
    clusters = sorted({need.cluster for need in world.demand.needs})
    quota = Quota({c: rng.randint(0, 5) for c in clusters}, {p: rng.randint(0, 9) for p in places})
    return dataclasses.replace(world, demand=dataclasses.replace(world.demand, quota=quota))


def test_certificates_hold_where_quota_is_short() -> None:
    stopped: Counter[int] = Counter()
    for seed in range(outside.examples(SEEDED // 2)):
        for certificate, premises in certified(limited(seeded_world(seed), seed)):
            assert faults(certificate, premises) == [], f"seed {seed}"
            steps = certificate.funnel
            counts = [step.left for step in steps if step.filter in {Filter.CLAIMED, Filter.QUOTA}]
            stopped.update([len(set(counts))])

    assert stopped[2] > 0


def test_a_seeded_run_holds_and_meets_every_filter_and_every_kind_of_change() -> None:
    blocking: Counter[Filter] = Counter()
    changes: Counter[type] = Counter()
    serving: Counter[How] = Counter()
    for seed in range(outside.examples(SEEDED)):
        for certificate, premises in certified(seeded_world(seed)):
            assert faults(certificate, premises) == [], f"seed {seed}"
            serving.update(certificate.serving.keys())
            changes.update(type(r.change) for r in certificate.relaxations)
            if certificate.blocking is not None:
                blocking[certificate.funnel[certificate.blocking].filter] += 1

    assert set(blocking) >= set(Filter) - {Filter.ADDS, Filter.SPREAD, Filter.WHOLE}
    assert set(changes) >= set(ORDER) - {SoftSpread}
    assert set(serving) >= set(How) - {How.ASIDE, How.LOST}


def mutants(certificate: NeedCertificate) -> Iterator[tuple[str, NeedCertificate]]:
    """The certificate with one claim made false, field by field."""
    made: dict[str, Any] = {
        "place": certificate.place + 1,
        "need": dataclasses.replace(certificate.need),
        "gangs": (*certificate.gangs, certificate.need.ref),
        "verdict": next(v for v in (None, *Unmet) if v != certificate.verdict),
        "serving": {**certificate.serving, How.LOST: Group(1, (GHOST,))},
        "missing": {**certificate.missing, "unheard-of": 1},
        "domain": (*(certificate.domain or ()), "elsewhere"),
        "blocking": (certificate.blocking or 0) + 1,
        "emptied": (certificate.emptied or 0) + 1,
        "holders": certificate.holders[1:] if certificate.holders else None,
    }
    for name, value in made.items():
        yield name, dataclasses.replace(certificate, **{name: value})
    for place, step in enumerate(certificate.funnel):
        for name, wrong in wrong_steps(step):
            steps = list(certificate.funnel)
            steps[place] = wrong
            yield f"step {place} {name}", dataclasses.replace(certificate, funnel=tuple(steps))
    if certificate.nearest is not None:
        for name, nearest in wrong_misses(certificate.nearest, certificate.need.ref):
            yield name, dataclasses.replace(certificate, nearest=nearest)
    for place, relaxation in enumerate(certificate.relaxations):
        for name, changed in wrong_relaxations(relaxation):
            told = list(certificate.relaxations)
            told[place] = changed
            yield name, dataclasses.replace(certificate, relaxations=tuple(told))


def wrong_misses(nearest: NearMiss, ref: NeedRef) -> Iterator[tuple[str, NearMiss]]:
    yield "nearest", dataclasses.replace(nearest, machine=GHOST)
    for place, miss in enumerate(nearest.misses):
        wrong: dict[str, Any] = {
            "step": miss.step + 1,
            "has": (*miss.has, "x"),
            "lacks": {"x": 1},
            "holder": ref if miss.holder is None else None,
            "priority": (miss.priority or 0) + 1,
        }
        for name, value in wrong.items():
            misses = list(nearest.misses)
            misses[place] = dataclasses.replace(miss, **{name: value})
            yield name, dataclasses.replace(nearest, misses=tuple(misses))


def wrong_steps(step: Step) -> Iterator[tuple[str, Step]]:
    filter_ = Filter.WHOLE if step.filter is not Filter.WHOLE else Filter.FLEET
    yield "filter", dataclasses.replace(step, filter=filter_)
    yield "left", dataclasses.replace(step, left=step.left + 1)
    more = {name: amount + 1 for name, amount in step.capacity.items()}
    yield "capacity", dataclasses.replace(step, capacity=more)
    yield "lifted", dataclasses.replace(step, lifted=(step.lifted or 0) + 1)
    if step.requirement is not None:
        yield "requirement", dataclasses.replace(step, requirement=None)


def wrong_relaxations(relaxation: Relaxation) -> Iterator[tuple[str, Relaxation]]:
    more = Group(relaxation.acquired.count + 1, relaxation.acquired.ids)
    yield "acquired", dataclasses.replace(relaxation, acquired=more)
    drained = Group(relaxation.drained.count, (*relaxation.drained.ids, GHOST))
    yield "drained", dataclasses.replace(relaxation, drained=drained)
    price = relaxation.price_per_hour + 0.5
    yield "price", dataclasses.replace(relaxation, price_per_hour=price)
    change = relaxation.change
    if isinstance(change, Fewer):
        for wrong in (Fewer(change.pieces, change.of, change.pieces),
                      Fewer(change.refused, change.of, change.refused + 1),
                      Fewer(change.pieces, change.of + 1, change.refused)):  # fmt: skip
            yield "fewer", dataclasses.replace(relaxation, change=wrong)
    if isinstance(change, HigherPriority):
        for wrong_one in (HigherPriority(change.priority, change.priority),
                          HigherPriority(change.refused, change.refused - 1)):  # fmt: skip
            yield "priority", dataclasses.replace(relaxation, change=wrong_one)
    yield "change", dataclasses.replace(relaxation, change=MoreQuota(0, {}))
    yield "displaced", dataclasses.replace(relaxation, displaced=(A_NEED_REF,))


def test_a_certificate_with_any_one_field_changed_does_not_pass() -> None:
    tried: Counter[str] = Counter()
    for seed in range(outside.examples(20)):
        for certificate, premises in certified(seeded_world(seed)):
            if not certificate.missing:
                continue
            for name, mutant in mutants(certificate):
                if mutant.place >= len(premises.needs):
                    continue
                assert not is_true(mutant, premises), f"seed {seed}: {name}"
                tried[name.split()[-1]] += 1

    fields = {field.name for field in dataclasses.fields(NeedCertificate)} - {"funnel"}
    assert fields - tried.keys() - {"relaxations"} == set()
    assert {"left", "capacity", "lifted", "fewer", "priority", "price", "has"} <= tried.keys()


def test_relaxations_out_of_order_do_not_pass() -> None:
    for seed in range(outside.examples(60)):
        for certificate, premises in certified(seeded_world(seed)):
            told = certificate.relaxations
            if len({type(r.change) for r in told}) > 1:
                turned = dataclasses.replace(certificate, relaxations=told[::-1])
                assert faults(turned, premises) == ["order"]
                return
    pytest.fail("no certificate with two kinds of relaxations")


@given(worlds())
@settings(max_examples=outside.examples(DRAWN))
def test_what_is_told_of_machines_and_clusters_is_what_the_records_say(world: World) -> None:
    inventory = world.inventory()
    plan = decided(world, inventory)
    machines = [entry[0] for entry in world.machines.values()]

    for machine in machines:
        told = explain_machine(plan, machine.id)
        assert (told.state, told.cluster) == (machine.state, machine.cluster)
        assert told.action == next((a for a in plan.actions if a.machine == machine.id), None)
        assert (told.claimed_by is None) == (machine.id not in plan.claimed_ids())
    for cluster in world.demand.heard:
        report = explain_cluster(plan, cluster)
        assert report.heard
        assert sum(report.needs.values()) == sum(n.cluster == cluster for n in plan.needs)
        assert report.quota.now == sum(cluster_of(m) == cluster for m in machines)
