"""How little is too little to be believed at once."""

from collections.abc import Sequence

import pytest

from builders import a_need
from mainstay.model.errors import Rejected
from mainstay.model.need import Need
from mainstay.shard.quarantine import (
    BELIEVED,
    Baseline,
    Judged,
    QuarantineRule,
    Suspicion,
    judge,
    suspicion,
)


def rows(count: int, **amounts: int) -> list[Need]:
    return [
        a_need(aggregate=amounts or {"cpu": 1000}, group=f"g-{number}") for number in range(count)
    ]


def others(count: int, **amounts: int) -> list[Need]:
    return [a_need(aggregate=amounts, group=f"other-{number}") for number in range(count)]


def found(before: Sequence[Need], after: Sequence[Need], **rule: object) -> Suspicion | None:
    return suspicion(Baseline(before), after, QuarantineRule(**rule))  # type: ignore[arg-type]


class TestRows:
    @pytest.mark.parametrize(
        ("before", "after", "suspicious"),
        [
            (20, 2, False), (20, 1, True), (20, 0, True), (10, 1, False), (10, 0, True),
            (9, 0, False), (29, 3, False), (29, 2, True), (30, 3, False), (30, 2, True),
            (0, 0, False), (20, 20, False), (20, 40, False),
        ],
    )  # fmt: skip
    def test_less_than_a_tenth_of_at_least_ten_rows_is_suspicious(
        self, before: int, after: int, suspicious: bool
    ) -> None:
        """Exactly a tenth is not, also where a tenth has no binary form (30 rows)."""
        assert (found(rows(before), rows(after)) is Suspicion.ROWS) == suspicious

    def test_it_can_be_switched_off(self) -> None:
        assert found(rows(20), [], enabled=False) is None

    def test_the_smallest_baseline_and_the_share_can_be_chosen(self) -> None:
        assert found(rows(5), [], rows_min=5) is Suspicion.ROWS
        assert found(rows(5), [], rows_min=6) is None
        assert found(rows(10), rows(4), keep_fraction=0.5) is Suspicion.ROWS
        assert found(rows(10), rows(5), keep_fraction=0.5) is None
        assert found(rows(10), [], keep_fraction=0.0) is None


class TestAmounts:
    @pytest.mark.parametrize(
        ("after", "suspicious"),
        [
            ({"cpu": 1000, "memory": 500}, False),
            ({"cpu": 100, "memory": 50}, False),
            ({"cpu": 99, "memory": 500}, True),
            ({"cpu": 1000, "memory": 49}, True),
            ({"cpu": 1000}, True),
            ({"cpu": 99, "memory": 49}, True),
            ({"cpu": 0, "memory": 0}, True),
            ({}, True),
            ({"cpu": 99}, True),
            ({"gpu": 1}, True),
            ({"cpu": 1000, "gpu": 1}, True),
        ],
    )
    def test_rows_that_stay_and_lose_one_amount_or_all_are_suspicious(
        self, after: dict[str, int], suspicious: bool
    ) -> None:
        before = rows(10, cpu=1000, memory=500)
        now = [a_need(aggregate=after, group=f"g-{number}") for number in range(10)]

        assert (found(before, now) is Suspicion.AMOUNTS) == suspicious

    def test_totals_count_not_rows(self) -> None:
        """One row may keep what all others lose."""
        before = rows(10, cpu=1000)

        assert found(before, [*rows(9, cpu=0), a_need(aggregate={"cpu": 1000})]) is None
        assert found(before, [*rows(9, cpu=0), a_need(aggregate={"cpu": 999})]) is not None

    @pytest.mark.parametrize("after", [rows(11, cpu=1), rows(9, cpu=1), others(10, cpu=1)])
    def test_other_rows_may_ask_for_one_amount_less_but_not_for_nothing(
        self, after: list[Need]
    ) -> None:
        before = rows(10, cpu=1000, memory=500)
        kept = a_need(aggregate={"memory": 5000}, group=after[0].group)

        assert found(before, [kept, *after[1:]]) is None
        assert found(before, after) is Suspicion.AMOUNTS

    def test_other_rows_that_ask_for_something_else_instead_are_no_loss(self) -> None:
        assert found(rows(10, cpu=1000), others(10, gpu=1)) is None
        assert found(rows(10, cpu=1000), others(10, gpu=0)) is Suspicion.AMOUNTS

    @pytest.mark.parametrize(("asking", "suspicious"), [(9, False), (10, True)])
    def test_what_only_a_few_rows_ask_for_they_may_stop_asking_for(
        self, asking: int, suspicious: bool
    ) -> None:
        """A job that ends takes its GPUs with it, and nobody waits for the rest of the demand."""
        before = [*rows(asking, cpu=1000, gpu=8), *others(10, cpu=1000)]
        now = [*rows(asking, cpu=1000, gpu=0), *others(10, cpu=1000)]

        assert (found(before, now) is Suspicion.AMOUNTS) == suspicious

    def test_what_asked_for_nothing_before_has_nothing_to_lose(self) -> None:
        assert found(rows(10, cpu=0), rows(10, cpu=0)) is None

    def test_small_demand_is_believed_whatever_it_loses(self) -> None:
        assert found(rows(9, cpu=1000), rows(9, cpu=1)) is None

    def test_a_share_of_zero_believes_everything(self) -> None:
        assert found(rows(10, cpu=1000), rows(10, cpu=0), keep_fraction=0.0) is None


class TestJudging:
    def test_two_are_held_and_the_third_is_believed(self) -> None:
        before = Baseline(rows(20))

        assert judge(before, [], 0) == Judged(Suspicion.ROWS, 1)
        assert judge(before, [], 1) == Judged(Suspicion.ROWS, 2)
        assert judge(before, [], 2) == BELIEVED

    def test_one_that_asks_for_enough_is_believed_at_once(self) -> None:
        assert judge(Baseline(rows(20)), rows(18), 2) == BELIEVED

    def test_with_one_confirmation_nothing_is_held(self) -> None:
        assert judge(Baseline(rows(20)), [], 0, QuarantineRule(confirmations=1)) == BELIEVED

    @pytest.mark.parametrize(
        "rule",
        [{"rows_min": 0}, {"confirmations": 0}, {"keep_fraction": -0.1}, {"keep_fraction": 1.1},
         {"keep_fraction": float("nan")}],
    )  # fmt: skip
    def test_a_rule_that_is_none_is_refused(self, rule: dict[str, object]) -> None:
        with pytest.raises(Rejected, match=next(iter(rule))):
            QuarantineRule(**rule)  # type: ignore[arg-type]
