import math
from dataclasses import replace
from typing import Any, Final, cast

import pytest

from builders import A_CLUSTER, A_FINGERPRINT, A_NEED_REF, an_assignment
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, NeedRef
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.metadata import MetadataFault, decode, encode, format_dollars

# Written out, since a running BigFleet shard reads and writes exactly these.
PRIORITY: Final = "bigfleet.lucy.sh/assigned-priority"
INTERRUPTION: Final = "bigfleet.lucy.sh/assigned-interruption-penalty-dollars"
RECLAMATION: Final = "bigfleet.lucy.sh/assigned-reclamation-penalty-dollars"
FINGERPRINT: Final = "bigfleet.lucy.sh/assigned-need-fingerprint"
GROUP: Final = "bigfleet.lucy.sh/assigned-group"
CLUSTER: Final = "mainstay/assigned-cluster"
DRAINED_CLUSTER: Final = "mainstay/drained-for-cluster"
DRAINED_FINGERPRINT: Final = "mainstay/drained-for-fingerprint"
DRAINED_GROUP: Final = "mainstay/drained-for-group"

BIGFLEETS: Final = {
    PRIORITY: "-7",
    INTERRUPTION: "8.388608e+06",
    RECLAMATION: "0.5",
    FINGERPRINT: "100|3|2||zone:1:a,b/",
    GROUP: "gang-1",
}
FROM_BIGFLEET: Final = Assignment(
    priority=-7,
    interruption_penalty_dollars=8388608.0,
    reclamation_penalty_dollars=0.5,
    fingerprint=Fingerprint("100|3|2||zone:1:a,b/"),
    group="gang-1",
)

# What Go's strconv.FormatFloat(x, 'g', -1, 64) writes.
GO_FLOATS: Final = {
    0.0: "0",
    -2.5: "-2.5",
    0.5: "0.5",
    1.0: "1",
    0.1: "0.1",
    100.0: "100",
    123456.0: "123456",
    524288.0: "524288",
    999999.5: "999999.5",
    1048576.0: "1.048576e+06",
    1000000.0: "1e+06",
    8388608.0: "8.388608e+06",
    1e21: "1e+21",
    1e100: "1e+100",
    0.0001: "0.0001",
    0.00001: "1e-05",
    1.5e-7: "1.5e-07",
    1 / 3: "0.3333333333333333",
    5e-324: "5e-324",
    2.0**-1017: "7.120236347223045e-307",
    math.inf: "+Inf",
    -math.inf: "-Inf",
}


def test_an_assignment_survives_the_round_trip() -> None:
    assignment = an_assignment(group="gang-1", drained_for=replace(A_NEED_REF, group="gang-2"))

    assert decode(encode(assignment)) == (assignment, ())


def test_a_pinned_penalty_survives_the_round_trip() -> None:
    assignment = Assignment(interruption_penalty_dollars=math.inf)

    assert decode(encode(assignment)).assignment == assignment


def test_the_five_keys_of_bigfleet_are_written_byte_for_byte() -> None:
    assert encode(FROM_BIGFLEET) == BIGFLEETS


def test_what_bigfleet_wrote_is_read() -> None:
    """Either system can take a fleet over from the other."""
    assert decode(BIGFLEETS) == (FROM_BIGFLEET, ())


def test_every_key_names_the_system_it_belongs_to() -> None:
    written = encode(an_assignment(drained_for=A_NEED_REF))

    assert all(key.startswith(("bigfleet.lucy.sh/", "mainstay/")) for key in written)


def test_our_own_parts_have_keys_of_our_own() -> None:
    assignment = Assignment(cluster=A_CLUSTER, drained_for=A_NEED_REF)

    assert encode(assignment) == {
        CLUSTER: "web",
        DRAINED_CLUSTER: "batch",
        DRAINED_FINGERPRINT: A_NEED_REF.fingerprint,
        DRAINED_GROUP: "",
    }


def test_what_is_not_known_is_not_written() -> None:
    assert encode(NO_ASSIGNMENT) == {}
    assert encode(Assignment(priority=0)) == {PRIORITY: "0"}


def test_an_assignment_of_no_gang_says_so() -> None:
    assert encode(Assignment(group="")) == {GROUP: ""}
    assert decode({GROUP: ""}).assignment == Assignment(group="")


def test_the_group_tells_two_gangs_of_one_profile_apart_after_a_restart() -> None:
    first = encode(Assignment(fingerprint=A_FINGERPRINT, group="gang-1"))
    second = encode(Assignment(fingerprint=A_FINGERPRINT, group="gang-2"))

    assert decode(first).assignment != decode(second).assignment


def test_an_empty_echo_does_nothing() -> None:
    assignment = an_assignment()

    assert decode({}, onto=assignment) == (assignment, ())


def test_an_absent_key_leaves_its_part_alone() -> None:
    assignment = an_assignment(priority=1)

    decoded = decode({PRIORITY: "2"}, onto=assignment)

    assert decoded == (replace(assignment, priority=2), ())


