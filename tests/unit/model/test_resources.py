import pytest

from mainstay.model.errors import Rejected
from mainstay.model.quantity import parse_quantity
from mainstay.model.resources import (
    DIMENSIONS_MAX,
    MACHINE_UNITS_MAX,
    NEED_UNITS_MAX,
    NO_RESOURCES,
    Resources,
    Units,
    add,
    covers,
    from_units,
    is_zero,
    largest,
    scale,
    subtract,
    to_units,
)


@pytest.mark.parametrize(
    ("dimension", "text", "units"),
    [
        ("cpu", "1", 1000),
        ("cpu", "200m", 200),
        ("cpu", "96", 96_000),
        ("memory", "1Ki", 1),
        ("memory", "768Gi", 768 * 2**20),
        ("storage", "1Mi", 1024),
        ("ephemeral-storage", "1Mi", 1024),
        ("hugepages-2Mi", "2Mi", 2048),
        ("hugepages-1Gi", "1Gi", 2**20),
        ("nvidia.com/gpu", "8", 8),
        ("pods", "110", 110),
    ],
)
def test_each_dimension_has_its_own_unit(dimension: str, text: str, units: int) -> None:
    """cpu in milli-cores, memory and storage in KiB, everything else in pieces."""
    assert Resources({dimension: text}).units == {dimension: units}


@pytest.mark.parametrize(
    ("dimension", "text", "units"),
    [("cpu", "1n", 1), ("cpu", "100100u", 101), ("memory", "1", 1), ("memory", "1025", 2),
     ("memory", "1G", 976_563), ("nvidia.com/gpu", "500m", 1)],
)  # fmt: skip
def test_what_does_not_come_out_even_is_rounded_up(dimension: str, text: str, units: int) -> None:
    assert to_units(dimension, parse_quantity(text)) == units


def test_supply_and_demand_are_rounded_alike() -> None:
    """Or a machine would not hold the need that asks for exactly what it has."""
    machine = Resources({"memory": "1000001"})
    need = Resources({"memory": "1000001"}, units_max=NEED_UNITS_MAX)

    assert covers(machine.units, need.units)


def test_the_strings_stay_as_they_were_given() -> None:
    given = {"cpu": "1000m", "memory": "+1.50Gi"}

    assert Resources(given).as_dict() == given


def test_the_order_of_dimensions_does_not_matter() -> None:
    one = Resources({"cpu": "1", "memory": "1Gi"})
    other = Resources({"memory": "1Gi", "cpu": "1"})

    assert one == other
    assert hash(one) == hash(other)
    assert one.texts == (("cpu", "1"), ("memory", "1Gi"))


def test_two_spellings_of_one_amount_are_two_values_with_equal_units() -> None:
    one, other = Resources({"cpu": "1"}), Resources({"cpu": "1000m"})

    assert one != other
    assert one.units == other.units


def test_a_vector_is_no_other_thing() -> None:
    assert Resources({"cpu": "1"}) != {"cpu": "1"}
    assert repr(Resources({"cpu": "1"})) == "Resources({'cpu': '1'})"


def test_the_empty_vector_is_false_and_a_declared_zero_is_not() -> None:
    assert not NO_RESOURCES
    assert not Resources({})
    assert Resources({"cpu": "0"})


def test_a_vector_does_not_follow_the_mapping_it_was_made_of() -> None:
    given = {"cpu": "1"}
    vector = Resources(given)

    given["cpu"] = "2"

    assert vector.as_dict() == {"cpu": "1"}


def test_nobody_can_change_the_amounts_of_a_vector() -> None:
    assert not hasattr(Resources({"cpu": "1"}).units, "__setitem__")


@pytest.mark.parametrize("text", ["", "lots", "1 Gi", "1GiB"])
def test_a_quantity_that_cannot_be_read_refuses_the_whole_and_names_the_resource(
    text: str,
) -> None:
    with pytest.raises(Rejected, match="memory"):
        Resources({"cpu": "1", "memory": text})


@pytest.mark.parametrize("text", ["-1", "-1n", "-0.5", "-1Gi", "-1e-9"])
@pytest.mark.parametrize("dimension", ["cpu", "memory", "nvidia.com/gpu"])
def test_a_negative_quantity_is_refused_however_small(dimension: str, text: str) -> None:
    """Rounding up must not turn it into a harmless zero."""
    with pytest.raises(Rejected, match="negative"):
        Resources({dimension: text})


