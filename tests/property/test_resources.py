import math
from contextlib import suppress
from functools import reduce
from typing import Final

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import strategies
from mainstay.model.errors import Rejected
from mainstay.model.resources import (
    MACHINE_UNITS_MAX,
    NEED_UNITS_MAX,
    Resources,
    add,
    covers,
    from_units,
    is_zero,
    largest,
    scale,
    subtract,
)

Vector = dict[str, int]

FLEET: Final = 500_000
INT64_MAX: Final = int(np.iinfo(np.int64).max)

vectors = strategies.units()


@given(vectors, vectors)
def test_addition_and_maximum_do_not_mind_the_order(one: Vector, other: Vector) -> None:
    assert add(one, other) == add(other, one)
    assert largest(one, other) == largest(other, one)


@given(vectors, vectors, vectors)
def test_addition_and_maximum_do_not_mind_the_grouping(a: Vector, b: Vector, c: Vector) -> None:
    assert add(add(a, b), c) == add(a, add(b, c))
    assert largest(largest(a, b), c) == largest(a, largest(b, c))


@given(vectors)
def test_the_empty_vector_changes_nothing(vector: Vector) -> None:
    assert add(vector, {}) == vector
    assert largest(vector, {}) == vector
    assert subtract(vector, {}) == vector


@given(vectors, vectors)
def test_adding_and_taking_away_again_leaves_the_same_amounts(one: Vector, other: Vector) -> None:
    left = subtract(add(one, other), other)

    assert covers(left, one)
    assert covers(one, left)


@given(vectors, vectors)
def test_nothing_is_left_to_want_exactly_when_all_of_it_is_there(
    have: Vector, want: Vector
) -> None:
    assert covers(have, want) == is_zero(subtract(want, have))


@given(vectors, vectors)
def test_a_difference_is_never_negative(one: Vector, other: Vector) -> None:
    assert all(amount >= 0 for amount in subtract(one, other).values())


@given(vectors, vectors)
def test_the_larger_of_two_covers_both(one: Vector, other: Vector) -> None:
    assert covers(largest(one, other), one)
    assert covers(largest(one, other), other)


@given(vectors, vectors, vectors)
def test_covering_carries_over(a: Vector, b: Vector, c: Vector) -> None:
    assert not (covers(a, b) and covers(b, c)) or covers(a, c)


@given(vectors, st.integers(-3, 20))
def test_scaling_is_repeated_addition(vector: Vector, times: int) -> None:
    repeated: Vector = reduce(add, [vector] * max(0, times), {})

    assert scale(vector, times) == repeated


@given(vectors, vectors)
def test_no_operation_changes_its_inputs(one: Vector, other: Vector) -> None:
    before = dict(one), dict(other)

    for operation in (add, largest, subtract, covers):
        operation(one, other)
    scale(one, 3)

    assert (one, other) == before


@given(st.dictionaries(st.text(max_size=8), strategies.quantity_texts(), max_size=4))
def test_a_vector_is_taken_whole_or_refused_whole(texts: dict[str, str]) -> None:
    with suppress(Rejected):
        vector = Resources(texts)

        assert vector.as_dict() == texts
        assert all(0 <= amount <= MACHINE_UNITS_MAX for amount in vector.units.values())


@given(st.sampled_from(strategies.DIMENSIONS), st.integers(0, MACHINE_UNITS_MAX))
def test_the_sum_over_a_whole_fleet_fits_64_bits(dimension: str, amount: int) -> None:
    machine = Resources({dimension: from_units(dimension, amount)})

    column = np.full(FLEET, machine.units[dimension], dtype=np.int64)

    assert int(column.sum()) == FLEET * machine.units[dimension]


def test_a_fleet_of_the_largest_machines_fits_64_bits() -> None:
    """With room for as much demand again: no addition in the engine can overflow."""
    assert 2 * FLEET * MACHINE_UNITS_MAX <= INT64_MAX
    assert FLEET * MACHINE_UNITS_MAX + NEED_UNITS_MAX <= INT64_MAX


def test_the_largest_need_is_exact_as_a_float() -> None:
    assert int(float(NEED_UNITS_MAX)) == NEED_UNITS_MAX
    assert math.nextafter(NEED_UNITS_MAX, 0) == NEED_UNITS_MAX - 1
