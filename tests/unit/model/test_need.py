from dataclasses import fields, replace
from itertools import combinations
from typing import Any, Final

import pytest

from builders import a_need, a_need_profile, a_profile
from mainstay.model.assignment import NeedRef
from mainstay.model.errors import Rejected
from mainstay.model.need import (
    Need,
    NeedProfile,
    Operator,
    Requirement,
    Spread,
    WhenUnsatisfiable,
    aggregate,
)

O: Final = Operator  # noqa: E741 - read as a column heading below
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"

ZONE_A: Final = Requirement("topology.kubernetes.io/zone", O.IN, ("zone-a",))
ON_GPU: Final = Requirement("gpu", O.EXISTS)
SPREAD: Final = Spread("rack", 1, WhenUnsatisfiable.DO_NOT_SCHEDULE)

# (operator, values) -> the answer for: absent, "a", "b"; by hand from engine.md 1.7.
MATCHING: Final = [
    (O.UNSPECIFIED, (), (False, False, False)),
    (O.UNSPECIFIED, ("a",), (False, False, False)),
    (O.IN, (), (False, False, False)),
    (O.IN, ("a",), (False, True, False)),
    (O.IN, ("a", "b"), (False, True, True)),
    (O.NOT_IN, (), (True, True, True)),
    (O.NOT_IN, ("a",), (True, False, True)),
    (O.EXISTS, (), (False, True, True)),
    (O.DOES_NOT_EXIST, (), (True, False, False)),
    (O.SAME, (), (False, True, True)),
    (O.SAME, ("a",), (False, True, False)),
]

# Profiles of which no two are the same.
DISTINCT: Final = [
    a_need_profile(),
    a_need_profile(priority=101),
    a_need_profile(priority=-100),
    a_need_profile(interruption_penalty_bucket=1),
    a_need_profile(reclamation_penalty_bucket=1),
    a_need_profile(interruption_penalty_bucket=11),
    a_need_profile(interruption_penalty_bucket=1, reclamation_penalty_bucket=1),
    a_need_profile(requirements=(ZONE_A,)),
    a_need_profile(requirements=(ON_GPU,)),
    a_need_profile(requirements=(ZONE_A, ON_GPU)),
    a_need_profile(requirements=(replace(ZONE_A, operator=O.NOT_IN),)),
    a_need_profile(requirements=(replace(ZONE_A, values=("zone-b",)),)),
    a_need_profile(requirements=(replace(ZONE_A, values=("zone-a", "zone-b")),)),
    a_need_profile(requirements=(replace(ZONE_A, values=("zone-a,zone-b",)),)),
    a_need_profile(requirements=(replace(ZONE_A, values=("zone-a", "")),)),
    a_need_profile(spread=(SPREAD,)),
    a_need_profile(spread=(replace(SPREAD, max_skew=2),)),
    a_need_profile(spread=(replace(SPREAD, topology_key="row"),)),
    a_need_profile(spread=(replace(SPREAD, when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY),)),
    a_need_profile(requirements=(Requirement("s", O.EXISTS), Requirement("rack", O.IN, ("1",)))),
    a_need_profile(requirements=(Requirement("a", O.IN, ("1", "r", "b", "3", "0")),)),
    a_need_profile(requirements=(Requirement("a", O.IN, ("1",)), Requirement("b", O.EXISTS))),
]


def test_operators_are_numbered_as_on_the_wire_and_ours_far_above() -> None:
    assert {operator.name: int(operator) for operator in Operator} == {
        "UNSPECIFIED": 0, "IN": 1, "NOT_IN": 2, "EXISTS": 3, "DOES_NOT_EXIST": 4, "SAME": 5,
        "GT": 1000, "LT": 1001,
    }  # fmt: skip


def test_what_to_do_with_a_spread_is_numbered_as_on_the_wire() -> None:
    assert {what.name: int(what) for what in WhenUnsatisfiable} == {
        "UNSPECIFIED": 0, "DO_NOT_SCHEDULE": 1, "SCHEDULE_ANYWAY": 2,
    }  # fmt: skip


@pytest.mark.parametrize(("operator", "values", "answers"), MATCHING)
def test_a_requirement_admits_what_its_operator_says(
    operator: Operator, values: tuple[str, ...], answers: tuple[bool, bool, bool]
) -> None:
    requirement = Requirement("key", operator, values)

    assert tuple(requirement.admits(value) for value in (None, "a", "b")) == answers


