from fractions import Fraction

import pytest

from mainstay.model.errors import Rejected
from mainstay.model.quantity import NANO, Notation, Quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(0)),
        ("2", Fraction(2)),
        ("96", Fraction(96)),
        ("200m", Fraction(1, 5)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("+2", Fraction(2)),
        ("-2", Fraction(-2)),
        ("007", Fraction(7)),
        ("100n", Fraction(100, 10**9)),
        ("100u", Fraction(100, 10**6)),
        ("3k", Fraction(3000)),
        ("3M", Fraction(3 * 10**6)),
        ("3G", Fraction(3 * 10**9)),
        ("3T", Fraction(3 * 10**12)),
        ("3P", Fraction(3 * 10**15)),
        ("3E", Fraction(3 * 10**18)),
        ("3Ki", Fraction(3 * 2**10)),
        ("3Mi", Fraction(3 * 2**20)),
        ("16Gi", Fraction(16 * 2**30)),
        ("3Ti", Fraction(3 * 2**40)),
        ("3Pi", Fraction(3 * 2**50)),
        ("3Ei", Fraction(3 * 2**60)),
        ("0.5Gi", Fraction(2**29)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("1e-3", Fraction(1, 1000)),
        ("12e+2", Fraction(1200)),
    ],
)
def test_a_quantity_is_exactly_what_kubernetes_means_by_it(text: str, value: Fraction) -> None:
    assert Fraction(parse_quantity(text).nanos, NANO) == value


@pytest.mark.parametrize(
    ("text", "nanos"),
    [("0.1n", 1), ("-0.1n", -1), ("1.0000000001", NANO + 1), ("1e-30", 1), ("0.0000000001Ki", 103)],
)
def test_what_is_finer_than_a_nano_unit_is_rounded_away_from_zero(text: str, nanos: int) -> None:
    assert parse_quantity(text).nanos == nanos


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("-0", "0"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("1025Ki", "1025Ki"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("-2000", "-2k"),
        ("+2", "2"),
    ],
)
def test_the_canonical_text_is_that_of_kubernetes(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize("text", ["200m", "16Gi", "96", "768Gi", "1e3", "2k", "1500m"])
def test_a_canonical_text_comes_back_unchanged(text: str) -> None:
    assert str(parse_quantity(text)) == text


def test_the_notation_is_remembered() -> None:
    assert parse_quantity("1Ki").notation is Notation.BINARY
    assert parse_quantity("1e3").notation is Notation.EXPONENT
    assert parse_quantity("1k").notation is Notation.DECIMAL


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", "+", "-", "m", "Gi", "e3", "1.1.1", "1 Gi", " 1", "1 ", "1\n", "+-1"),
        *("1K", "1ki", "1gi", "1mi", "1i", "1e", "1e+", "1e1.5", "0x10", "1_000", "1,5"),
        *("\u0663", "NaN", "Inf", "many", "1GiB", "1" * 65),
    ],
)
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Rejected, match="write it like") as refused:
        parse_quantity(text)

    assert repr(text[:80]) in refused.value.message


@pytest.mark.parametrize("text", ["1e31", "1e-31", "1e999"])
def test_an_absurd_exponent_is_refused_with_its_bound(text: str) -> None:
    with pytest.raises(Rejected, match=r"exponent out of range.*at most 30"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["9" * 60, "9" * 40 + "." + "9" * 20 + "Ei", "9" * 40 + "e30"])
def test_a_quantity_whose_own_text_could_not_be_read_again_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match="too large"):
        parse_quantity(text)


def test_a_text_of_64_characters_is_still_read() -> None:
    assert parse_quantity("0" * 63 + "7").nanos == 7 * NANO


def test_a_huge_text_is_refused_in_a_short_message() -> None:
    with pytest.raises(Rejected) as refused:
        parse_quantity("9" * 1_000_000)

    assert len(refused.value.message) < 200


def test_a_quantity_of_nano_units_prints_without_being_parsed() -> None:
    assert str(Quantity(2_500_000_000)) == "2500m"
