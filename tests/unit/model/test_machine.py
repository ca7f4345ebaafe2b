import math
from dataclasses import FrozenInstanceError, fields, replace
from itertools import product
from typing import Any, Final, cast

import pytest

from builders import (
    A_CLUSTER,
    A_HOST,
    A_NEED_REF,
    REAL_STATES,
    MachineParts,
    a_machine,
    a_profile,
    an_assignment,
)
from mainstay.model.assignment import Assignment
from mainstay.model.errors import InvalidMachine, Rejected
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import STRUCTURAL, Machine, MachineRule, check, faults
from mainstay.model.profile import CapacityType, HostRef, Profile
from mainstay.model.resources import NO_RESOURCES, Resources
from mainstay.model.state import State

S: Final = State
R: Final = MachineRule

NONE: Final = frozenset[MachineRule]()
HOST: Final = frozenset({R.HOST})
CLUSTER: Final = frozenset({R.CLUSTER})
BOTH: Final = HOST | CLUSTER
STATE: Final = frozenset({R.STATE})

# Seed 000, the full grid, by hand: (state, host is set, cluster is set) -> the rules it breaks.
# Idle and Deleting must not have a cluster, which the seed leaves to the provider's word.
# fmt: off
GRID: Final = {
    (S.UNSPECIFIED, False, False): STATE,
    (S.UNSPECIFIED, False, True):  STATE,
    (S.UNSPECIFIED, True,  False): STATE,
    (S.UNSPECIFIED, True,  True):  STATE,
    (S.SPECULATIVE, False, False): NONE,
    (S.SPECULATIVE, False, True):  CLUSTER,
    (S.SPECULATIVE, True,  False): HOST,
    (S.SPECULATIVE, True,  True):  BOTH,
    (S.CREATING,    False, False): NONE,
    (S.CREATING,    False, True):  CLUSTER,
    (S.CREATING,    True,  False): HOST,
    (S.CREATING,    True,  True):  BOTH,
    (S.IDLE,        False, False): HOST,
    (S.IDLE,        False, True):  BOTH,
    (S.IDLE,        True,  False): NONE,
    (S.IDLE,        True,  True):  CLUSTER,
    (S.CONFIGURING, False, False): HOST,
    (S.CONFIGURING, False, True):  HOST,
    (S.CONFIGURING, True,  False): NONE,
    (S.CONFIGURING, True,  True):  NONE,
    (S.CONFIGURED,  False, False): BOTH,
    (S.CONFIGURED,  False, True):  HOST,
    (S.CONFIGURED,  True,  False): CLUSTER,
    (S.CONFIGURED,  True,  True):  NONE,
    (S.DRAINING,    False, False): BOTH,
    (S.DRAINING,    False, True):  HOST,
    (S.DRAINING,    True,  False): CLUSTER,
    (S.DRAINING,    True,  True):  NONE,
    (S.DELETING,    False, False): HOST,
    (S.DELETING,    False, True):  BOTH,
    (S.DELETING,    True,  False): NONE,
    (S.DELETING,    True,  True):  CLUSTER,
    (S.FAILED,      False, False): NONE,
    (S.FAILED,      False, True):  NONE,
    (S.FAILED,      True,  False): NONE,
    (S.FAILED,      True,  True):  NONE,
}
# fmt: on

# Which parts of an assignment a machine may carry, by hand.
NEED_PARTS: Final = {"fingerprint", "group", "cluster"}
SERVING_PARTS: Final = NEED_PARTS | {
    "priority", "interruption_penalty_dollars", "reclamation_penalty_dollars",
}  # fmt: skip
ALL_PARTS: Final = SERVING_PARTS | {"drained_for"}
MAY_CARRY: Final[dict[State, set[str]]] = {
    S.SPECULATIVE: set(),
    S.CREATING: NEED_PARTS,
    S.IDLE: set(),
    S.CONFIGURING: SERVING_PARTS,
    S.CONFIGURED: SERVING_PARTS,
    S.DRAINING: ALL_PARTS,
    S.DELETING: set(),
    S.FAILED: ALL_PARTS,
}

A_FULL_ASSIGNMENT: Final = an_assignment(group="gang-1", drained_for=A_NEED_REF)


