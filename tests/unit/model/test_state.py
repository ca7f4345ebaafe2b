from itertools import pairwise, product
from typing import Final

import pytest

from mainstay.model.errors import IllegalTransition, Rejected
from mainstay.model.state import (
    EDGES,
    MOVES,
    NEXT,
    RULES,
    State,
    can_transition,
    check_transition,
    is_stable,
    state_name,
    state_of,
)

S: Final = State

# Seed 000, "The transition table", copied by hand.
LEGAL: Final = {
    (S.SPECULATIVE, S.CREATING),
    (S.CREATING, S.IDLE),
    (S.CREATING, S.FAILED),
    (S.IDLE, S.CONFIGURING),
    (S.IDLE, S.DELETING),
    (S.CONFIGURING, S.CONFIGURED),
    (S.CONFIGURING, S.FAILED),
    (S.CONFIGURING, S.IDLE),
    (S.CONFIGURED, S.DRAINING),
    (S.DRAINING, S.IDLE),
    (S.DRAINING, S.FAILED),
    (S.DELETING, S.SPECULATIVE),
    (S.DELETING, S.FAILED),
}

# Seed 000, "The eight states", with the numbers of provider.proto.
NUMBERS: Final = {
    0: "Unspecified",
    1: "Speculative",
    2: "Creating",
    3: "Idle",
    4: "Configuring",
    5: "Configured",
    6: "Draining",
    7: "Deleting",
    8: "Failed",
}

STABLE: Final = {S.SPECULATIVE, S.IDLE, S.CONFIGURED}
TRANSITIONAL: Final = {S.CREATING, S.CONFIGURING, S.DRAINING, S.DELETING}

PAIRS: Final = list(product(State, State))


def a_walk(*states: State) -> bool:
    """Whether every step of it is legal."""
    return all(can_transition(old, new) for old, new in pairwise(states))


def reachable(start: State, *, without: State) -> set[State]:
    """Where a machine can get from `start` if it never enters `without`."""
    seen: set[State] = set()
    ahead = [start]
    while ahead:
        for new in NEXT[ahead.pop()] - seen - {without}:
            seen.add(new)
            ahead.append(new)
    return seen


def test_there_are_eight_states_and_a_guard_numbered_as_on_the_wire() -> None:
    assert {int(state): str(state) for state in State} == NUMBERS


def test_the_zero_value_is_the_guard() -> None:
    """So that a zeroed record is refused, not taken for a quota slot."""
    assert State(0) is State.UNSPECIFIED


@pytest.mark.parametrize("number", range(9))
def test_a_state_prints_as_its_name(number: int) -> None:
    assert state_name(number) == NUMBERS[number]
    assert f"{State(number)}" == NUMBERS[number]


@pytest.mark.parametrize("number", [9, 42, 255, -1])
def test_an_unknown_state_number_prints_as_itself(number: int) -> None:
    """So that a corrupted byte shows in the logs."""
    assert state_name(number) == f"State({number})"


@pytest.mark.parametrize("number", range(9))
def test_a_known_number_is_its_state(number: int) -> None:
    assert state_of(number) == State(number)


@pytest.mark.parametrize("number", [9, 42, 255, -1])
def test_an_unknown_number_is_no_state(number: int) -> None:
    assert state_of(number) is None


def test_exactly_speculative_idle_and_configured_are_stable() -> None:
    assert {state for state in State if is_stable(state)} == STABLE


def test_failed_rests_but_is_not_stable() -> None:
    """A failed machine awaits cleanup; it is never a candidate."""
    assert not is_stable(State.FAILED)


def test_the_guard_is_not_stable() -> None:
    assert not is_stable(State.UNSPECIFIED)


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=str)
def test_a_transition_is_legal_exactly_when_the_seed_lists_it(old: State, new: State) -> None:
    assert can_transition(old, new) == ((old, new) in LEGAL)


def test_all_eighty_one_pairs_are_checked() -> None:
    assert len(PAIRS) == 81


def test_there_are_thirteen_legal_edges() -> None:
    """The seed says twelve in its prose and lists thirteen in its table; the table counts."""
    assert len(LEGAL) == 13
    assert set(EDGES) == LEGAL
    assert len(EDGES) == 13


@pytest.mark.parametrize(("old", "new"), sorted(LEGAL), ids=str)
def test_a_legal_transition_passes_the_check(old: State, new: State) -> None:
    check_transition(old, new)


