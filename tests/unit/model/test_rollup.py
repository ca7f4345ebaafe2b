"""Bad demand is refused whole and named; demand that can never be met is kept."""

from dataclasses import fields, replace
from typing import Any, Final

import pytest

from builders import a_machine, a_need, a_need_profile, a_profile, an_assignment
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan, Unmet
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.errors import BadRow, InvalidRollup, Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, Operator, Requirement, Spread, WhenUnsatisfiable
from mainstay.model.needs import NeedsTable
from mainstay.model.resources import NEED_UNITS_MAX
from mainstay.model.rollup import (
    LIMITS,
    ROWS_NAMED_MAX,
    Limits,
    RawNeed,
    RawRequirement,
    RawSpread,
    accept,
)
from mainstay.model.state import State

WEB: Final = ClusterId("web")
GOOD: Final = RawNeed(aggregate_resources={"cpu": "8"}, min_unit={"cpu": "1"}, priority=100)
FULL: Final = RawNeed(
    requirements=(RawRequirement("zone", 1, ("b", "a")), RawRequirement("rack", 5)),
    aggregate_resources={"cpu": "1500m", "memory": "16Gi"},
    priority=-5,
    spread=(RawSpread("zone", 2, 1),),
    interruption_penalty_bucket=27,
    reclamation_penalty_bucket=1,
    min_unit={"cpu": "500m"},
    group="rack\x00app=web,;",
)
SMALL: Final = Limits(
    rows=3, requirements=2, values=2, spreads=1, dimensions=2, dimensions_in_all=3, text_bytes=12
)


def taken(*rows: RawNeed, arrival_nanos: int = 7, limits: Limits = LIMITS) -> tuple[Need, ...]:
    return accept(WEB, rows, arrival_nanos=arrival_nanos, limits=limits)


def refusal(*rows: RawNeed, arrival_nanos: int = 7, limits: Limits = LIMITS) -> InvalidRollup:
    with pytest.raises(InvalidRollup) as caught:
        taken(*rows, arrival_nanos=arrival_nanos, limits=limits)
    assert "\n" not in caught.value.message
    return caught.value


def needing(*requirements: RawRequirement) -> RawNeed:
    return replace(GOOD, requirements=requirements)


def spreading(*spread: RawSpread) -> RawNeed:
    return replace(GOOD, spread=spread)


class TestAccepting:
    def test_every_field_of_a_row_is_read(self) -> None:
        (need,) = taken(FULL)

        assert need == a_need(
            cluster="web",
            profile=a_need_profile(
                requirements=(
                    Requirement("rack", Operator.SAME),
                    Requirement("zone", Operator.IN, ("a", "b")),
                ),
                spread=(Spread("zone", 2, WhenUnsatisfiable.DO_NOT_SCHEDULE),),
                priority=-5,
                interruption_penalty_bucket=27,
                reclamation_penalty_bucket=1,
            ),
            aggregate={"cpu": 1500, "memory": 16 * 2**20},
            min_unit={"cpu": 500},
            arrival_nanos=7,
            group="rack\x00app=web,;",
        )

    def test_equal_rows_add_up_to_one_need(self) -> None:
        """Scenario S3: totals add up, smallest units take the larger."""
        small = replace(GOOD, aggregate_resources={"cpu": "2"}, min_unit={"cpu": "2"})

        (need,) = taken(GOOD, small)

        assert (need.aggregate, need.min_unit) == ({"cpu": 10_000}, {"cpu": 2_000})

    def test_different_groups_stay_apart(self) -> None:
        assert [need.group for need in taken(FULL, replace(FULL, group="other"))] == [
            FULL.group, "other",
        ]  # fmt: skip

    def test_an_empty_roll_up_is_demand_for_nothing(self) -> None:
        assert taken() == ()

    @pytest.mark.parametrize("operator", Operator)
    def test_every_operator_of_the_wire_is_known(self, operator: Operator) -> None:
        (need,) = taken(needing(RawRequirement("a", int(operator))))

        assert need.profile.requirements == (Requirement("a", operator),)

    @pytest.mark.parametrize("bucket", [0, 27])
    def test_the_ends_of_the_ladder_are_on_it(self, bucket: int) -> None:
        row = replace(GOOD, interruption_penalty_bucket=bucket, reclamation_penalty_bucket=bucket)

        assert len(taken(row)) == 1

    def test_what_is_exactly_at_the_limits_is_accepted(self) -> None:
        row = RawNeed(
            requirements=(RawRequirement("k" * 12, 1, ("ü" * 6, "")), RawRequirement("b", 3)),
            aggregate_resources={"cpu": "1", "memory": "1"},
            min_unit={"cpu": "1", "a": str(NEED_UNITS_MAX)},
            spread=(RawSpread("zone", 1, 1),),
        )

        other = replace(row, priority=1)

        assert len(taken(row, other, replace(other, group="g"), limits=SMALL)) == 3


