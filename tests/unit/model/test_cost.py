import inspect
import math
from dataclasses import fields, replace
from typing import Final

import numpy as np
import pytest

from builders import a_machine, an_assignment
from mainstay.model.assignment import Assignment, NeedRef
from mainstay.model.cost import (
    PENALTY_BUCKET_MAX,
    PINNED,
    UPPER_BOUND_DOLLARS,
    bucket_for,
    effective_cost,
    effective_costs,
    upper_bound,
)
from mainstay.model.errors import Rejected
from mainstay.model.machine import Machine
from mainstay.model.metadata import encode
from mainstay.model.need import Need, NeedProfile, Requirement, Spread
from mainstay.model.profile import Profile
from mainstay.model.state import State

COST_INPUTS: Final = {"price_per_hour", "interruption_probability"}

# capacity.proto, enum PenaltyBucket, by hand.
LADDER: Final = [
    0, 0, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536,
    131072, 262144, 524288, 1048576, 2097152, 4194304, 8388608, math.inf,
]  # fmt: skip


def names(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


@pytest.mark.parametrize(
    ("price", "probability", "penalty", "cost"),
    [
        (2.0, 0.0, 100.0, 2.0),
        (2.0, 0.25, 100.0, 27.0),
        (0.0, 1.0, 8.0, 8.0),
        (0.0, 0.0, 0.0, 0.0),
        (1.5, 0.5, 0.0, 1.5),
    ],
)
def test_effective_cost_is_price_plus_probability_times_penalty(
    price: float, probability: float, penalty: float, cost: float
) -> None:
    assert effective_cost(price, probability, penalty) == cost


@pytest.mark.parametrize("penalty", [-0.01, -100.0, -math.inf])
def test_a_negative_penalty_counts_as_zero(penalty: float) -> None:
    assert effective_cost(2.0, 0.5, penalty) == 2.0


@pytest.mark.parametrize("penalty", [0.0, 8388608.0, math.inf])
def test_what_cannot_be_interrupted_costs_its_price(penalty: float) -> None:
    """A pinned penalty at probability zero must not become NaN."""
    assert effective_cost(2.0, 0.0, penalty) == 2.0


def test_a_pinned_penalty_on_what_can_be_interrupted_costs_more_than_anything() -> None:
    assert effective_cost(2.0, 1e-9, math.inf) == math.inf


def test_the_formula_takes_nothing_but_its_three_inputs() -> None:
    """Locked: neither pluggable nor configurable."""
    assert list(inspect.signature(effective_cost).parameters) == [
        "price_per_hour", "interruption_probability", "interruption_penalty_dollars",
    ]  # fmt: skip


def test_price_and_probability_come_from_the_provider_alone() -> None:
    """No cluster-side override: nothing a cluster sends, and nothing we stamp, can name them."""
    assert names(Machine) >= COST_INPUTS
    for kind in (Need, NeedProfile, Requirement, Spread, NeedRef, Assignment, Profile):
        assert not names(kind) & COST_INPUTS
        assert not any("price" in name or "probability" in name for name in names(kind))


def test_what_is_echoed_through_the_provider_names_no_price_and_no_probability() -> None:
    keys = " ".join(encode(an_assignment()))

    assert "price" not in keys
    assert "probability" not in keys


def test_no_assignment_changes_what_a_machine_costs() -> None:
    free = a_machine(State.CONFIGURED, price_per_hour=3.0, interruption_probability=0.1)
    bound = replace(free, assignment=an_assignment(interruption_penalty_dollars=math.inf))

    assert bound.price_per_hour == 3.0
    assert bound.interruption_probability == 0.1


def test_the_ladder_is_that_of_the_wire() -> None:
    assert list(UPPER_BOUND_DOLLARS) == LADDER
    assert [upper_bound(bucket) for bucket in range(28)] == LADDER
    assert PENALTY_BUCKET_MAX == PINNED == 27


@pytest.mark.parametrize("bucket", [-1, 28, 1000])
def test_a_bucket_that_is_not_on_the_ladder_is_refused(bucket: int) -> None:
    with pytest.raises(Rejected, match="must be 0 to 27"):
        upper_bound(bucket)


@pytest.mark.parametrize(
    ("dollars", "bucket"),
    [
        (-math.inf, 1),
        (-1.0, 1),
        (0.0, 1),
        (0.01, 2),
        (0.5, 2),
        (0.51, 3),
        (1.0, 3),
        (1.01, 4),
        (2.0, 4),
        (3.0, 5),
        (4194304.01, 26),
        (8388608.0, 26),
        (8388608.01, 27),
        (math.inf, 27),
    ],
)
def test_dollars_go_into_the_lowest_bucket_that_holds_them(dollars: float, bucket: int) -> None:
    assert bucket_for(dollars) == bucket


@pytest.mark.parametrize("bucket", range(1, 28))
def test_the_dollars_of_a_bucket_are_in_that_bucket(bucket: int) -> None:
    assert bucket_for(upper_bound(bucket)) == bucket


def test_an_unspecified_penalty_is_worth_nothing() -> None:
    assert upper_bound(0) == 0.0


def test_dollars_that_are_no_number_are_in_no_bucket() -> None:
    with pytest.raises(Rejected, match="number of dollars"):
        bucket_for(math.nan)


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.5, 64.0, math.inf])
def test_the_formula_for_many_machines_is_the_formula_for_one(penalty: float) -> None:
    prices, probabilities = [0.0, 1.0, 2.5, 3.0], [0.0, 0.05, 1.0, 0.0]

    many = effective_costs(np.array(prices), np.array(probabilities), penalty)

    assert many.tolist() == [
        effective_cost(price, probability, penalty)
        for price, probability in zip(prices, probabilities, strict=True)
    ]