def broken(machine: Machine) -> set[MachineRule]:
    return {rule for rule, _ in faults(machine)}


def only(part: str) -> Assignment:
    """An assignment of which this one part is known."""
    return Assignment(**cast("Any", {part: getattr(A_FULL_ASSIGNMENT, part)}))


@pytest.mark.parametrize(("state", "host", "cluster"), GRID, ids=str)
def test_the_state_says_whether_there_is_a_host_and_a_cluster(
    state: State, host: bool, cluster: bool
) -> None:
    machine = a_machine(
        state, host=A_HOST if host else None, cluster=A_CLUSTER if cluster else None
    )

    assert broken(machine) == GRID[state, host, cluster]


def test_the_grid_is_complete() -> None:
    assert set(GRID) == set(product(State, [False, True], [False, True]))


@pytest.mark.parametrize("state", [s for s in State if s is not State.FAILED])
def test_a_cluster_without_a_host_cannot_occur(state: State) -> None:
    assert broken(a_machine(state, host=None, cluster="web"))


@pytest.mark.parametrize("state", [State.CONFIGURED, State.DRAINING])
def test_an_empty_cluster_is_no_cluster(state: State) -> None:
    assert broken(a_machine(state, cluster="")) == {MachineRule.CLUSTER}


@pytest.mark.parametrize("state", [State.SPECULATIVE, State.CREATING, State.IDLE, State.DELETING])
def test_an_empty_cluster_does_not_bind(state: State) -> None:
    assert not broken(a_machine(state, cluster=""))


@pytest.mark.parametrize(
    ("ref", "rules"),
    [("x" * 1024, NONE), ("x" * 1025, HOST), ("ü" * 513, HOST)],
    ids=["1024 letters", "1025 letters", "513 letters of two bytes"],
)
def test_what_a_provider_calls_its_hardware_has_at_most_1024_bytes(
    ref: str, rules: frozenset[MachineRule]
) -> None:
    assert broken(a_machine(State.IDLE, host=HostRef("metal", ref))) == rules


@pytest.mark.parametrize("state", REAL_STATES)
def test_a_machine_that_carries_what_its_state_asks_passes_the_check(state: State) -> None:
    check(a_machine(state))


def test_a_zeroed_record_is_not_a_valid_machine() -> None:
    """Or it would pass for a quota slot."""
    zeroed = Machine(id=MachineId(""), state=State(0), profile=Profile(""))

    assert MachineRule.STATE in broken(zeroed)


def test_the_guard_is_never_legal_at_rest() -> None:
    with pytest.raises(InvalidMachine, match="Unspecified") as refused:
        check(a_machine(State.UNSPECIFIED, host=A_HOST))

    assert refused.value.rule == MachineRule.STATE


@pytest.mark.parametrize("number", [9, 42, -1])
def test_a_corrupted_state_number_is_refused_and_shown(number: int) -> None:
    corrupted = replace(a_machine(), state=cast("State", number))

    with pytest.raises(InvalidMachine, match=rf"State\({number}\)") as refused:
        check(corrupted)

    assert refused.value.rule == MachineRule.STATE


def test_a_failed_machine_without_a_diagnosis_is_not_valid() -> None:
    assert broken(a_machine(State.FAILED, last_error="")) == {MachineRule.DIAGNOSIS}


@pytest.mark.parametrize("state", [s for s in REAL_STATES if s is not State.FAILED])
def test_an_error_of_the_past_does_not_make_a_machine_failed(state: State) -> None:
    assert not broken(a_machine(state, last_error="configure timed out, rolled back"))


@pytest.mark.parametrize("part", sorted(ALL_PARTS))
@pytest.mark.parametrize("state", REAL_STATES)
def test_the_state_says_which_parts_of_an_assignment_may_be_carried(
    state: State, part: str
) -> None:
    expected = set() if part in MAY_CARRY[state] else {MachineRule.ASSIGNMENT}

    assert broken(a_machine(state, assignment=only(part))) == expected


def test_a_creating_machine_may_carry_the_need_it_is_made_for() -> None:
    """Seed 003: or the shard buys again every cycle that a Create takes."""
    committed = Assignment(fingerprint=A_FULL_ASSIGNMENT.fingerprint, group="gang-1")

    check(a_machine(State.CREATING, assignment=committed))


