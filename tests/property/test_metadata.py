import math
from decimal import Decimal
from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st

import strategies
from mainstay.model import metadata
from mainstay.model.assignment import NO_ASSIGNMENT, PART_NAMES, Assignment, overlay
from mainstay.model.metadata import decode, encode, format_dollars

PART_OF: Final = {
    metadata.PRIORITY_KEY: "priority",
    metadata.INTERRUPTION_KEY: "interruption_penalty_dollars",
    metadata.RECLAMATION_KEY: "reclamation_penalty_dollars",
    metadata.FINGERPRINT_KEY: "fingerprint",
    metadata.GROUP_KEY: "group",
    metadata.CLUSTER_KEY: "cluster",
    metadata.DRAINED_CLUSTER_KEY: "drained_for",
    metadata.DRAINED_FINGERPRINT_KEY: "drained_for",
    metadata.DRAINED_GROUP_KEY: "drained_for",
}

keys = st.sampled_from(sorted(PART_OF))
unknown_keys = st.text(max_size=20).filter(lambda key: key not in PART_OF)
assignments = strategies.assignments()

# Never a number, never a cluster.
GARBAGE: Final = "\x00 not a value"
NUMERIC: Final = [metadata.PRIORITY_KEY, metadata.INTERRUPTION_KEY, metadata.RECLAMATION_KEY]


def parts(assignment: Assignment, *, but: set[str]) -> dict[str, Any]:
    return {name: getattr(assignment, name) for name in PART_NAMES if name not in but}


@given(assignments)
def test_an_assignment_survives_the_round_trip(assignment: Assignment) -> None:
    decoded = decode(encode(assignment))

    assert decoded == (assignment, ())


@given(assignments, assignments)
def test_an_echo_changes_exactly_the_parts_it_holds(before: Assignment, echo: Assignment) -> None:
    decoded = decode(encode(echo), onto=before)

    assert decoded == (overlay(before, echo), ())


@given(assignments, st.sets(keys))
def test_absent_keys_leave_their_parts_alone(before: Assignment, absent: set[str]) -> None:
    echo = {key: text for key, text in encode(before).items() if key not in absent}

    decoded = decode(echo, onto=before)

    assert parts(decoded.assignment, but={"drained_for"}) == parts(before, but={"drained_for"})
    assert decoded.faults == ()


@given(assignments, st.dictionaries(unknown_keys, st.text()))
def test_unknown_keys_are_ignored(assignment: Assignment, unknown: dict[str, str]) -> None:
    assert decode({**unknown, **encode(assignment)}) == (assignment, ())


@given(assignments, assignments, st.sets(st.sampled_from(NUMERIC)))
def test_mangled_values_are_skipped_and_told_and_the_rest_still_counts(
    before: Assignment, echo: Assignment, mangled: set[str]
) -> None:
    decoded = decode({**encode(echo), **dict.fromkeys(mangled, GARBAGE)}, onto=before)

    spoilt = {PART_OF[key] for key in mangled}
    whole = overlay(before, echo)
    assert parts(decoded.assignment, but=spoilt) == parts(whole, but=spoilt)
    assert all(getattr(decoded.assignment, part) == getattr(before, part) for part in spoilt)
    assert {fault.key for fault in decoded.faults} == mangled


@given(assignments)
def test_an_empty_echo_does_nothing(assignment: Assignment) -> None:
    assert decode({}, onto=assignment) == (assignment, ())


@given(assignments, st.dictionaries(keys, st.text()))
@example(NO_ASSIGNMENT, {metadata.INTERRUPTION_KEY: "\u0131nf"})
def test_no_echo_whatever_makes_decoding_fail(
    before: Assignment, corruption: dict[str, str]
) -> None:
    decoded = decode({**encode(before), **corruption}, onto=before)

    touched = {PART_OF[key] for key in corruption}
    assert parts(decoded.assignment, but=touched) == parts(before, but=touched)
    assert all(corruption[fault.key] == fault.value for fault in decoded.faults)


@given(st.dictionaries(keys, st.text()))
def test_what_was_read_once_is_read_again_alike(corruption: dict[str, str]) -> None:
    decoded = decode(corruption)

    assert decode(encode(decoded.assignment)) == (decoded.assignment, ())


@given(st.floats(allow_nan=False))
@example(2.0**-1017)
@example(-0.0)
def test_dollars_are_written_as_short_as_they_can_be_and_exactly(dollars: float) -> None:
    text = format_dollars(dollars)

    assert float(text) == dollars
    assert math.isinf(dollars) or Decimal(text) == Decimal(repr(dollars))
    assert len(text) <= 24
