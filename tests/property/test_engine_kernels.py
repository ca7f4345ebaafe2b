"""The compiled loops give the answers of the numpy ones, and what is carried over does not show."""

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from mainstay.bench import decide as bench_decide
from mainstay.bench import lcg
from mainstay.engine import kernels, lanes
from mainstay.engine.audit import differences
from mainstay.engine.decide import decide
from mainstay.engine.orders import kept_of
from mainstay.engine.plan import Memory
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import MachineId
from mainstay.model.state import State

FLOATS = st.sampled_from([0.0, -0.0, 0.5, 1.0, 1.0000000000000002, 5e-324, 1e300, -3.0])


@pytest.fixture(autouse=True)
def warm() -> Iterator[None]:
    assert kernels.warm(), "numba is part of the lock"
    yield
    kernels.cool()


def compiled() -> Any:
    loops = kernels.loops()
    assert loops is not None
    return loops


def test_a_whole_fleet_is_decided_the_same_with_and_without_compiled_loops() -> None:
    fleet = lcg.generate(5_000, 300, 9)
    snapshot = bench_decide.stocked(fleet).snapshot()

    for case in bench_decide.make_cases(fleet):
        kernels.warm()
        fast = decide(snapshot, case.demand, Memory.empty(), Policy(), 0.0)
        kernels.cool()
        plain = decide(snapshot, case.demand, Memory.empty(), Policy(), 0.0)

        assert fast.actions == plain.actions
        assert np.array_equal(fast.owner, plain.owner)
        assert fast.unsatisfied == plain.unsatisfied


def test_too_many_lanes_are_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = lcg.generate(500, 60, 3)
    snapshot = bench_decide.stocked(fleet).snapshot()
    demand = next(iter(bench_decide.make_cases(fleet))).demand
    with_lanes = decide(snapshot, demand, Memory.empty(), Policy(), 0.0)

    monkeypatch.setattr(lanes, "LANES_MAX", 0)
    without = decide(snapshot, demand, Memory.empty(), Policy(), 0.0)

    assert (with_lanes.kinds is None, without.kinds is None) == (False, True)
    assert np.array_equal(with_lanes.owner, without.owner)


@settings(max_examples=outside.examples(200))
@given(st.lists(FLOATS, max_size=30))
def test_codes_are_the_places_among_the_distinct_values(values: list[float]) -> None:
    codes, distinct = compiled().codes_of(np.array(values), 64)

    expected, places = np.unique(np.array(values), return_inverse=True)
    assert distinct.tolist() == expected.tolist()
    assert codes.tolist() == places.tolist()


def test_too_many_distinct_values_get_no_codes() -> None:
    assert compiled().codes_of(np.arange(9.0), 8)[1].tolist() == []
    assert compiled().codes_of(np.arange(8.0), 8)[1].tolist() == list(range(8))


@settings(max_examples=outside.examples(200))
@given(st.lists(st.integers(0, 2**40 - 1), max_size=30), st.sampled_from([1, 11, 12, 23, 40]))
def test_radix_sorts_by_the_lowest_bits_and_keeps_the_rest(keys: list[int], bits: int) -> None:
    order = compiled().radix(np.array(keys, dtype=np.uint64), bits)

    assert order.tolist() == sorted(range(len(keys)), key=lambda at: keys[at] % 2**bits)


@settings(max_examples=outside.examples(200))
@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), max_size=4))
def test_classes_share_a_signature_when_they_fit_the_same_kinds(table: list[list[bool]]) -> None:
    fits = np.array(table, dtype=np.bool_).reshape(len(table), 6)
    sample = np.empty(6, dtype=np.int32)

    signature = compiled().signatures_of(fits, sample)

    for one in range(6):
        assert signature[sample[signature[one]]] == signature[one]
        for other in range(6):
            alike = bool((fits[:, one] == fits[:, other]).all())
            assert alike == (signature[one] == signature[other])


def changed(inventory: Inventory, rng: random.Random) -> None:
    """A price, a state, a machine that goes and one that comes."""
    ids = inventory.ids()
    for machine_id in rng.sample(ids, k=min(5, len(ids))):
        machine = inventory.machine(machine_id)
        match rng.choice(("price", "drain", "remove", "add")):
            case "price":
                price = rng.choice((0.0, 1.0, 2.0))
                inventory.apply(dataclasses.replace(machine, price_per_hour=price), now=0.0)
            case "drain" if machine.state is State.CONFIGURED:
                inventory.apply(dataclasses.replace(machine, state=State.DRAINING), now=0.0)
            case "remove":
                inventory.remove(machine_id)
            case _:
                twin = MachineId(f"{machine_id}-{rng.randrange(10**6)}")
                inventory.add(dataclasses.replace(machine, id=twin), now=0.0, source="")


@pytest.mark.parametrize("seed", range(outside.examples(20)))
def test_a_repaired_order_is_the_sorted_one(seed: int) -> None:
    rng = random.Random(seed)
    inventory = bench_decide.stocked(lcg.generate(200, 20, 3))
    kept = kept_of(inventory.snapshot())

    for _ in range(8):
        changed(inventory, rng)
        snapshot = inventory.snapshot()
        kept = kept_of(snapshot, kept)
        anew = kept_of(snapshot)
        assert np.array_equal(kept.rows, anew.rows)
        assert np.array_equal(kept.group, anew.group)


@pytest.mark.parametrize("seed", range(outside.examples(10)))
def test_a_plan_that_was_carried_on_passes_its_audit(seed: int) -> None:
    rng = random.Random(seed)
    fleet = lcg.generate(400, 40, 3)
    inventory = bench_decide.stocked(fleet)
    demands = [case.demand for case in bench_decide.make_cases(fleet)]
    memory, demand = Memory.empty(), demands[0]

    for cycle in range(12):
        changed(inventory, rng)
        demand = rng.choice(demands) if cycle % 3 == 0 else demand
        plan = decide(inventory.snapshot(), demand, memory, Policy(), float(cycle))
        assert differences(plan, memory, float(cycle)) == ()
        memory = plan.memory


def test_an_audit_names_what_differs() -> None:
    fleet = lcg.generate(400, 40, 3)
    snapshot = bench_decide.stocked(fleet).snapshot()
    steady, burst, _ = (case.demand for case in bench_decide.make_cases(fleet))
    plan = decide(snapshot, steady, Memory.empty(), Policy(), 0.0)
    other = decide(snapshot, burst, Memory.empty(), Policy(), 0.0)
    wrong = dataclasses.replace(plan, actions=other.actions, owner=other.owner)

    found = differences(wrong, Memory.empty(), 0.0)

    assert len(found) == 2
    assert "actions" in found[0]
    assert "claims" in found[1]
