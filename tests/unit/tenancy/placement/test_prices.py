"""Prices of shapes: what a remainder of a GPU is worth."""

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from mainstay.tenancy.placement.prices import knapsack, remainder_values, shape_prices

SHAPES = st.dictionaries(
    st.integers(1, 9).map(lambda tenths: 100 * tenths), st.integers(1, 50), min_size=1, max_size=5
)


def dearest(sizes: list[int], prices: list[float], room: int) -> float:
    """By trying all fillings."""
    best = 0.0
    for count in range(1, room // min(sizes) + 1):
        for filling in combinations_with_replacement(range(len(sizes)), count):
            if sum(sizes[at] for at in filling) <= room:
                best = max(best, math.fsum(prices[at] for at in filling))
    return best


def test_a_remainder_that_fits_no_usual_shape_is_worth_nothing() -> None:
    values = remainder_values([810], [10.0], 1000)

    assert values[190] == values[809] == 0.0
    assert values[810] == values[1000] == 1.0


def test_half_of_a_gpu_is_worth_half_where_halves_come_in_pairs() -> None:
    values = remainder_values([470], [10.0], 1000)

    assert values[469] == 0.0
    assert values[530] == pytest.approx(0.5)


def test_what_fits_beside_a_frequent_shape_costs_nothing() -> None:
    """A few small pods all find a place in what the many large ones leave."""
    values = remainder_values([160, 810], [1.0, 50.0], 1000)

    assert values[190] == pytest.approx(0.0)


def test_a_small_shape_has_its_price_where_it_is_the_frequent_one() -> None:
    values = remainder_values([160, 810], [500.0, 1.0], 1000)

    assert values[160] == pytest.approx(1 / 6)


def test_without_usual_parts_only_whole_gpus_are_worth_something() -> None:
    values = remainder_values([], [], 1000)

    assert values[1000] == 1.0
    assert values[:1000].max() == 0.0


@given(SHAPES)
@settings(max_examples=outside.examples(40))
def test_the_dearest_filling_is_the_dearest(shapes: dict[int, int]) -> None:
    sizes, prices = sorted(shapes), [shapes[size] / 100 for size in sorted(shapes)]

    best, pattern = knapsack(np.array(sizes), np.array(prices), 1000)

    for room in (0, 99, 300, 550, 1000):
        assert best[room] == pytest.approx(dearest(sizes, prices, min(room, 1000)))
    assert pattern @ np.array(sizes) <= 1000
    assert pattern @ np.array(prices) == pytest.approx(best[1000])


@given(SHAPES)
@settings(max_examples=outside.examples(40))
def test_no_filling_costs_more_than_a_gpu_and_no_cheaper_prices_pay_as_much(
    shapes: dict[int, int],
) -> None:
    """The prices are legal, and together they pay for a packing that exists: no better ones do."""
    sizes = sorted(shapes)
    demand = np.array([float(shapes[size]) for size in sizes])

    prices = shape_prices(np.array(sizes), demand, 1000)

    assert prices.min() >= 0.0
    assert dearest(sizes, prices.tolist(), 1000) <= 1 + 1e-6
    least = max(1.0, float(demand @ np.array(sizes)) / 1000)
    assert demand @ prices >= least - 1 - 1e-6
    assert demand @ prices <= first_fit(shapes) + 1e-6


def first_fit(shapes: dict[int, int]) -> int:
    """GPUs that a simple packing takes."""
    left: list[int] = []
    for size in sorted(shapes, reverse=True):
        for _ in range(shapes[size]):
            at = next((at for at, room in enumerate(left) if room >= size), None)
            if at is None:
                left.append(1000)
                at = len(left) - 1
            left[at] -= size
    return len(left)