@pytest.mark.parametrize(
    ("value", "greater", "less"),
    [("4", False, True), ("5", False, False), ("6", True, False), ("-9", False, True),
     ("10", True, False), ("007", True, False), (str(2**63 - 1), True, False),
     (str(-(2**63)), False, True)],
)  # fmt: skip
def test_gt_and_lt_compare_whole_numbers(value: str, greater: bool, less: bool) -> None:
    assert Requirement("generation", O.GT, ("5",)).admits(value) is greater
    assert Requirement("generation", O.LT, ("5",)).admits(value) is less


@pytest.mark.parametrize(
    "value", [None, "", "six", "6.5", " 6", "6\n", "6_0", "\uff16", "0x6", str(2**63), "9" * 5000]
)
def test_what_is_no_whole_number_is_neither_greater_nor_less(value: str | None) -> None:
    assert not Requirement("generation", O.GT, ("5",)).admits(value)
    assert not Requirement("generation", O.LT, ("5",)).admits(value)


@pytest.mark.parametrize("bounds", [(), ("1", "2"), ("five",)])
@pytest.mark.parametrize("operator", [O.GT, O.LT])
def test_a_comparison_with_anything_but_one_number_never_matches(
    operator: Operator, bounds: tuple[str, ...]
) -> None:
    assert not Requirement("generation", operator, bounds).admits("3")


def test_a_machine_matches_when_it_fulfils_every_requirement() -> None:
    profile = a_need_profile(requirements=(ZONE_A, ON_GPU))

    assert profile.matches(a_profile(zone="zone-a", labels={"gpu": "h100"}))
    assert not profile.matches(a_profile(zone="zone-b", labels={"gpu": "h100"}))
    assert not profile.matches(a_profile(zone="zone-a"))


def test_a_need_without_requirements_matches_any_machine() -> None:
    assert a_need_profile().matches(a_profile())


def test_the_order_of_requirements_values_and_spread_does_not_matter() -> None:
    two_zones = replace(ZONE_A, values=("zone-a", "zone-b"))
    by_row = replace(SPREAD, topology_key="row")
    one = a_need_profile(requirements=(two_zones, ON_GPU), spread=(SPREAD, by_row))
    other = a_need_profile(
        requirements=(ON_GPU, replace(ZONE_A, values=("zone-b", "zone-a"))),
        spread=(by_row, SPREAD),
    )

    assert one == other
    assert one.fingerprint == other.fingerprint


def test_different_profiles_have_different_fingerprints() -> None:
    for one, other in combinations(DISTINCT, 2):
        assert one != other
        assert one.fingerprint != other.fingerprint


def test_a_fingerprint_is_128_bits_in_hexadecimal() -> None:
    fingerprint = a_need_profile().fingerprint

    assert len(fingerprint) == 32
    assert int(fingerprint, 16) >= 0


def test_a_fingerprint_is_the_same_in_every_process_and_release() -> None:
    """It is stored at the provider: changing it orphans every assignment of a running fleet."""
    profile = NeedProfile(requirements=(ZONE_A, ON_GPU), spread=(SPREAD,), priority=100)

    assert profile.fingerprint == "7847771bd81eb61d09bb26fbae13d318"


def test_cluster_group_resources_and_arrival_are_no_part_of_the_fingerprint() -> None:
    one = a_need()
    other = a_need(cluster="batch", group="gang-1", aggregate={"cpu": 1}, arrival_nanos=5)

    assert one.profile.fingerprint == other.profile.fingerprint


def test_text_that_is_no_unicode_still_has_a_fingerprint() -> None:
    broken = a_need_profile(requirements=(Requirement("\ud800", O.EXISTS),))

    assert len(broken.fingerprint) == 32


@pytest.mark.parametrize("name", ["interruption_penalty_bucket", "reclamation_penalty_bucket"])
@pytest.mark.parametrize("bucket", [-1, 28, 2**31])
def test_a_penalty_bucket_outside_the_ladder_is_refused(name: str, bucket: int) -> None:
    with pytest.raises(Rejected, match=f"{name} out of range: {bucket} .must be 0 to 27"):
        NeedProfile(**{name: bucket})  # type: ignore[arg-type]


@pytest.mark.parametrize("priority", [-(2**31) - 1, 2**31])
def test_a_priority_outside_32_bits_is_refused(priority: int) -> None:
    with pytest.raises(Rejected, match="priority out of range"):
        a_need_profile(priority=priority)