BAD: Final[dict[str, tuple[RawNeed, str, str]]] = {
    "quantity": (
        replace(GOOD, aggregate_resources={"cpu": "8 cores"}),
        "not a quantity for 'cpu' in aggregate_resources", "'8 cores'",
    ),
    "empty quantity": (
        replace(GOOD, min_unit={"cpu": ""}), "not a quantity for 'cpu' in min_unit", "''",
    ),
    "negative quantity": (
        replace(GOOD, min_unit={"cpu": "-1"}), "negative quantity for 'cpu' in min_unit", "'-1'",
    ),
    "huge quantity": (
        replace(GOOD, aggregate_resources={"gpu": str(NEED_UNITS_MAX + 1)}),
        "quantity too large for 'gpu' in aggregate_resources", "'9007199254740993'",
    ),
    "operator": (
        needing(RawRequirement("zone", 6, ("a",))),
        "unknown operator of requirement on 'zone'", "6",
    ),
    "interruption bucket": (
        replace(GOOD, interruption_penalty_bucket=28),
        "interruption_penalty_bucket out of range 0 to 27", "28",
    ),
    "reclamation bucket": (
        replace(GOOD, reclamation_penalty_bucket=-1),
        "reclamation_penalty_bucket out of range 0 to 27", "-1",
    ),
    "priority": (
        replace(GOOD, priority=2**31), "priority has more than 32 bits", "2147483648",
    ),
    "skew": (
        spreading(RawSpread("zone", -(2**31) - 1, 1)),
        "max_skew of the spread over 'zone' has more than 32 bits", "-2147483649",
    ),
    "when": (
        spreading(RawSpread("zone", 1, 3)),
        "unknown when_unsatisfiable of the spread over 'zone'", "3",
    ),
    "requirements": (
        needing(*[RawRequirement("a", 3)] * 3), "more than 2 requirements", "3",
    ),
    "values": (
        needing(RawRequirement("a", 1, ("x", "y", "z"))),
        "more than 2 values of requirement on 'a'", "3",
    ),
    "spreads": (spreading(*[RawSpread("zone", 1, 1)] * 2), "more than 1 spreads", "2"),
    "dimensions": (
        replace(GOOD, min_unit={"a": "1", "b": "1", "c": "1"}),
        "more than 2 resources in min_unit", "3",
    ),
    "long key": (
        needing(RawRequirement("k" * 13, 3)),
        "key of a requirement is longer than 12 bytes", "'kkkkkkkkkkkkk'",
    ),
    "long value": (
        needing(RawRequirement("a", 1, ("ü" * 6 + "x",))),
        "value of requirement on 'a' is longer than 12 bytes",
        r"'\xfc\xfc\xfc\xfc\xfc\xfcx'",
    ),
    "long topology key": (
        spreading(RawSpread("k" * 13, 1, 1)),
        "topology_key of a spread is longer than 12 bytes", "'kkkkkkkkkkkkk'",
    ),
    "long group": (
        replace(GOOD, group="g" * 13), "group is longer than 12 bytes", "'ggggggggggggg'",
    ),
    "long resource": (
        replace(GOOD, min_unit={"k" * 13: "1"}),
        "resource of min_unit is longer than 12 bytes", "'kkkkkkkkkkkkk'",
    ),
    "broken text": (replace(GOOD, group="\ud800"), "group is no text", r"'\ud800'"),
}  # fmt: skip


