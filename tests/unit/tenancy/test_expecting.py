"""When an allocation, or capacity that is waited for, may be expected."""

from dataclasses import replace

import pytest

from mainstay.model.questions import NOTHING_EXPECTED, Expected, When
from mainstay.tenancy.expecting import (
    After,
    Recorded,
    after_of,
    allocation_expected,
    expected_of,
    request_expected,
)
from mainstay.tenancy.states import Status

AFTER = After(cluster="tenants", need="0123456789abcdef", joining_s=5.0)
JOINING = replace(AFTER, age_s=3.0, left_s=2.0)
LATE = replace(AFTER, age_s=9.0)
UNMEASURED = After(cluster="tenants", need="0123456789abcdef", joining_s=None)


@pytest.mark.parametrize(
    ("age_s", "took_s", "left_s"),
    [
        (0.0, (4.0, 10.0, 30.0), 10.0), (9.0, (4.0, 10.0, 30.0), 11.0),
        (20.0, (4.0, 10.0, 30.0), 10.0), (30.0, (4.0, 10.0, 30.0), None), (0.0, (), None),
    ],
)  # fmt: skip
def test_what_is_left_is_told_by_those_that_took_longer(
    age_s: float, took_s: tuple[float, ...], left_s: float | None
) -> None:
    assert Recorded(age_s=age_s, took_s=took_s).left_s() == left_s


@pytest.mark.parametrize("status", [Status.REQUESTED, Status.PROVISIONING, Status.RELEASING])
def test_one_on_its_way_takes_as_long_as_the_last_ones(status: Status) -> None:
    told = allocation_expected(status, Recorded(age_s=2.0, took_s=(8.0, 8.0)))

    assert (told.when, told.seconds) == (When.ABOUT, 6.0)
    assert told.because[0].startswith("it takes 2 s already, and 2 of the last 2 took longer: 8 s")


def test_the_reason_is_told_by_those_that_the_time_is_told_by() -> None:
    told = allocation_expected(Status.REQUESTED, Recorded(age_s=20.0, took_s=(4.0, 10.0, 30.0)))

    why = "it takes 20 s already, and 1 of the last 3 took longer: 30 s to be active"
    assert (told.seconds, told.because) == (10.0, (why,))


def test_one_that_takes_longer_than_any_and_one_without_an_example_are_not_known() -> None:
    longer = allocation_expected(Status.PROVISIONING, Recorded(age_s=9.0, took_s=(8.0,)))
    first = allocation_expected(Status.REQUESTED, Recorded(age_s=1.0))

    assert (longer.when, first.when) == (When.UNKNOWN, When.UNKNOWN)
    assert longer.because == ("it takes 9 s already, longer than the last one",)
    why = "none like it in its project, and too few elsewhere, have come to be active yet"
    assert first.because == (why,)


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.RELEASED, Status.FAILED])
def test_nothing_is_expected_of_one_that_stays(status: Status) -> None:
    assert allocation_expected(status, Recorded(took_s=(8.0,))) == NOTHING_EXPECTED


def test_a_clean_up_that_failed_does_not_end_by_itself() -> None:
    told = allocation_expected(Status.RELEASE_FAILED, Recorded())

    assert told.when is When.NEVER
    assert "until somebody asks for it again (`mainstay alloc release`)" in told.because[0]


@pytest.mark.parametrize(
    ("need", "when", "seconds"),
    [
        (Expected(when=When.NOW, because=("b",)), When.ABOUT, 5.0),
        (Expected(when=When.ABOUT, seconds=40.0, because=("b",)), When.ABOUT, 40.0),
        (Expected(when=When.ABOUT, seconds=2.0, because=("b",)), When.ABOUT, 5.0),
        (Expected(when=When.NOT_BEFORE, seconds=60.0, because=("b",)), When.NOT_BEFORE, 65.0),
        (Expected(when=When.NEVER, because=("b",)), When.NEVER, 0.0),
        (Expected(when=When.UNKNOWN, because=("b",)), When.UNKNOWN, 0.0),
    ],
)
def test_a_request_has_its_room_when_its_need_is_served_and_the_node_has_joined(
    need: Expected, when: When, seconds: float
) -> None:
    """The shard counts until the machine is configured; a node is configured while it joins."""
    told = request_expected(AFTER, need)

    assert (told.when, told.seconds, told.because[0]) == (when, seconds, "b")
    assert ("its node joins" in told.because[-1]) is bool(seconds)


@pytest.mark.parametrize(
    ("need", "seconds"), [(When.NOW, 2.0), (When.ABOUT, 5.0), (When.NOT_BEFORE, 65.0)]
)
def test_a_node_that_joins_already_is_the_requests_own_only_once_its_need_is_served(
    need: When, seconds: float
) -> None:
    told_s = {When.NOW: 0.0, When.ABOUT: 4.0, When.NOT_BEFORE: 60.0}
    told = request_expected(JOINING, Expected(when=need, seconds=told_s[need]))

    assert told.seconds == seconds
    assert ("for 3 s by now: 2 s more" in told.because[-1]) is (need is When.NOW)


def test_a_node_that_joins_for_longer_than_any_is_told_apart_from_the_first_of_its_kind() -> None:
    late = request_expected(LATE, Expected(when=When.NOW))
    first = request_expected(replace(UNMEASURED, age_s=9.0), Expected(when=When.NOW))
    bought = request_expected(LATE, Expected(when=When.ABOUT, seconds=40.0))

    assert (late.when, first.when, bought.when) == (When.UNKNOWN, When.UNKNOWN, When.ABOUT)
    assert late.because == ("its node joins, for 9 s by now, longer than any of the last ones",)
    assert "no node of its kind has joined yet" in first.because[0]


@pytest.mark.parametrize(
    ("need", "when"),
    [(When.NOW, When.UNKNOWN), (When.ABOUT, When.UNKNOWN), (When.NOT_BEFORE, When.NOT_BEFORE)],
)
def test_where_no_node_has_joined_yet_that_is_said(need: When, when: When) -> None:
    told = request_expected(UNMEASURED, Expected(when=need, seconds=7.0))

    assert told.when is when
    assert "no node of its kind has joined yet" in told.because[-1]


def test_where_no_shard_can_be_asked_that_is_said_with_the_need() -> None:
    told = request_expected(AFTER, None)

    assert told.when is When.UNKNOWN
    assert "need 01234567 of cluster tenants" in told.because[0]


def test_what_the_api_says_is_read_back() -> None:
    said = {"when": "not_before", "seconds": 3.0, "because": ["b"], "after": None}
    after = {"cluster": "tenants", "need": "0123456789abcdef", "joining_s": 5.0, "age_s": 3.0,
             "left_s": 2.0}  # fmt: skip

    assert expected_of(said) == Expected(when=When.NOT_BEFORE, seconds=3.0, because=("b",))
    assert after_of(said) is None
    assert after_of({**said, "after": after}) == JOINING