def test_a_creating_machine_with_an_intended_cluster_is_still_not_bound() -> None:
    meant_for = Assignment(cluster=A_CLUSTER)

    assert not broken(a_machine(State.CREATING, assignment=meant_for))
    assert broken(a_machine(State.CREATING, assignment=meant_for, cluster="web"))


def test_an_assignment_is_gone_once_idle() -> None:
    assert broken(a_machine(State.IDLE, assignment=an_assignment())) == {MachineRule.ASSIGNMENT}


def test_a_refused_assignment_names_the_parts_that_must_go() -> None:
    with pytest.raises(InvalidMachine, match="in state Creating it must not carry: priority"):
        check(a_machine(State.CREATING, assignment=Assignment(priority=1)))


@pytest.mark.parametrize("price", [0.0, 0.01, 98.32, 1e9])
def test_a_price_is_zero_or_more(price: float) -> None:
    assert not broken(a_machine(price_per_hour=price))


@pytest.mark.parametrize("price", [math.nan, -0.01, -math.inf, math.inf])
@pytest.mark.parametrize("state", REAL_STATES)
def test_a_price_that_is_negative_or_no_finite_number_is_refused(
    state: State, price: float
) -> None:
    assert broken(a_machine(state, price_per_hour=price)) == {MachineRule.PRICE}


@pytest.mark.parametrize("probability", [0.0, 1e-9, 0.5, 1.0])
def test_an_interruption_probability_lies_between_zero_and_one(probability: float) -> None:
    assert not broken(a_machine(interruption_probability=probability))


@pytest.mark.parametrize("probability", [math.nan, -0.01, 1.01, math.inf, -math.inf])
@pytest.mark.parametrize("state", REAL_STATES)
def test_a_probability_outside_zero_to_one_is_refused(state: State, probability: float) -> None:
    machine = a_machine(state, interruption_probability=probability)

    assert broken(machine) == {MachineRule.INTERRUPTION_PROBABILITY}


@pytest.mark.parametrize("part", ["interruption_penalty_dollars", "reclamation_penalty_dollars"])
def test_a_penalty_that_is_no_number_is_refused(part: str) -> None:
    assignment = replace(an_assignment(), **cast("Any", {part: math.nan}))

    assert broken(a_machine(State.CONFIGURED, assignment=assignment)) == {MachineRule.PENALTY}


@pytest.mark.parametrize("penalty", [math.inf, 0.0, -5.0])
def test_a_penalty_may_be_pinned_or_nothing(penalty: float) -> None:
    assignment = an_assignment(interruption_penalty_dollars=penalty)

    check(a_machine(State.CONFIGURED, assignment=assignment))


@pytest.mark.parametrize("bad_id", ["", "a b", "zürich", "a\nb", "x" * 254])
def test_a_machine_needs_an_id_that_can_be_one(bad_id: str) -> None:
    assert broken(a_machine(id=bad_id)) == {MachineRule.ID}


@pytest.mark.parametrize("bad_id", ["a\nb", "x" * 100_000])
def test_a_refusal_shows_a_bad_id_short_and_on_one_line(bad_id: str) -> None:
    with pytest.raises(InvalidMachine) as refused:
        check(a_machine(id=bad_id))

    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 300


def test_a_refusal_names_the_machine_the_rule_and_the_value() -> None:
    with pytest.raises(InvalidMachine) as refused:
        check(a_machine(id="m-7", price_per_hour=-3.5))

    assert refused.value.rule == "price"
    assert "m-7" in refused.value.message
    assert "-3.5" in refused.value.message
    assert isinstance(refused.value, Rejected)


def test_every_broken_rule_is_told_not_only_the_first() -> None:
    machine = a_machine(
        State.CONFIGURED, host=None, cluster=None, price_per_hour=math.nan,
        interruption_probability=2.0, assignment=Assignment(drained_for=A_NEED_REF),
    )  # fmt: skip

    assert broken(machine) == {
        R.HOST, R.CLUSTER, R.ASSIGNMENT, R.PRICE, R.INTERRUPTION_PROBABILITY,
    }  # fmt: skip