class TestRefusing:
    @pytest.mark.parametrize("name", BAD)
    def test_a_bad_row_is_named_with_what_is_wrong_and_the_value(self, name: str) -> None:
        row, what, value = BAD[name]

        error = refusal(GOOD, row, limits=SMALL)

        assert error.bad == (BadRow(1, what, value),)
        assert error.message == f"roll-up of cluster web refused: row 1: {what}: {value}"

    def test_every_bad_row_is_named_and_all_that_is_wrong_with_it(self) -> None:
        double = replace(BAD["quantity"][0], reclamation_penalty_bucket=99)

        error = refusal(BAD["operator"][0], GOOD, double)

        assert error.message == (
            "roll-up of cluster web refused: "
            "row 0: unknown operator of requirement on 'zone': 6; "
            "row 2: not a quantity for 'cpu' in aggregate_resources: '8 cores'; "
            "row 2: reclamation_penalty_bucket out of range 0 to 27: 99"
        )
        assert [row.position for row in error.bad] == [0, 2, 2]

    def test_a_long_list_of_bad_rows_is_cut_in_the_message_and_whole_as_data(self) -> None:
        error = refusal(*[BAD["operator"][0]] * (ROWS_NAMED_MAX + 5))

        assert error.message.count("row ") == ROWS_NAMED_MAX
        assert error.message.endswith(": 6; and 5 more")
        assert [row.position for row in error.bad] == list(range(ROWS_NAMED_MAX + 5))

    def test_no_text_from_outside_breaks_the_line_or_floods_it(self) -> None:
        long = replace(GOOD, aggregate_resources={"a\nb": "\u2028" * 1000})

        assert len(refusal(long).message) < 700

    def test_too_many_rows_are_refused_before_any_is_read(self) -> None:
        error = refusal(*[BAD["operator"][0]] * 4, limits=SMALL)

        assert error.message == "roll-up of cluster web refused: 4 rows (at most 3)"
        assert error.bad == ()

    def test_a_timestamp_before_the_epoch_is_refused(self) -> None:
        """The earliest wins ties: a broken clock must not."""
        assert "its timestamp is negative: -1" in refusal(GOOD, arrival_nanos=-1).message

    def test_rows_that_name_too_many_resources_together_are_named(self) -> None:
        rows = [replace(GOOD, min_unit={name: "1"}) for name in ("a", "b", "c", "a", "d")]

        error = refusal(*rows, limits=replace(SMALL, rows=5))

        what = "more than 3 resources in all, one more is"
        assert error.bad == (BadRow(2, what, "'c'"), BadRow(4, what, "'d'"))

    def test_rows_that_add_up_to_too_much_are_named(self) -> None:
        half = replace(GOOD, aggregate_resources={"gpu": str(NEED_UNITS_MAX // 2 + 1)})

        error = refusal(GOOD, half, half, replace(half, group="other"))

        what = "with the rows before it, quantity too large for 'gpu'"
        assert error.bad == (
            BadRow(2, what, "9007199254740994"),
            BadRow(3, what, "9007199254740994"),
        )

    def test_it_says_to_change_the_request(self) -> None:
        assert isinstance(refusal(BAD["operator"][0]), Rejected)
        assert InvalidRollup.code == "invalid_rollup"
        assert InvalidRollup.what_to_do

    @pytest.mark.parametrize("name", [limit.name for limit in fields(Limits)])
    def test_a_limit_that_lets_nothing_in_is_refused(self, name: str) -> None:
        nothing: dict[str, Any] = {name: 0}
        with pytest.raises(Rejected, match=f"limit {name} must be at least 1"):
            Limits(**nothing)


def test_the_last_accepted_demand_stays_when_a_roll_up_is_refused() -> None:
    table = NeedsTable()
    table.replace(WEB, taken(GOOD))
    before, revision = table.snapshot(), table.revision

    for bad, _, _ in BAD.values():
        with pytest.raises(InvalidRollup):
            table.replace(WEB, taken(replace(GOOD, priority=999), bad, limits=SMALL))

    assert table.snapshot() is before
    assert table.revision == revision


NEVER: Final[dict[str, tuple[RawRequirement, ...]]] = {
    "more than a word": (RawRequirement("gen", Operator.GT, ("new",)),),
    "less than two numbers": (RawRequirement("gen", Operator.LT, ("5", "6")),),
    "two values at once": (
        RawRequirement("rack", Operator.IN, ("r1",)), RawRequirement("rack", Operator.IN, ("r2",)),
    ),
    "one of none": (RawRequirement("rack", Operator.IN),),
    "there and not there": (
        RawRequirement("rack", Operator.EXISTS), RawRequirement("rack", Operator.DOES_NOT_EXIST),
    ),
    "no operator": (RawRequirement("rack", Operator.UNSPECIFIED),),
}  # fmt: skip
"""Requirements that no machine fulfils."""

SAME_RACK: Final = RawRequirement("rack", Operator.SAME)
RACK_1: Final = a_profile(labels={"rack": "r1", "gen": "3"})


def planned(need: Need) -> Plan:
    """A decision where two machines serve the need, and enough others would be free."""
    inventory = Inventory()
    serving = an_assignment(fingerprint=need.ref.fingerprint, group=need.ref.group)
    for number in range(2):
        own = a_machine(
            State.CONFIGURED, id=f"own-{number}", profile=RACK_1, cluster="web", assignment=serving
        )
        inventory.add(own, now=0.0)
    for number in range(3):
        inventory.add(a_machine(State.IDLE, id=f"idle-{number}", profile=RACK_1), now=0.0)
        inventory.add(a_machine(State.SPECULATIVE, id=f"slot-{number}", profile=RACK_1), now=0.0)
    demand = Demand((need,), frozenset({WEB}))
    return decide(inventory.snapshot(), demand, Memory.empty(), Policy(), 0.0)


def a_row(gang: bool, *requirements: RawRequirement, cpu: str = "24") -> Need:
    """A need of three machines' worth."""
    same = (SAME_RACK,) if gang else ()
    row = replace(needing(*requirements, *same), aggregate_resources={"cpu": cpu})
    (need,) = taken(replace(row, group="g-1" if gang else ""))
    return need


@pytest.mark.parametrize("gang", [True, False], ids=["gang", "plain"])
@pytest.mark.parametrize("name", NEVER)
class TestDemandThatCanNeverBeMet:
    def test_it_is_kept_and_told_with_its_reason(self, name: str, gang: bool) -> None:
        need = a_row(gang, *NEVER[name])

        plan = planned(need)

        assert [short.need for short in plan.unsatisfied] == [need]
        assert plan.unsatisfied[0].unresolved == {"cpu": 24_000}
        assert [s.fingerprint for s in plan.shortfalls] == [need.profile.fingerprint]
        assert plan.unsatisfied[0].reason is (Unmet.IMPOSSIBLE if gang else Unmet.NO_SUPPLY)

    def test_it_takes_nothing(self, name: str, gang: bool) -> None:
        plan = planned(a_row(gang, *NEVER[name]))

        assert [a for a in plan.actions if a.machine.startswith(("idle", "slot"))] == []

    def test_it_protects_what_serves_it(self, name: str, gang: bool) -> None:
        plan = planned(a_row(gang, *NEVER[name]))

        assert [a for a in plan.actions if a.machine.startswith("own")] == []


def test_a_gang_that_is_too_large_for_any_rack_takes_nothing_and_keeps_its_machines() -> None:
    need = a_row(True, cpu="800")

    plan = planned(need)

    assert plan.actions == ()
    assert plan.claimed_ids() == ["own-0", "own-1"]
    assert [short.need for short in plan.unsatisfied] == [need]
