"""Interruption notices: what one says, and which hold after a list."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from builders import a_machine
from mainstay.model.batch import MachineBatch, batch_of
from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId
from mainstay.model.notice import InterruptionNotice, Notices, known_notices

A, B, C = map(MachineId, "abc")
SOON = InterruptionNotice(1_000.0, "spot")
LATER = InterruptionNotice(2_000.0)


@pytest.mark.parametrize("at_s", [-1.0, math.inf, -math.inf, math.nan])
def test_a_time_that_cannot_be_is_refused(at_s: float) -> None:
    with pytest.raises(Rejected, match=f"Unix seconds, or 0: {at_s}"):
        InterruptionNotice(at_s)


def a_list(
    *named: str, full: bool = False, gone: Sequence[MachineId] = (), notices: Notices | None = None
) -> MachineBatch:
    machines = [a_machine(id=name) for name in named]
    return replace(batch_of(machines, full=full, tombstones=gone), notices=notices or {})


class TestKnown:
    def test_the_first_list_says_it_all(self) -> None:
        assert known_notices({}, a_list("a", "b", notices={A: SOON})) == {A: SOON}

    def test_who_is_not_named_by_a_later_list_keeps_what_was_said(self) -> None:
        assert known_notices({A: SOON}, a_list("b", notices={B: LATER})) == {A: SOON, B: LATER}

    def test_who_is_named_without_a_notice_has_none_any_more(self) -> None:
        assert known_notices({A: SOON, B: SOON}, a_list("a")) == {B: SOON}

    def test_the_later_notice_counts(self) -> None:
        assert known_notices({A: SOON}, a_list("a", notices={A: LATER})) == {A: LATER}

    def test_who_is_gone_has_none(self) -> None:
        assert known_notices({A: SOON, B: SOON}, a_list(gone=[A])) == {B: SOON}

    def test_a_full_list_forgets_whom_it_does_not_name(self) -> None:
        full = a_list("b", "c", full=True, notices={C: LATER})

        assert known_notices({A: SOON, B: SOON}, full) == {C: LATER}

    def test_what_was_known_is_left_as_it_was(self) -> None:
        known = {A: SOON}

        known_notices(known, a_list("a", "b", notices={B: LATER}))

        assert known == {A: SOON}