def test_refusals_are_counted_as_structural_price_or_interruption_probability() -> None:
    """The labels of BigFleet's counter must stay derivable."""
    assert {R.STATE, R.HOST, R.CLUSTER, R.ASSIGNMENT, R.DIAGNOSIS} == STRUCTURAL
    assert R.PRICE.value == "price"
    assert R.INTERRUPTION_PROBABILITY.value == "interruption_probability"


def test_the_id_stays_while_state_host_and_cluster_change() -> None:
    life: list[tuple[State, MachineParts]] = [
        (State.SPECULATIVE, {}),
        (State.CREATING, {}),
        (State.IDLE, {"host": A_HOST}),
        (State.CONFIGURING, {"host": A_HOST, "cluster": "web"}),
        (State.CONFIGURED, {"host": A_HOST, "cluster": "web"}),
        (State.DRAINING, {"host": A_HOST, "cluster": "web"}),
        (State.IDLE, {"host": A_HOST}),
        (State.DELETING, {"host": A_HOST}),
        (State.SPECULATIVE, {}),
    ]

    machines = [a_machine(state, **carried) for state, carried in life]

    assert {machine.id for machine in machines} == {"m-1"}
    assert all(not broken(machine) for machine in machines)
    assert machines[0] == machines[-1]


def test_the_cluster_is_no_part_of_the_identity() -> None:
    here = a_machine(State.CONFIGURED, cluster="web")
    there = replace(here, cluster=ClusterId("batch"))

    assert here.id == there.id
    assert not broken(there)


def test_a_machine_has_the_same_shape_in_every_state() -> None:
    shapes = {tuple(field.name for field in fields(a_machine(state))) for state in State}

    assert len(shapes) == 1


@pytest.mark.parametrize("name", ["id", "state", "price_per_hour", "assignment"])
def test_a_machine_is_a_value_that_nobody_can_change(name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(a_machine(), name, None)


@pytest.mark.parametrize("capacity_type", CapacityType)
def test_deleting_is_a_state_for_any_capacity_type(capacity_type: CapacityType) -> None:
    """The table permits it; whether hardware is ever given back is for the provider to decide."""
    assert not broken(a_machine(State.DELETING, profile=a_profile(capacity_type=capacity_type)))


def test_allocatable_is_what_counts_when_a_provider_declares_it() -> None:
    machine = a_machine(
        profile=a_profile(resources={"cpu": "8"}), allocatable=Resources({"cpu": "7500m"})
    )

    assert machine.effective_allocatable == Resources({"cpu": "7500m"})


def test_without_allocatable_the_resources_of_the_profile_count() -> None:
    machine = a_machine(profile=a_profile(resources={"cpu": "8"}), allocatable=NO_RESOURCES)

    assert machine.effective_allocatable == Resources({"cpu": "8"})


def test_a_declared_zero_is_a_declaration() -> None:
    machine = a_machine(allocatable=Resources({"cpu": "0"}))

    assert machine.effective_allocatable == Resources({"cpu": "0"})


def test_an_echo_is_empty_unless_a_provider_sends_one() -> None:
    assert dict(a_machine().shard_metadata) == {}


@pytest.mark.parametrize("ref", ["", "x" * 1025, "ä" * 513])
def test_a_host_without_a_usable_ref_is_no_host(ref: str) -> None:
    machine = a_machine(State.IDLE, host=HostRef("sim", ref))

    with pytest.raises(InvalidMachine, match="ref must have 1 to 1024 bytes") as refused:
        check(machine)

    assert refused.value.rule == MachineRule.HOST


@pytest.mark.parametrize("cluster", ["a b", "web\n", "x" * 254])
def test_a_cluster_that_is_no_id_is_refused(cluster: str) -> None:
    machine = a_machine(State.CONFIGURED, cluster=cluster)

    with pytest.raises(InvalidMachine, match="not a cluster id") as refused:
        check(machine)

    assert refused.value.rule == MachineRule.CLUSTER


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1])
def test_a_priority_beyond_32_bits_is_refused(priority: int) -> None:
    machine = a_machine(State.CONFIGURED, assignment=an_assignment(priority=priority))

    with pytest.raises(InvalidMachine, match="priority must fit 32 bits"):
        check(machine)
