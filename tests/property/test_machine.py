from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from builders import REAL_STATES
from mainstay.model.assignment import (
    NO_ASSIGNMENT,
    Assignment,
    carried,
    excess_parts,
    fill,
    overlay,
    restrict,
)
from mainstay.model.cost import effective_cost
from mainstay.model.errors import InvalidMachine
from mainstay.model.machine import Machine, MachineRule, check, faults
from mainstay.model.state import State, can_transition
from outside import examples

states = st.sampled_from(REAL_STATES)


@given(strategies.machines())
def test_a_machine_that_keeps_every_rule_passes_the_check(machine: Machine) -> None:
    check(machine)


@pytest.mark.parametrize("rule", strategies.RECORD_RULES)
@settings(max_examples=examples(30))
@given(data=st.data())
def test_a_machine_that_breaks_one_rule_is_refused_by_that_rule(
    rule: MachineRule, data: st.DataObject
) -> None:
    machine = data.draw(strategies.breaking(rule))

    with pytest.raises(InvalidMachine) as refused:
        check(machine)

    assert refused.value.rule == rule
    assert {broken for broken, _ in faults(machine)} == {rule}


@given(strategies.machines(), states)
def test_a_machine_without_a_host_is_bound_to_no_cluster(machine: Machine, state: State) -> None:
    """The impossible corner: whatever passes the check, Failed apart, is not in it."""
    moved = replace(machine, state=state, assignment=NO_ASSIGNMENT)
    cornered = moved.host is None and moved.cluster is not None

    assert state is State.FAILED or not cornered or list(faults(moved))


@given(strategies.machines(), st.lists(states, max_size=30))
def test_on_any_legal_walk_the_id_stays_and_failed_is_the_end(
    machine: Machine, targets: list[State]
) -> None:
    walked = [machine]
    for target in targets:
        if can_transition(walked[-1].state, target):
            walked.append(replace(walked[-1], state=target))

    assert {step.id for step in walked} == {machine.id}
    assert State.FAILED not in {step.state for step in walked[:-1]}


@given(strategies.assignments(), states)
def test_what_a_state_leaves_of_an_assignment_is_what_it_may_carry(
    assignment: Assignment, state: State
) -> None:
    kept = restrict(assignment, state)

    assert excess_parts(kept, state) == ()
    assert restrict(kept, state) == kept
    assert overlay(assignment, kept) == assignment


@given(strategies.assignments(), strategies.assignments())
def test_an_echo_fills_gaps_and_overrides_nothing(known: Assignment, echo: Assignment) -> None:
    filled = fill(known, echo)

    assert overlay(filled, known) == filled
    assert fill(filled, echo) == filled
    assert overlay(known, filled) == filled


@given(strategies.assignments(), strategies.assignments(), strategies.assignments())
def test_overlays_can_be_joined_in_any_grouping(
    first: Assignment, second: Assignment, third: Assignment
) -> None:
    assert overlay(overlay(first, second), third) == overlay(first, overlay(second, third))


@given(strategies.machines(), strategies.assignments(), strategies.assignments())
def test_whatever_is_echoed_a_valid_machine_stays_valid(
    machine: Machine, known: Assignment, echo: Assignment
) -> None:
    check(replace(machine, assignment=carried(known, echo, machine.state)))


@given(strategies.prices(), strategies.probabilities(), strategies.dollars())
def test_effective_cost_is_a_number_and_never_below_the_price(
    price: float, probability: float, penalty: float
) -> None:
    assert effective_cost(price, probability, penalty) >= price


@given(strategies.prices(), strategies.probabilities(), strategies.dollars(), strategies.dollars())
def test_a_higher_penalty_never_costs_less(
    price: float, probability: float, one: float, other: float
) -> None:
    low, high = sorted((one, other))

    assert effective_cost(price, probability, low) <= effective_cost(price, probability, high)
