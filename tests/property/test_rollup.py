"""Any need survives being told; any one thing wrong with a roll-up is found where it is."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from mainstay.model.errors import InvalidRollup, Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, aggregate
from mainstay.model.needs import NeedsTable
from mainstay.model.quantity import parse_quantity
from mainstay.model.rollup import Limits, RawNeed, RawRequirement, RawSpread, accept, raw_of
from outside import examples

WEB: Final = ClusterId("web")
LIMITS: Final = Limits(requirements=6, values=4, spreads=4, dimensions=6, text_bytes=64)
"""Just above what the strategies make."""


def is_quantity(text: str) -> bool:
    try:
        return parse_quantity(text).nanos >= 0
    except Rejected:
        return False


def no_quantities() -> st.SearchStrategy[str]:
    odd = st.one_of(st.text(max_size=8), st.just("-1"), st.just("1e31"), st.just("99E"))
    return odd.filter(lambda text: text == "99E" or not is_quantity(text))


def no_buckets() -> st.SearchStrategy[int]:
    return st.one_of(st.integers(max_value=-1), st.integers(min_value=28))


def not_32_bits() -> st.SearchStrategy[int]:
    return st.one_of(st.integers(max_value=-(2**31) - 1), st.integers(min_value=2**31))


def numbers_but(*known: int) -> st.SearchStrategy[int]:
    return st.integers().filter(lambda number: number not in known)


def too_long() -> st.SearchStrategy[str]:
    return st.text(min_size=65, max_size=70)


def _also(row: RawNeed, requirement: RawRequirement) -> RawNeed:
    return replace(row, requirements=(*row.requirements, requirement))


def _over(row: RawNeed, spread: RawSpread) -> RawNeed:
    return replace(row, spread=(*row.spread, spread))


Corruption = Callable[[RawNeed, st.DataObject], RawNeed]

CORRUPTIONS: Final[dict[str, Corruption]] = {
    "total": lambda row, data: replace(
        row, aggregate_resources={**row.aggregate_resources, "cpu": data.draw(no_quantities())}
    ),
    "unit": lambda row, data: replace(
        row, min_unit={**row.min_unit, "memory": data.draw(no_quantities())}
    ),
    "operator": lambda row, data: _also(
        row, RawRequirement("rack", data.draw(numbers_but(0, 1, 2, 3, 4, 5, 1000, 1001)))
    ),
    "when": lambda row, data: _over(row, RawSpread("rack", 1, data.draw(numbers_but(0, 1, 2)))),
    "skew": lambda row, data: _over(row, RawSpread("rack", data.draw(not_32_bits()), 1)),
    "priority": lambda row, data: replace(row, priority=data.draw(not_32_bits())),
    "interruption": lambda row, data: replace(
        row, interruption_penalty_bucket=data.draw(no_buckets())
    ),
    "reclamation": lambda row, data: replace(
        row, reclamation_penalty_bucket=data.draw(no_buckets())
    ),
    "key": lambda row, data: _also(row, RawRequirement(data.draw(too_long()), 3)),
    "value": lambda row, data: _also(row, RawRequirement("rack", 1, (data.draw(too_long()),))),
    "topology": lambda row, data: _over(row, RawSpread(data.draw(too_long()), 1, 1)),
    "group": lambda row, data: replace(row, group=data.draw(too_long())),
    "resource": lambda row, data: replace(
        row, min_unit={**row.min_unit, data.draw(too_long()): "1"}
    ),
    "requirements": lambda row, _: replace(row, requirements=(RawRequirement("rack", 3),) * 7),
    "values": lambda row, _: _also(row, RawRequirement("rack", 1, ("a",) * 5)),
    "spreads": lambda row, _: replace(row, spread=(RawSpread("rack", 1, 1),) * 5),
    "resources": lambda row, _: replace(row, min_unit=dict.fromkeys("abcdefg", "1")),
}


@given(strategies.needs(WEB))
def test_a_need_that_is_told_is_the_need_that_is_heard(need: Need) -> None:
    told = accept(WEB, [raw_of(need)], arrival_nanos=need.arrival_nanos, limits=LIMITS)

    assert told == (need,)


@given(st.lists(strategies.needs(WEB), max_size=5))
def test_a_roll_up_is_the_sum_of_its_rows(needs: list[Need]) -> None:
    needs = [replace(need, arrival_nanos=9) for need in needs]

    told = accept(WEB, [raw_of(need) for need in needs], arrival_nanos=9, limits=LIMITS)

    assert list(told) == aggregate(needs)


@pytest.mark.parametrize("name", CORRUPTIONS)
@settings(max_examples=examples(20))
@given(needs=st.lists(strategies.needs(WEB), min_size=1, max_size=3), data=st.data())
def test_a_single_corruption_is_found_in_its_row_and_nowhere_else(
    name: str, needs: list[Need], data: st.DataObject
) -> None:
    rows = [raw_of(need) for need in needs]
    spoilt = data.draw(st.integers(0, len(rows) - 1))
    rows[spoilt] = CORRUPTIONS[name](rows[spoilt], data)
    table = NeedsTable()
    table.replace(WEB, needs[:1])

    with pytest.raises(InvalidRollup, match=f"refused: row {spoilt}: ") as caught:
        table.replace(WEB, accept(WEB, rows, arrival_nanos=1, limits=LIMITS))

    assert {row.position for row in caught.value.bad} == {spoilt}
    assert caught.value.message.isprintable()
    assert table.of_cluster(WEB) == tuple(needs[:1])