@pytest.mark.parametrize(("old", "new"), sorted(set(PAIRS) - LEGAL), ids=str)
def test_a_refused_transition_names_both_states(old: State, new: State) -> None:
    with pytest.raises(IllegalTransition) as refused:
        check_transition(old, new)

    assert f"{old} -> {new}" in refused.value.message


def test_a_refused_transition_names_the_machine_and_where_it_may_go() -> None:
    with pytest.raises(IllegalTransition) as refused:
        check_transition(State.IDLE, State.CONFIGURED, machine="m-7")

    assert "m-7" in refused.value.message
    assert "Configuring, Deleting" in refused.value.message


def test_a_refused_way_out_of_failed_says_that_there_is_none() -> None:
    with pytest.raises(IllegalTransition, match="nowhere"):
        check_transition(State.FAILED, State.IDLE)


def test_an_illegal_transition_is_for_the_caller_to_change() -> None:
    with pytest.raises(Rejected):
        check_transition(State.SPECULATIVE, State.IDLE)


@pytest.mark.parametrize("new", State)
def test_failed_has_no_way_out(new: State) -> None:
    """Nothing is resurrected by itself: a person cleans up."""
    assert not can_transition(State.FAILED, new)


@pytest.mark.parametrize("state", State)
def test_nothing_enters_or_leaves_the_guard(state: State) -> None:
    assert not can_transition(State.UNSPECIFIED, state)
    assert not can_transition(state, State.UNSPECIFIED)


@pytest.mark.parametrize("state", sorted(TRANSITIONAL))
def test_whatever_is_in_progress_can_fail(state: State) -> None:
    assert can_transition(state, State.FAILED)


@pytest.mark.parametrize("state", sorted(STABLE))
def test_a_stable_machine_cannot_fail_directly(state: State) -> None:
    """It is at rest: there is no operation under way that could time out."""
    assert not can_transition(state, State.FAILED)


def test_that_work_in_progress_may_fail_is_computed_not_listed() -> None:
    assert all(State.FAILED not in targets for targets in MOVES.values())


@pytest.mark.parametrize("state", State)
def test_staying_is_no_transition(state: State) -> None:
    assert not can_transition(state, state)


def test_idle_is_the_hub_no_direct_transfer_between_clusters() -> None:
    assert not can_transition(State.CONFIGURED, State.CONFIGURED)
    assert not can_transition(State.CONFIGURED, State.CONFIGURING)
    assert not can_transition(State.DRAINING, State.CONFIGURING)
    assert State.CONFIGURED not in reachable(State.CONFIGURED, without=State.IDLE)


def test_a_transfer_drains_to_idle_and_bootstraps_from_there() -> None:
    assert a_walk(State.CONFIGURED, State.DRAINING, State.IDLE, State.CONFIGURING, State.CONFIGURED)


def test_the_whole_life_from_quota_slot_to_host_and_back_is_legal() -> None:
    assert a_walk(
        State.SPECULATIVE, State.CREATING, State.IDLE, State.CONFIGURING, State.CONFIGURED,
        State.DRAINING, State.IDLE, State.DELETING, State.SPECULATIVE,
    )  # fmt: skip


def test_a_quota_slot_cannot_skip_getting_its_hardware() -> None:
    assert not can_transition(State.SPECULATIVE, State.IDLE)


def test_a_serving_machine_cannot_skip_its_drain() -> None:
    assert State.IDLE not in reachable(State.CONFIGURED, without=State.DRAINING)


def test_hardware_is_given_back_only_from_idle() -> None:
    assert [old for old in State if can_transition(old, State.DELETING)] == [State.IDLE]


def test_rollback_returns_a_configuring_machine_to_idle() -> None:
    """The provider was never touched: Failed would shrink the pool for good."""
    assert can_transition(State.CONFIGURING, State.IDLE)


@pytest.mark.parametrize("state", [State.CREATING, State.DRAINING, State.DELETING])
def test_rollback_exists_for_configuring_alone(state: State) -> None:
    came_from = {
        State.CREATING: State.SPECULATIVE,
        State.DRAINING: State.CONFIGURED,
        State.DELETING: State.IDLE,
    }

    assert not can_transition(state, came_from[state])


def test_every_state_has_its_rule() -> None:
    assert set(RULES) == set(State)


def test_the_tables_cannot_be_changed() -> None:
    for table in (RULES, MOVES, NEXT):
        assert not hasattr(table, "__setitem__")