def test_an_unknown_key_is_ignored() -> None:
    """It belongs to a newer shard."""
    echo = {**BIGFLEETS, "bigfleet.lucy.sh/assigned-tomorrow": "??", "other": "x"}

    assert decode(echo) == (FROM_BIGFLEET, ())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((PRIORITY, value) for value in ("", "high", "1.0", "1e3", "2147483648", "1_0", " 1")),
        *((PRIORITY, value) for value in ("0x10", "1\n", "\u0661", "-2147483649")),
        pytest.param(PRIORITY, "9" * 5000, id="5000 digits"),
        *((INTERRUPTION, value) for value in ("", "NaN", "nan", "12 dollars", "1,5", "0x1p3")),
        *((RECLAMATION, value) for value in ("e5", "1e999", "1_0", " 1", "1\n", "\u0131nf", "--1")),
        *((CLUSTER, value) for value in ("a b", "zürich")),
        pytest.param(CLUSTER, "x" * 254, id="254 letters"),
    ],
)
def test_a_malformed_value_is_skipped_and_told_and_the_rest_still_counts(
    key: str, value: str
) -> None:
    """One mangled entry must not void the protection of a machine."""
    good = encode(an_assignment())
    before = an_assignment(
        priority=-1, interruption_penalty_dollars=2.0, reclamation_penalty_dollars=4.0,
        cluster="before",
    )  # fmt: skip

    decoded = decode({**good, key: value}, onto=before)

    part = {PRIORITY: "priority", CLUSTER: "cluster"}.get(key) or (
        "interruption_penalty_dollars" if key == INTERRUPTION else "reclamation_penalty_dollars"
    )
    kept = cast("Any", {part: getattr(before, part)})
    assert decoded.assignment == replace(an_assignment(), **kept)
    assert decoded.faults == (MetadataFault(key, value),)


def test_all_that_cannot_be_read_is_told_at_once() -> None:
    decoded = decode({**BIGFLEETS, PRIORITY: "high", RECLAMATION: "much"})

    assert {fault.key for fault in decoded.faults} == {PRIORITY, RECLAMATION}
    assert decoded.assignment.fingerprint == FROM_BIGFLEET.fingerprint
    assert decoded.assignment.interruption_penalty_dollars == 8388608.0


def test_an_empty_fingerprint_attributes_a_machine_to_nobody() -> None:
    decoded = decode({FINGERPRINT: "", CLUSTER: ""})

    assert decoded == (NO_ASSIGNMENT, ())


def test_a_foreign_fingerprint_is_kept_as_it_is() -> None:
    """BigFleet's has colons, pipes and slashes: unmatched later, never refused here."""
    assert decode(BIGFLEETS).assignment.fingerprint == "100|3|2||zone:1:a,b/"


@pytest.mark.parametrize("missing", [DRAINED_CLUSTER, DRAINED_FINGERPRINT])
def test_half_a_reference_names_no_need(missing: str) -> None:
    echo = encode(Assignment(drained_for=A_NEED_REF))
    del echo[missing]

    assert decode(echo).assignment == NO_ASSIGNMENT


def test_the_need_a_machine_is_drained_for_may_be_of_no_gang() -> None:
    echo = {DRAINED_CLUSTER: "web", DRAINED_FINGERPRINT: "f"}

    decoded = decode(echo)

    assert decoded.assignment.drained_for == NeedRef(ClusterId("web"), Fingerprint("f"))


def test_a_bad_cluster_to_drain_for_is_told() -> None:
    echo = {DRAINED_CLUSTER: "a b", DRAINED_FINGERPRINT: "f"}

    assert decode(echo) == (NO_ASSIGNMENT, (MetadataFault(DRAINED_CLUSTER, "a b"),))


@pytest.mark.parametrize("key", ["price-per-hour", "price_per_hour", "interruption-probability"])
@pytest.mark.parametrize("prefix", ["", "bigfleet.lucy.sh/", "mainstay/"])
def test_metadata_cannot_say_what_a_machine_costs(prefix: str, key: str) -> None:
    assert decode({prefix + key: "0"}) == (NO_ASSIGNMENT, ())


@pytest.mark.parametrize("priority", [-(2**31), -1, 0, 2**31 - 1])
def test_any_priority_of_32_bits_survives_the_round_trip(priority: int) -> None:
    assert decode(encode(Assignment(priority=priority))) == (Assignment(priority=priority), ())


@pytest.mark.parametrize("text", ["Inf", "+Inf", "inf", "infinity", "+INFINITY"])
def test_infinite_dollars_are_read_as_go_writes_them(text: str) -> None:
    assert decode({INTERRUPTION: text}).assignment.interruption_penalty_dollars == math.inf


@pytest.mark.parametrize(("dollars", "text"), GO_FLOATS.items())
def test_dollars_are_written_as_go_writes_them(dollars: float, text: str) -> None:
    assert format_dollars(dollars) == text


def test_dollars_that_are_no_number_are_written_so_and_not_read_back() -> None:
    """Such a machine is refused by the check; writing it must not fail in between."""
    echo = encode(Assignment(reclamation_penalty_dollars=math.nan))

    assert echo == {RECLAMATION: "NaN"}
    assert decode(echo) == (NO_ASSIGNMENT, (MetadataFault(RECLAMATION, "NaN"),))