@pytest.mark.parametrize("text", ["0", "-0", "0Gi", "+0"])
def test_zero_is_not_negative(text: str) -> None:
    assert Resources({"cpu": text}).units == {"cpu": 0}


def test_a_machine_too_large_for_the_sum_of_a_fleet_is_refused() -> None:
    largest_cpu = from_units("cpu", MACHINE_UNITS_MAX)
    too_large = from_units("cpu", MACHINE_UNITS_MAX + 1)

    assert Resources({"cpu": largest_cpu}).units["cpu"] == MACHINE_UNITS_MAX
    with pytest.raises(Rejected, match="too large"):
        Resources({"cpu": too_large})


def test_a_need_may_be_larger_than_any_machine() -> None:
    text = from_units("cpu", NEED_UNITS_MAX)

    assert Resources({"cpu": text}, units_max=NEED_UNITS_MAX).units["cpu"] == NEED_UNITS_MAX


def test_too_many_dimensions_are_refused_with_the_bound() -> None:
    most = {f"example.com/device-{number}": "1" for number in range(64)}

    assert len(Resources(most).units) == DIMENSIONS_MAX == 64
    with pytest.raises(Rejected, match="at most 64"):
        Resources({**most, "cpu": "1"})


@pytest.mark.parametrize(
    ("dimension", "units", "text"),
    [("cpu", 200, "200m"), ("cpu", 8000, "8"), ("nvidia.com/gpu", 8, "8"), ("cpu", 0, "0")],
)
def test_units_are_written_as_a_quantity(dimension: str, units: int, text: str) -> None:
    assert from_units(dimension, units) == text


def test_a_sum_is_over_the_union_of_dimensions() -> None:
    assert add({"cpu": 1, "gpu": 2}, {"cpu": 3, "memory": 4}) == {"cpu": 4, "gpu": 2, "memory": 4}


def test_the_larger_amount_is_taken_per_dimension() -> None:
    assert largest({"cpu": 1, "gpu": 2}, {"cpu": 3}) == {"cpu": 3, "gpu": 2}


def test_a_missing_dimension_is_zero() -> None:
    assert largest({"cpu": 0}, {"gpu": 0}) == {"cpu": 0, "gpu": 0}
    assert subtract({"cpu": 2}, {"gpu": 2}) == {"cpu": 2, "gpu": 0}
    assert not covers({}, {"gpu": 1})


def test_a_difference_is_never_negative_and_keeps_its_zeros() -> None:
    assert subtract({"cpu": 5}, {"cpu": 3, "gpu": 1}) == {"cpu": 2, "gpu": 0}
    assert subtract({"cpu": 3}, {"cpu": 5}) == {"cpu": 0}


def test_scaling_is_repeated_addition() -> None:
    assert scale({"cpu": 3, "gpu": 0}, 4) == {"cpu": 12, "gpu": 0}
    assert scale({"cpu": 3}, 1) == {"cpu": 3}


@pytest.mark.parametrize("times", [0, -1])
def test_zero_or_fewer_times_is_the_empty_vector(times: int) -> None:
    assert scale({"cpu": 3}, times) == {}


@pytest.mark.parametrize(
    ("have", "want", "answer"),
    [
        ({"cpu": 4}, {"cpu": 4}, True),
        ({"cpu": 4}, {"cpu": 5}, False),
        ({"cpu": 4, "gpu": 1}, {"cpu": 4}, True),
        ({"cpu": 4}, {"cpu": 4, "gpu": 1}, False),
        ({"cpu": 4}, {"cpu": 4, "gpu": 0}, True),
        ({}, {}, True),
        ({"cpu": 4}, {}, True),
    ],
)
def test_covering_looks_at_the_wanted_dimensions_alone(
    have: Units, want: Units, answer: bool
) -> None:
    assert covers(have, want) is answer


@pytest.mark.parametrize(
    ("vector", "answer"), [({}, True), ({"cpu": 0}, True), ({"cpu": 0, "gpu": 1}, False)]
)
def test_a_vector_is_zero_when_no_dimension_is_above_zero(vector: Units, answer: bool) -> None:
    assert is_zero(vector) is answer
