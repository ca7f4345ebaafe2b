import math
import re
from fractions import Fraction
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

import strategies
from mainstay.model.errors import Rejected
from mainstay.model.quantity import NANO, Quantity, parse_quantity
from mainstay.model.resources import from_units, to_units

# What a suffix means, by hand; an exponent is computed.
FACTORS: Final = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip

dimensions = st.sampled_from(strategies.DIMENSIONS)


def meant(text: str) -> Fraction:
    """The exact value of a quantity, read in another way than the code reads it."""
    number = re.match(r"[+-]?[0-9.]+", text)
    assert number is not None
    rest = text[number.end() :]
    digits = Fraction(number[0].rstrip(".") if number[0][-1] == "." else number[0])
    if rest[:1] in {"e", "E"} and len(rest) > 1 and rest != "Ei":
        return digits * Fraction(10) ** int(rest[1:])
    return digits * FACTORS[rest]


def parsed_or_refused(text: str) -> Quantity | None:
    try:
        return parse_quantity(text)
    except Rejected:
        return None


def away_from_zero(value: Fraction) -> int:
    return math.ceil(value) if value >= 0 else math.floor(value)


@given(strategies.quantity_texts())
def test_a_quantity_is_exact_to_the_nano_unit(text: str) -> None:
    assert parse_quantity(text).nanos == away_from_zero(meant(text) * NANO)


@given(strategies.quantity_texts())
def test_the_canonical_text_means_the_same_and_stays_the_same(text: str) -> None:
    parsed = parse_quantity(text)

    again = parse_quantity(str(parsed))

    assert again.nanos == parsed.nanos
    assert str(again) == str(parsed)


@given(strategies.quantity_texts())
def test_the_canonical_text_has_no_fraction(text: str) -> None:
    assert "." not in str(parse_quantity(text))


digits = st.text("0123456789.", max_size=62)
suffixes = st.sampled_from([*FACTORS, "e30", "e-30", "E18", "K", "e"])
any_text = st.one_of(
    st.text(max_size=80),
    st.text("0123456789.+-eEmkKMGiTPnu ", max_size=12),
    st.builds(str.__add__, digits, suffixes),
)


@given(any_text)
def test_any_text_is_a_quantity_or_is_refused(text: str) -> None:
    """No other error ever, whatever comes in."""
    parsed = parsed_or_refused(text)

    assert parsed is None or parse_quantity(str(parsed)).nanos == parsed.nanos


@given(dimensions, st.integers(0, 2**53))
def test_units_survive_being_written_as_a_quantity(dimension: str, units: int) -> None:
    assert to_units(dimension, parse_quantity(from_units(dimension, units))) == units


@given(dimensions, st.integers(0, 2**90), st.integers(0, 2**90))
def test_rounding_up_never_turns_an_order_around(dimension: str, one: int, other: int) -> None:
    """So what fits exactly still fits after rounding, for machines and needs alike."""
    low, high = sorted((one, other))

    assert to_units(dimension, Quantity(low)) <= to_units(dimension, Quantity(high))
