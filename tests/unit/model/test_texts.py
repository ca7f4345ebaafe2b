"""Many short strings in one arena: what is found in them."""

import pytest

from mainstay.model.texts import texts_of

NAMES = ["m-1", "M-12", "", "am", "-1m", "ü-1"]


@pytest.mark.parametrize("part", ["", "m", "M-1", "1", "1m", "-12", "mM", "ü", "longer than any"])
def test_what_contains_a_part_is_found_and_nothing_that_only_two_together_contain(
    part: str,
) -> None:
    wanted = [part.lower() in name.lower() for name in NAMES]

    assert texts_of(NAMES).containing(part).tolist() == wanted


def test_of_some_only_these_are_looked_at() -> None:
    some = texts_of(NAMES).take(texts_of(NAMES).order()[::-1])

    assert some.containing("m-1").tolist() == ["m-1" in name.lower() for name in some]


def test_there_may_be_none() -> None:
    assert texts_of([]).containing("m").tolist() == []
