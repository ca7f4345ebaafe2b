from dataclasses import FrozenInstanceError, fields
from typing import Any, Final, cast

import pytest

from builders import A_CLUSTER, A_FINGERPRINT, A_NEED_REF, an_assignment
from mainstay.model.assignment import (
    NO_ASSIGNMENT,
    Assignment,
    NeedRef,
    carried,
    excess_parts,
    fill,
    overlay,
    parts_allowed,
    restrict,
)
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.profile import Profile
from mainstay.model.state import State

EVERYTHING: Final = an_assignment(group="gang-1", drained_for=A_NEED_REF)
THE_NEED: Final = Assignment(fingerprint=A_FINGERPRINT, group="gang-1", cluster=A_CLUSTER)
SERVING: Final = an_assignment(group="gang-1")

KEPT: Final = {
    State.SPECULATIVE: NO_ASSIGNMENT,
    State.CREATING: THE_NEED,
    State.IDLE: NO_ASSIGNMENT,
    State.CONFIGURING: SERVING,
    State.CONFIGURED: SERVING,
    State.DRAINING: EVERYTHING,
    State.DELETING: NO_ASSIGNMENT,
    State.FAILED: EVERYTHING,
}


def test_the_two_penalties_are_two_values() -> None:
    """There is no single `operational_value`, and neither follows from the priority."""
    assignment = Assignment(
        priority=7, interruption_penalty_dollars=16.0, reclamation_penalty_dollars=0.5
    )

    assert assignment.interruption_penalty_dollars == 16.0
    assert assignment.reclamation_penalty_dollars == 0.5
    assert "operational_value" not in {field.name for field in fields(Assignment)}


def test_a_profile_cannot_stand_in_for_the_fingerprint() -> None:
    """One machine matches many needs; it is assigned to exactly one."""
    assert "fingerprint" in {field.name for field in fields(Assignment)}
    assert "fingerprint" not in {field.name for field in fields(Profile)}


def test_nothing_assigned_is_false_and_any_known_part_is_true() -> None:
    assert not Assignment()
    for field in fields(Assignment):
        assert Assignment(**cast("Any", {field.name: getattr(EVERYTHING, field.name)}))


@pytest.mark.parametrize(
    "assignment",
    [
        Assignment(priority=0),
        Assignment(interruption_penalty_dollars=0.0),
        Assignment(reclamation_penalty_dollars=0.0),
        Assignment(group=""),
    ],
)
def test_a_known_zero_is_not_the_same_as_not_known(assignment: Assignment) -> None:
    assert assignment
    assert assignment != NO_ASSIGNMENT


def test_an_assignment_is_a_value_that_nobody_can_change() -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(an_assignment(), "priority", 1)  # noqa: B010 - the point is that it fails


@pytest.mark.parametrize("state", KEPT)
def test_a_machine_keeps_only_what_its_new_state_may_carry(state: State) -> None:
    assert restrict(EVERYTHING, state) == KEPT[state]


@pytest.mark.parametrize("state", KEPT)
def test_what_is_kept_leaves_nothing_to_refuse(state: State) -> None:
    assert excess_parts(KEPT[state], state) == ()


@pytest.mark.parametrize("state", KEPT)
def test_every_part_is_either_allowed_or_refused(state: State) -> None:
    parts = {field.name for field in fields(Assignment)}
    refused = set(excess_parts(EVERYTHING, state))

    assert refused | set(parts_allowed(state)) == parts
    assert not refused & set(parts_allowed(state))


def test_a_drain_that_settles_clears_all_parts_together() -> None:
    draining = EVERYTHING

    assert restrict(draining, State.IDLE) == NO_ASSIGNMENT


def test_a_rollback_to_idle_clears_all_parts_together() -> None:
    configuring = SERVING

    assert restrict(configuring, State.IDLE) == NO_ASSIGNMENT


def test_a_draining_machine_knows_for_whom_it_is_drained() -> None:
    assert restrict(EVERYTHING, State.DRAINING).drained_for == A_NEED_REF
    assert restrict(EVERYTHING, State.CONFIGURED).drained_for is None


def test_a_machine_being_created_carries_the_need_and_no_protection_yet() -> None:
    creating = restrict(EVERYTHING, State.CREATING)

    assert creating.fingerprint == A_FINGERPRINT
    assert creating.group == "gang-1"
    assert creating.priority is None
    assert creating.interruption_penalty_dollars is None
    assert creating.reclamation_penalty_dollars is None


def test_an_overlay_takes_what_the_newer_knows_and_leaves_the_rest() -> None:
    older = Assignment(priority=1, group="gang-1")
    newer = Assignment(priority=2, cluster=A_CLUSTER)

    assert overlay(older, newer) == Assignment(priority=2, group="gang-1", cluster=A_CLUSTER)


def test_an_overlay_of_a_known_zero_counts() -> None:
    older = Assignment(priority=1, group="gang-1")
    newer = Assignment(priority=0, group="")

    assert overlay(older, newer) == newer


def test_an_overlay_of_nothing_changes_nothing() -> None:
    assert overlay(EVERYTHING, NO_ASSIGNMENT) == EVERYTHING


def test_what_we_know_ourselves_wins_over_an_echo() -> None:
    known = Assignment(priority=1)
    echo = Assignment(priority=99, fingerprint=A_FINGERPRINT)

    assert fill(known, echo) == Assignment(priority=1, fingerprint=A_FINGERPRINT)


def test_a_restarted_shard_takes_its_assignment_from_the_echo() -> None:
    assert carried(NO_ASSIGNMENT, SERVING, State.CONFIGURED) == SERVING


def test_a_stale_echo_of_an_idle_machine_assigns_nothing() -> None:
    """Or a machine that has been drained would still be held for its last need."""
    assert carried(NO_ASSIGNMENT, SERVING, State.IDLE) == NO_ASSIGNMENT


def test_the_group_tells_two_gangs_of_one_profile_apart() -> None:
    first = NeedRef(ClusterId("train"), Fingerprint("f"), "gang-1")
    second = NeedRef(ClusterId("train"), Fingerprint("f"), "gang-2")

    assert first != second


def test_the_cluster_tells_two_needs_of_one_profile_apart() -> None:
    """In-flight credit is exact per cluster, which BigFleet's is not."""
    assert NeedRef(ClusterId("web"), Fingerprint("f")) != NeedRef(
        ClusterId("batch"), Fingerprint("f")
    )
