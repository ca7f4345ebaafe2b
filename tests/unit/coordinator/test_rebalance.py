"""The rules by which machines change shards, each at its boundary."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from mainstay.coordinator.rebalance import (
    Options,
    PastMove,
    Proposal,
    Reason,
    ShardStanding,
    Standing,
    Tier,
    plan,
    render,
)
from mainstay.model.coordination import FreeRow, Missing
from mainstay.model.errors import Rejected
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from rebalancing import (
    INTERVAL,
    NOW,
    Part,
    Step,
    fleet,
    free,
    moved,
    read,
    serving,
    shard,
    short,
    steps,
)

FILES: Final = sorted((Path(__file__).parent / "rebalance").glob("*.txt"))
RICH: Final = shard(free(20))


def reasons(standing: Standing, options: Options | None = None) -> list[Reason]:
    return [verdict.what for verdict in plan(standing, options).verdicts]


def the_proposal(standing: Standing, options: Options | None = None) -> Proposal:
    (found,) = plan(standing, options).proposals
    return found


def named(proposal: Proposal, key: str) -> list[Requirement]:
    return [each for each in proposal.wanted.requirements if each.key == key]


class TestFiles:
    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
    def test_a_plan_is_as_its_file_says(self, path: Path) -> None:
        told = read(path)

        assert render(plan(told.standing, told.options)) == told.plan

    def test_every_reason_is_in_a_file(self) -> None:
        told = map(read, FILES)
        found = {each for one in told for each in reasons(one.standing, one.options)}

        assert set(Reason) - found == set()

    @pytest.mark.parametrize(
        "line",
        ["shard", "shard a color=red", "  free m5 za", "move a b", "nonsense x", "option speed=1"],
    )
    def test_a_file_with_a_mistake_is_refused(self, tmp_path: Path, line: str) -> None:
        path = tmp_path / "wrong.txt"
        path.write_text(line + "\n")

        with pytest.raises((ValueError, TypeError)):
            read(path)


class TestAge:
    @pytest.mark.parametrize(("age", "moves"), [(5, 0), (6, 1)])
    def test_other_shards_are_asked_after_five_cycles(self, age: int, moves: int) -> None:
        planned = plan(fleet(a=shard(short(age=age)), b=RICH))

        assert len(planned.proposals) == moves
        assert [verdict.what for verdict in planned.verdicts] == [Reason.YOUNG] * (1 - moves)

    @pytest.mark.parametrize(("age", "moves"), [(12, 0), (13, 1)])
    def test_somebody_is_preempted_after_twelve(self, age: int, moves: int) -> None:
        planned = plan(fleet(a=shard(short(age=age)), b=shard(serving(9))))

        assert steps(planned) == [Step("b", "a", Tier.PREEMPT, 3)] * moves
        assert [verdict.what for verdict in planned.verdicts] == [Reason.NO_SPARE] * (1 - moves)


class TestWhoIsServedFirst:
    def test_the_higher_priority_then_the_older_then_by_name(self) -> None:
        standing = fleet(
            b=shard(short("y", age=7), short("x", age=7), short("old", age=9)),
            a=shard(short("high", priority=11), short("z", age=7)),
            c=shard(free(100)),
        )

        found = [(each.recipient, each.fingerprint) for each in plan(standing).proposals]

        assert found == [("a", "high"), ("b", "old"), ("a", "z"), ("b", "x"), ("b", "y")]

    def test_what_is_left_goes_to_the_next(self) -> None:
        standing = fleet(a=shard(short(priority=1)), b=shard(short(priority=2)), c=shard(free(5)))

        assert steps(plan(standing)) == [
            Step("c", "b", Tier.IDLE, 3),
            Step("c", "a", Tier.IDLE, 1),
        ]

    def test_the_order_of_mappings_and_moves_changes_nothing(self) -> None:
        shards = {
            "a": shard(short(), short("api", priority=7)),
            "b": shard(free(9), free(12, of="c6")),
            "c": shard(free(9), short("sql", types=("c6",))),
        }
        moves = (
            moved("b", "c", types=("c6",), machines=9, kind="x"),
            moved("b", "c", types=("c6", "m5"), machines=9, kind="y"),
        )

        one = plan(fleet(*moves, **shards))
        other = plan(fleet(*reversed(moves), **dict(reversed(shards.items()))))

        assert one == other
        assert one.proposals


class TestMargin:
    @pytest.mark.parametrize(("idle", "given"), [(1, 0), (2, 1), (10, 9), (11, 9), (30, 27)])
    def test_a_donor_keeps_a_tenth_of_a_row_and_at_least_one(self, idle: int, given: int) -> None:
        planned = plan(fleet(a=shard(short(needs="99xcpu:4")), b=shard(free(idle))))

        assert [step.machines for step in steps(planned)] == [given] * bool(given)

    def test_how_many_at_least_can_be_set(self) -> None:
        standing = fleet(a=shard(short()), b=shard(free(4)))

        assert [step.machines for step in steps(plan(standing, Options(margin_least=3)))] == [1]

    def test_it_holds_for_speculative_slots_too(self) -> None:
        planned = plan(fleet(a=shard(short(needs="99xcpu:4")), b=shard(free(0, 20))))

        assert steps(planned) == [Step("b", "a", Tier.SPECULATIVE, 18)]

    def test_it_is_kept_of_each_row(self) -> None:
        donor = shard(*(free(2, zone=zone) for zone in ("za", "zb", "zc")))

        planned = plan(fleet(a=shard(short(needs="99xcpu:4")), b=donor))

        assert steps(planned) == [Step("b", "a", Tier.IDLE, 3)]

    def test_rows_of_one_kind_count_together(self) -> None:
        donor = shard(free(1), free(1))

        assert steps(plan(fleet(a=shard(short()), b=donor))) == [Step("b", "a", Tier.IDLE, 1)]

    def test_what_open_moves_may_still_take_is_not_offered_again(self) -> None:
        standing = fleet(
            moved("b", "c", kind="other", machines=16), a=shard(short()), b=RICH, c=shard()
        )

        assert steps(plan(standing)) == [Step("b", "a", Tier.IDLE, 2)]

    def test_a_move_that_has_ended_takes_nothing_more(self) -> None:
        standing = fleet(
            moved("b", "c", kind="other", machines=16, ago=1), a=shard(short()), b=RICH, c=shard()
        )

        assert steps(plan(standing)) == [Step("b", "a", Tier.IDLE, 3)]


class TestVolume:
    def test_a_move_takes_no_more_than_the_cap(self) -> None:
        standing = fleet(a=shard(short(needs="400xcpu:4")), b=shard(free(1000)))

        assert [step.machines for step in steps(plan(standing))] == [50]

    def test_a_move_takes_no_more_than_is_missing(self) -> None:
        missing = replace(
            short(needs="1xcpu:4,memory:8Gi"), deficit={"cpu": 4_001, "memory": 1024, "disk": 9}
        )

        assert the_proposal(fleet(a=shard(missing), b=RICH)).wanted.machines_max == 2

    @pytest.mark.parametrize(("donors", "machines"), [(1, [9]), (2, [9, 9]), (3, [9, 9, 2])])
    def test_only_a_shortfall_that_one_donor_cannot_fill_has_several(
        self, donors: int, machines: list[int]
    ) -> None:
        shards = {name: shard(free(10)) for name in "bcde"[:donors]}

        planned = plan(fleet(a=shard(short(needs="20xcpu:4")), **shards))

        assert [step.machines for step in steps(planned)] == machines

    def test_never_more_than_three(self) -> None:
        shards = {name: shard(free(3)) for name in "bcdef"}

        planned = plan(fleet(a=shard(short(needs="99xcpu:4")), **shards))

        assert [step.donor for step in steps(planned)] == ["b", "c", "d"]

    def test_one_donor_alone_gives_where_nobody_says_how_many_are_enough(self) -> None:
        standing = fleet(a=shard(short(needs="cpu:400")), b=shard(free(10)), c=shard(free(10)))

        assert steps(plan(standing)) == [Step("b", "a", Tier.IDLE, 9)]
        assert the_proposal(standing).wanted.deficit == {"cpu": 400_000}

    def test_the_deficit_is_divided_among_them(self) -> None:
        missing = replace(short(needs="20xcpu:4"), min_unit={"cpu": 4_000}, deficit={
            "cpu": 79_001, "memory": 7,
        })  # fmt: skip
        standing = fleet(a=shard(missing), b=shard(free(10)), c=shard(free(13)))

        parts = [each.wanted.deficit for each in plan(standing).proposals]

        assert parts == [{"cpu": 43_451, "memory": 4}, {"cpu": 35_550, "memory": 3}]

    def test_a_donor_that_fills_half_is_asked_for_half(self) -> None:
        standing = fleet(a=shard(short(needs="18xcpu:4")), b=shard(free(10)))

        assert the_proposal(standing).wanted.deficit == {"cpu": 36_000}

    def test_the_donor_with_the_most_is_asked_first_then_by_id(self) -> None:
        standing = fleet(a=shard(short()), d=RICH, c=shard(free(20, zone="zb")), b=shard(free(19)))

        assert [step.donor for step in steps(plan(standing))] == ["c"]

    def test_what_may_come_from_several_rows_is_counted_from_the_largest(self) -> None:
        """So that a shortfall that is content with less choice finds something, too."""
        missing = [short("any", "2xcpu:4", priority=20), short("za", "2xcpu:4", zones=("za",))]
        standing = fleet(a=shard(*missing), b=shard(free(3), free(10, zone="zb")))

        assert [step.machines for step in steps(plan(standing))] == [2, 2]

    @pytest.mark.parametrize(("room", "moves"), [(0, 0), (1, 1), (2, 2), (3, 3)])
    def test_a_fleet_has_only_so_many_moves_under_way(self, room: int, moves: int) -> None:
        options = Options(open_moves_max=2 + room)
        standing = fleet(
            moved("x", "y"), moved("y", "z"), moved("z", "x", tier=Tier.RETURN),
            a=shard(short(needs="18xcpu:4"), short("api", priority=1, types=("c6",))),
            b=shard(free(10)), c=shard(free(10), free(10, of="c6")),
        )  # fmt: skip

        planned = plan(standing, options)

        assert len(planned.proposals) == moves
        assert (Reason.FULL in [verdict.what for verdict in planned.verdicts]) == (room < 3)


class TestWhoCanGive:
    def test_machines_of_a_provider_that_the_recipient_cannot_see_stay(self) -> None:
        donor = replace(shard(free(20, provider="cloud")), providers=frozenset({"cloud", "metal"}))

        assert reasons(fleet(a=shard(short()), b=donor)) == [Reason.NO_SPARE]

    def test_of_a_donor_with_two_providers_only_the_shared_one_is_asked_for(self) -> None:
        donor = shard(free(20, provider="cloud"), free(3, provider="metal"))

        found = the_proposal(fleet(a=shard(short()), b=donor))

        assert found.wanted.providers == ("metal",)
        assert found.wanted.machines_max == 2

    @pytest.mark.parametrize(("heard", "moves"), [(3, 1), (4, 0)])
    def test_a_donor_was_heard_of_within_three_intervals(self, heard: int, moves: int) -> None:
        planned = plan(fleet(a=shard(short()), b=shard(free(20), heard=heard)))

        assert len(planned.proposals) == moves

    @pytest.mark.parametrize(("heard", "moves"), [(3, 1), (4, 0)])
    def test_and_so_was_a_recipient(self, heard: int, moves: int) -> None:
        planned = plan(fleet(a=shard(short(), heard=heard), b=RICH))

        assert len(planned.proposals) == moves
        assert [verdict.what for verdict in planned.verdicts] == [Reason.SILENT] * (1 - moves)

    @pytest.mark.parametrize(
        ("donor", "recipient", "reason"),
        [
            (replace(RICH, removing=True), shard(short()), Reason.NO_SPARE),
            (replace(RICH, can_hand_over=False), shard(short()), Reason.NO_SPARE),
            (replace(RICH, takes_all=True), shard(short()), Reason.NO_SPARE),
            (RICH, replace(shard(short()), takes_all=True), Reason.TAKES_ALL),
            (RICH, replace(shard(short()), removing=True), Reason.REMOVING),
            (RICH, replace(shard(short()), can_hand_over=False), Reason.CANNOT_TAKE),
        ],
    )
    def test_both_can_hand_over_and_neither_is_being_removed(
        self, donor: ShardStanding, recipient: ShardStanding, reason: Reason
    ) -> None:
        assert reasons(fleet(a=recipient, b=donor)) == [reason]

    def test_a_donor_that_takes_everything_is_named_as_such(self) -> None:
        (verdict,) = plan(fleet(a=shard(short()), b=replace(RICH, takes_all=True))).verdicts

        assert "(b takes every machine)" in verdict.sentence

    def test_a_shard_gives_nothing_to_itself(self) -> None:
        (verdict,) = plan(fleet(a=shard(short(), free(20)))).verdicts

        assert verdict.what is Reason.NO_SPARE
        assert "short of the same" not in verdict.sentence

    def test_each_recipient_sees_its_own_providers(self) -> None:
        blind = replace(shard(short()), providers=frozenset({"cloud"}))

        planned = plan(fleet(a=shard(short()), b=blind, c=RICH))

        assert [step.recipient for step in steps(planned)] == ["a"]

    @pytest.mark.parametrize("tier", [Tier.IDLE, Tier.SPECULATIVE, Tier.PREEMPT])
    @pytest.mark.parametrize(
        ("own", "gives"),
        [
            (short("same", age=1), False),
            (short("same", age=1, priority=1), False),
            (short("any type", types=()), False),
            (replace(short("gang"), topology=True), False),
            (short("other type", types=("c6",)), True),
            (short("other zone", zones=("zb",)), True),
            (short("one more resource", needs="1xcpu:4,nvidia.com/gpu:1"), True),
            (replace(short("capped"), quota=True), True),
            (short("nothing", needs=""), True),
        ],
        ids=lambda value: value.fingerprint if isinstance(value, Missing) else str(value),
    )
    def test_a_shard_that_is_short_itself_is_no_donor_of_that_kind(
        self, tier: Tier, own: Missing, gives: bool
    ) -> None:
        rows: dict[Tier, Part] = {
            Tier.IDLE: free(20), Tier.SPECULATIVE: free(0, 20), Tier.PREEMPT: serving(20),
        }  # fmt: skip
        standing = fleet(a=shard(short(age=20)), b=shard(rows[tier], own))

        found = [step for step in steps(plan(standing)) if step.donor == "b"]

        assert found == [Step("b", "a", tier, 3)] * gives

    @pytest.mark.parametrize(("own", "gives"), [("cpu:4", False), ("cpu:4,fpga:1", True)])
    def test_nor_one_whose_need_names_fewer_resources(self, own: str, gives: bool) -> None:
        """What has all that the recipient names would do for the donor."""
        missing = short(needs="2xcpu:4,nvidia.com/gpu:1")
        standing = fleet(a=shard(missing), b=shard(free(20), short("own", f"1x{own}", age=1)))

        assert len(plan(standing).proposals) == gives


class TestWhatIsAskedFor:
    @pytest.mark.parametrize(
        ("types", "zones", "fits"),
        [(("m5",), (), True), (("c6",), (), False), ((), ("zb",), False), ((), ("za", "zb"), True)],
    )
    def test_only_a_row_of_a_type_and_zone_that_will_do(
        self, types: tuple[str, ...], zones: tuple[str, ...], fits: bool
    ) -> None:
        standing = fleet(a=shard(short(types=types, zones=zones)), b=RICH)

        assert len(plan(standing).proposals) == fits

    def test_what_else_is_required_is_left_to_the_donor(self) -> None:
        other = Requirement("gpu-model", Operator.IN, ("h100",))
        missing = short()
        missing = replace(missing, requirements=(*missing.requirements, other))

        found = the_proposal(fleet(a=shard(missing), b=RICH))

        assert other in found.wanted.requirements

    def test_a_proposal_is_narrowed_to_the_types_and_zones_on_offer(self) -> None:
        not_in = Requirement(INSTANCE_TYPE_KEY, Operator.NOT_IN, ("c6",))
        missing = replace(short(), requirements=(not_in,))
        donor = shard(free(9), free(9, of="r7", zone="zb"), free(9, of="c6"), free(1, of="p5"))

        found = the_proposal(fleet(a=shard(missing), b=donor))

        assert found.instance_types == ("m5", "r7")
        assert found.wanted.requirements == (
            Requirement(INSTANCE_TYPE_KEY, Operator.IN, ("m5", "r7")),
            Requirement(ZONE_KEY, Operator.IN, ("za", "zb")),
        )

    def test_where_a_zone_is_not_known_it_is_not_asked_for(self) -> None:
        not_in = Requirement(ZONE_KEY, Operator.NOT_IN, ("zx",))
        missing = short()
        missing = replace(missing, requirements=(*missing.requirements, not_in))

        found = the_proposal(fleet(a=shard(missing), b=shard(free(9, zone=""), free(9))))

        assert named(found, ZONE_KEY) == [not_in]

    def test_a_row_without_a_type_cannot_be_asked_for(self) -> None:
        standing = fleet(a=shard(short(types=())), b=shard(free(20, of="")))

        assert reasons(standing) == [Reason.NO_SPARE]

    def test_priority_penalty_and_smallest_unit_go_along(self) -> None:
        wanted = the_proposal(fleet(a=shard(short()), b=RICH)).wanted

        assert (wanted.priority, wanted.interruption_penalty_bucket) == (10, 3)
        assert wanted.min_unit == {"cpu": 4_000}
        assert wanted.deficit == {"cpu": 12_000}


class TestTiers:
    def test_speculative_slots_are_not_touched_while_anybody_has_idle_ones(self) -> None:
        standing = fleet(a=shard(short()), b=shard(free(2, 90)), c=shard(free(0, 90)))

        assert steps(plan(standing)) == [Step("b", "a", Tier.IDLE, 1)]

    @pytest.mark.parametrize("elsewhere", [free(2), free(0, 2)])
    def test_nobody_is_preempted_while_anything_is_free_anywhere(self, elsewhere: FreeRow) -> None:
        standing = fleet(a=shard(short(age=99)), b=shard(serving(50)), c=shard(elsewhere))

        assert [step.tier for step in steps(plan(standing))] != [Tier.PREEMPT]

    def test_what_cools_down_is_waited_for_before_anybody_is_preempted(self) -> None:
        standing = fleet(
            moved("c", "a", kind="other", ago=1),
            a=shard(short(age=99)), b=shard(serving(50)), c=RICH,
        )  # fmt: skip

        assert reasons(standing) == [Reason.COOLING]

    def test_what_a_margin_keeps_is_not(self) -> None:
        standing = fleet(a=shard(short(age=99)), b=shard(serving(50)), c=shard(free(1, 1)))

        assert steps(plan(standing)) == [Step("b", "a", Tier.PREEMPT, 3)]

    @pytest.mark.parametrize(
        ("priority", "penalty", "goes"),
        [(9, 2, True), (10, 2, False), (9, 3, False), (11, 0, False), (0, 4, False)],
    )
    def test_a_victim_matters_less_in_priority_and_in_penalty(
        self, priority: int, penalty: int, goes: bool
    ) -> None:
        donor = shard(serving(9, priority=priority, penalty=penalty))
        standing = fleet(a=shard(short(age=13, priority=10, penalty=3)), b=donor)

        planned = plan(standing)

        assert steps(planned) == [Step("b", "a", Tier.PREEMPT, 3)] * goes
        assert [verdict.what for verdict in planned.verdicts] == [Reason.NO_VICTIM] * (1 - goes)

    @pytest.mark.parametrize("rich", [free(90), free(0, 90), serving(90)])
    def test_topology_never_crosses(self, rich: Part) -> None:
        missing = replace(short(age=99), topology=True)

        assert reasons(fleet(a=shard(missing), b=shard(rich))) == [Reason.TOPOLOGY]

    def test_quota_is_not_met_with_machines(self) -> None:
        missing = replace(short(age=99), quota=True)

        assert reasons(fleet(a=shard(missing), b=RICH)) == [Reason.QUOTA]


class TestCoolDown:
    @pytest.mark.parametrize("way", [("a", "b"), ("b", "a")])
    @pytest.mark.parametrize(("ago", "moves"), [(7, 0), (8, 1)])
    def test_for_eight_intervals_a_type_does_not_move_between_two_shards_again(
        self, way: tuple[str, str], ago: int, moves: int
    ) -> None:
        standing = fleet(moved(*way, kind="x", ago=ago), a=shard(short()), b=RICH)

        planned = plan(standing)

        assert len(planned.proposals) == moves
        assert [verdict.what for verdict in planned.verdicts] == [Reason.COOLING] * (1 - moves)

    @pytest.mark.parametrize("way", [("a", "b"), ("b", "a")])
    def test_nor_while_a_move_is_open(self, way: tuple[str, str]) -> None:
        standing = fleet(moved(*way, kind="x", machines=1), a=shard(short()), b=RICH)

        assert reasons(standing) == [Reason.COOLING]

    @pytest.mark.parametrize(
        "other",
        [
            moved("b", "a", kind="x", ago=1, types=("c6",)),
            moved("b", "c", kind="x", ago=1),
            moved("b", "a", kind="x", ago=1, tier=Tier.RETURN),
        ],
    )
    def test_other_types_other_pairs_and_returns_are_free(self, other: PastMove) -> None:
        standing = fleet(other, a=shard(short()), b=RICH, c=shard())

        assert steps(plan(standing)) == [Step("b", "a", Tier.IDLE, 3)]

    def test_a_type_that_cools_down_is_left_out_of_what_is_asked_for(self) -> None:
        standing = fleet(
            moved("b", "a", kind="x", ago=1),
            a=shard(short(types=())), b=shard(free(90), free(9, of="c6")),
        )  # fmt: skip

        found = the_proposal(standing)

        assert found.instance_types == ("c6",)
        assert named(found, INSTANCE_TYPE_KEY)[0].values == ("c6",)

    def test_nothing_goes_both_ways_in_one_plan(self) -> None:
        """Each misses what the other could give, but for a resource that only the donor knows."""
        standing = fleet(
            a=shard(short("x", needs="2xcpu:4,nvidia.com/gpu:1", priority=9), free(20)),
            b=shard(short("y", needs="2xcpu:4,example.com/fpga:1", priority=5), free(20)),
        )

        planned = plan(standing)

        assert steps(planned) == [Step("b", "a", Tier.IDLE, 2)]
        assert [verdict.what for verdict in planned.verdicts] == [Reason.COOLING]

    def test_two_kinds_may_go_one_way_in_one_plan(self) -> None:
        standing = fleet(a=shard(short("x"), short("y")), b=RICH)

        assert steps(plan(standing)) == [Step("b", "a", Tier.IDLE, 3)] * 2


class TestAfterAMove:
    def test_a_shortfall_has_one_move_at_a_time(self) -> None:
        standing = fleet(moved("c", "a"), a=shard(short()), b=RICH, c=shard())

        assert reasons(standing) == [Reason.MOVING]

    def test_one_that_was_called_off_is_not_waited_for(self) -> None:
        gone = replace(moved("c", "a"), called_off=True)
        standing = fleet(gone, a=shard(short()), b=RICH, c=shard(free(90)))

        assert steps(plan(standing)) == [Step("b", "a", Tier.IDLE, 3)]

    def test_rows_of_one_fingerprint_are_one_shortfall(self) -> None:
        standing = fleet(a=shard(short(age=9), short(age=8)), b=RICH)

        assert len(plan(standing).proposals) == 1
        assert reasons(standing) == [Reason.MOVING]

    @pytest.mark.parametrize(("ago", "moves"), [(1, 0), (2, 1)])
    def test_what_just_arrived_may_not_be_in_the_report_yet(self, ago: int, moves: int) -> None:
        standing = fleet(moved("c", "a", ago=ago), a=shard(short()), b=RICH, c=shard())

        planned = plan(standing)

        assert len(planned.proposals) == moves
        assert [verdict.what for verdict in planned.verdicts] == [Reason.SETTLING] * (1 - moves)

    def test_a_move_that_brought_nothing_holds_up_nothing(self) -> None:
        standing = fleet(moved("c", "a", ago=0, machines=0), a=shard(short()), b=RICH, c=RICH)

        assert steps(plan(standing)) == [Step("b", "a", Tier.IDLE, 3)]

    @pytest.mark.parametrize(("ago", "donor"), [(39, "c"), (40, "b")])
    def test_a_donor_that_had_nothing_is_passed_over_for_a_while(
        self, ago: int, donor: str
    ) -> None:
        standing = fleet(
            moved("b", "a", ago=ago, machines=0), a=shard(short()), b=RICH, c=shard(free(5))
        )

        assert [step.donor for step in steps(plan(standing))] == [donor]

    @pytest.mark.parametrize(
        "refused",
        [
            moved("b", "a", ago=1, machines=0, kind="other"),
            moved("b", "a", ago=1, machines=0, tier=Tier.SPECULATIVE),
            moved("b", "c", ago=1, machines=0),
        ],
    )
    def test_for_that_kind_that_tier_and_that_shard_alone(self, refused: PastMove) -> None:
        standing = fleet(refused, a=shard(short()), b=RICH, c=shard())

        assert steps(plan(standing)) == [Step("b", "a", Tier.IDLE, 3)]


class TestOptions:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("report_interval_ns", 0),
            ("machines_max", 0),
            ("donors_max", 0),
            ("open_moves_max", -1),
            ("young_cycles", -1),
            ("margin_percent", 101),
            ("cool_down_intervals", -1),
        ],
    )
    def test_a_number_out_of_range_is_refused(self, name: str, value: int) -> None:
        with pytest.raises(Rejected, match=f"{name} must be .*: {value}"):
            Options(**{name: value})

    def test_settled_moves_are_needed_as_long_as_any_rule_asks_for_them(self) -> None:
        assert Options().memory_ns == 40 * INTERVAL
        assert Options(refusal_intervals=1).memory_ns == 8 * INTERVAL

    def test_every_number_can_be_set(self) -> None:
        options = Options(
            report_interval_ns=INTERVAL // 2, young_cycles=1, patient_cycles=1, fresh_intervals=0,
            cool_down_intervals=1, margin_percent=0, margin_least=0, machines_max=2,
        )  # fmt: skip
        standing = fleet(moved("b", "a", kind="x", ago=1), a=shard(short(age=2)), b=shard(free(2)))

        assert steps(plan(standing, options)) == [Step("b", "a", Tier.IDLE, 2)]


def test_nobody_short_means_nothing_moves() -> None:
    planned = plan(Standing(now_ns=NOW))

    assert (planned.proposals, planned.verdicts) == ((), ())
    assert render(planned) == ("no shard reports a shortfall",)


def test_only_some_shards_are_named_in_a_sentence() -> None:
    shards = {f"s{number}": shard(free(1)) for number in range(5)}
    standing = fleet(a=shard(short()), **shards)

    (verdict,) = plan(standing).verdicts

    assert verdict.sentence.endswith("(s0, s1, s2 and 2 more keep what little they have)")