@pytest.mark.parametrize("priority", [-(2**31), 0, 2**31 - 1])
def test_any_priority_of_32_bits_is_taken(priority: int) -> None:
    assert a_need_profile(priority=priority).priority == priority


def test_the_two_penalty_axes_are_independent() -> None:
    profile = a_need_profile(interruption_penalty_bucket=27, reclamation_penalty_bucket=1)

    assert profile.interruption_penalty_bucket == 27
    assert profile.reclamation_penalty_bucket == 1


def test_same_keys_are_those_on_which_all_machines_must_agree() -> None:
    gang = a_need_profile(requirements=(Requirement("nvswitch", O.SAME), ON_GPU))

    assert gang.same_keys == ("nvswitch",)
    assert a_need_profile(requirements=(ON_GPU,)).same_keys == ()


@pytest.mark.parametrize(
    ("requirements", "pinned"),
    [
        ((), ()),
        ((ZONE_A,), ()),
        ((Requirement(INSTANCE_TYPE, O.IN, ("p5", "m5")),), ("m5", "p5")),
        ((Requirement(INSTANCE_TYPE, O.IN, ()),), ()),
        ((Requirement(INSTANCE_TYPE, O.NOT_IN, ("m5",)),), ()),
        ((Requirement(INSTANCE_TYPE, O.EXISTS),), ()),
        (
            (
                Requirement(INSTANCE_TYPE, O.NOT_IN, ("x",)),
                Requirement(INSTANCE_TYPE, O.IN, ("m5",)),
            ),
            ("m5",),
        ),
    ],
)
def test_a_need_is_pinned_to_the_instance_types_it_lists(
    requirements: tuple[Requirement, ...], pinned: tuple[str, ...]
) -> None:
    assert a_need_profile(requirements=requirements).pinned_types == pinned


def test_a_need_has_no_count() -> None:
    """How many machines it takes is an output of the engine."""
    assert not {"count", "machines", "replicas"} & {field.name for field in fields(Need)}


def test_a_need_is_named_by_cluster_profile_and_group() -> None:
    need = a_need(cluster="train", group="gang-1")

    assert need.ref == NeedRef(need.cluster, need.profile.fingerprint, "gang-1")


def test_equal_needs_of_a_cluster_add_up_to_one_row() -> None:
    first = a_need(aggregate={"cpu": 4000}, min_unit={"cpu": 1000}, arrival_nanos=9)
    second = a_need(
        aggregate={"cpu": 2000, "gpu": 1}, min_unit={"cpu": 500, "gpu": 1}, arrival_nanos=7
    )

    assert aggregate([first, second]) == [
        a_need(aggregate={"cpu": 6000, "gpu": 1}, min_unit={"cpu": 1000, "gpu": 1}, arrival_nanos=7)
    ]


@pytest.mark.parametrize(
    "other",
    [
        a_need(cluster="batch"),
        a_need(group="gang-1"),
        a_need(profile=a_need_profile(priority=1)),
    ],
)
def test_needs_of_another_cluster_gang_or_profile_stay_apart(other: Need) -> None:
    assert aggregate([a_need(), other]) == [a_need(), other]


@pytest.mark.parametrize(
    ("arrivals", "earliest"), [((0, 5), 5), ((5, 0), 5), ((0, 0), 0), ((5, 3), 3)]
)
def test_the_earliest_known_arrival_stays(arrivals: tuple[int, int], earliest: int) -> None:
    rows = aggregate(a_need(arrival_nanos=arrival) for arrival in arrivals)

    assert [row.arrival_nanos for row in rows] == [earliest]


def test_no_needs_add_up_to_nothing() -> None:
    assert aggregate([]) == []


@pytest.mark.parametrize("amount", [-1, 2**53 + 1])
@pytest.mark.parametrize("field", ["aggregate", "min_unit"])
def test_an_amount_that_nobody_can_want_is_refused(field: str, amount: int) -> None:
    wanted: dict[str, Any] = {field: {"cpu": amount}}

    with pytest.raises(Rejected, match=f"{field} of 'cpu' out of range"):
        a_need(**wanted)


def test_the_amounts_of_a_need_do_not_change_afterwards() -> None:
    amounts = {"cpu": 1000}
    need = a_need(aggregate=amounts)

    amounts["cpu"] = 7

    assert need.aggregate == {"cpu": 1000}
