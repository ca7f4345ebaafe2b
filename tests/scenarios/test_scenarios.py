"""Every scenario file ends as it says, for the engine in both forms and for the oracle.

`pytest tests/scenarios --rewrite` writes what came of each into its file, to be read as a diff.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import outside
from scenarios.playing import NUMPY, deciders, differences, play, rewrite
from scenarios.reading import THEMES, files, named, read
from scenarios.telling import Told, rewritten

TESTS: Final = outside.ROOT / "tests"
ADRS: Final = outside.ROOT / "docs/adr"

NUMBERS: Final = frozenset(f"S{number:02}" for number in (*range(1, 88), *range(90, 106)))
"""The collected scenarios; there is no S88 and no S89, and from S103 on they are our own."""

NEED: Final = "unit/model/test_need.py"
NEEDS: Final = "unit/model/test_needs.py"
PLAIN: Final = "unit/engine/test_plain_engine.py"
MERGE: Final = "property/test_inventory_merge.py"
LAWS: Final = "simulation/test_loop_laws.py"
RAILS: Final = "unit/shard/test_rails.py"
DEMAND: Final = "unit/shard/test_demand.py::TestS66Quarantine"
BOOTSTRAP: Final = "unit/shard/test_bootstrap.py"

ELSEWHERE: Final[Mapping[str, tuple[str, ...]]] = {
    "S01": (
        "unit/model/test_cost.py::test_dollars_go_into_the_lowest_bucket_that_holds_them",
        "unit/model/test_cost.py::test_the_ladder_is_that_of_the_wire",
    ),
    "S02": (
        f"{NEED}::test_the_order_of_requirements_values_and_spread_does_not_matter",
        f"{NEED}::test_different_profiles_have_different_fingerprints",
        f"{NEED}::test_cluster_group_resources_and_arrival_are_no_part_of_the_fingerprint",
    ),
    "S03": (
        f"{NEED}::test_equal_needs_of_a_cluster_add_up_to_one_row",
        f"{NEED}::test_needs_of_another_cluster_gang_or_profile_stay_apart",
    ),
    "S04": (
        f"{NEEDS}::test_higher_priority_comes_first",
        f"{NEEDS}::test_among_equal_priorities_the_earlier_comes_first",
        f"{NEEDS}::test_among_equal_arrivals_clusters_are_in_order",
    ),
    "S05": (f"{NEEDS}::test_an_empty_roll_up_withdraws_everything",),
    "S62": (f"{PLAIN}::TestRelease::test_the_hold_starts_when_a_machine_becomes_idle",),
    "S63": (f"{RAILS}::TestReclaimCap::test_s63_cap_arithmetic",),
    "S64": (
        f"{RAILS}::TestReclaimCap::test_s64_cap_selection",
        f"{RAILS}::TestReclaimCap::test_s64_without_a_fraction_everything_runs",
    ),
    "S66": (
        f"{DEMAND}::test_s66_an_empty_roll_up_is_held_twice_and_believed_the_third_time",
        f"{DEMAND}::test_s66_one_that_asks_for_enough_is_accepted_and_the_count_begins_anew",
        f"{DEMAND}::test_s66_demand_of_nine_rows_may_go_at_once",
        f"{DEMAND}::test_s66_demand_that_shrinks_step_by_step_is_never_held",
        f"{DEMAND}::test_s66_the_first_roll_up_is_accepted_even_when_it_is_empty",
        f"{DEMAND}::test_s66_exactly_a_tenth_is_accepted_and_less_is_held",
    ),
    "S67": (
        f"{RAILS}::TestStances::test_s67_pause_wins_over_shadow_in_the_counting",
        "simulation/test_whole_shard.py"
        "::test_under_pause_and_shadow_everything_is_decided_and_nothing_is_called",
    ),
    "S69": (
        "unit/shard/test_reconcile.py::TestInOurHands"
        "::test_S69_a_list_leaves_a_machine_alone_that_is_in_flight",
        f"{MERGE}::TestAbsence::test_what_is_skipped_is_neither_taken_in_nor_missed",
    ),
    "S70": (
        "unit/shard/test_executor.py::TestOffer"
        "::test_S70_an_order_whose_machine_has_moved_on_is_deduplicated_without_a_call",
    ),
    "S71": (
        f"{BOOTSTRAP}::TestBeforeTheProviderIsAsked"
        "::test_S71_a_cluster_that_does_not_answer_in_time_gives_the_machine_back",
        f"{BOOTSTRAP}::TestAfterTheProviderWasAsked"
        "::test_S71_a_refused_configure_is_failed_with_the_providers_words",
    ),
    "S72": (
        "unit/shard/test_drain.py::TestStates"
        "::test_S72_an_ack_at_draining_keeps_cluster_and_commitment",
        "unit/shard/test_reconcile.py::TestWhoIsTold::test_S72_a_drain_that_a_list_finishes_leaves"
        "_nothing_and_is_told_to_the_cluster_it_left",
        f"{MERGE}::TestEcho::test_what_a_machine_was_drained_for_is_forgotten_when_it_is_idle",
    ),
    "S73": (
        f"{MERGE}::TestBulk::test_a_record_that_breaks_a_rule_is_refused_under_its_name",
        f"{MERGE}::TestRepeated::test_a_refused_report_leaves_the_record_it_does_not_replace",
        "unit/shard/test_provision.py::TestProvision"
        "::test_S73_an_ack_that_cannot_be_is_failed_and_never_repeated",
    ),
    "S75": (
        "unit/shard/test_executor_over_sim.py::TestFences"
        "::test_S75_calls_to_several_machines_may_overtake_each_other",
    ),
    "S78": (
        "not expressible yet: demand is an input here, and no pods are simulated that would ask"
        " only while they wait",
    ),
}
"""Scenarios that are no files: the tests that show them, or why there is none."""

PARTLY: Final[Mapping[str, tuple[str, ...]]] = {
    "S15": (f"{PLAIN}::TestPlain::test_the_higher_priority_is_served_first",),
    "S30": (f"{PLAIN}::TestGang::test_coverage_is_compared_exactly",),
    "S44": (
        f"{PLAIN}::TestGang::test_a_gang_in_vain_is_parked_after_eight_cycles_and_probes_every"
        "_thirty_second",
    ),
    "S57": (f"{LAWS}::TestPreemption::test_s57_victims_drain_and_then_serve_the_more_important",),
    "S60": ("not expressible: the inventory stamps every Idle machine, so that none has no stamp",),
    "S65": (f"{RAILS}::TestReclaimCap::test_s65_what_is_left_over_runs_in_later_cycles",),
    "S68": (f"{PLAIN}::TestShortfall::test_a_hundred_are_told_and_all_are_remembered",),
    "S74": (f"{MERGE}::TestEcho::test_it_fills_only_what_we_do_not_know",),
    "S77": ("not expressible yet: pods that die with their machine and are not asked for again",),
    "S83": (f"{LAWS}::TestRelease::test_s83_exactly_the_excess_is_reclaimed_and_only_once",),
    "S84": (f"{LAWS}::TestSeed003::test_s84_a_burst_of_losses_is_made_good_one_by_one",),
    "S90": (
        f"{LAWS}::TestPreemption::test_s90_a_deficit_takes_as_many_victims_however_long_they_drain",
    ),
    "S96": (
        f"{NEEDS}::test_demand_that_is_told_again_keeps_its_first_arrival_and_changes_nothing",
    ),
    "S97": (
        f"{MERGE}::TestDrift::test_it_is_taken_in_without_a_transition_and_the_assignment_stays",
    ),
}
"""What a file does not show of its scenario, and where that is."""

file_by_file = pytest.mark.parametrize("path", files(), ids=named)


@cache
def came_of(path: Path, decider: str) -> list[Told]:
    return play(read(path), decider)


@file_by_file
def test_a_scenario_ends_as_its_file_says(path: Path, request: pytest.FixtureRequest) -> None:
    scenario = read(path)
    players = deciders(scenario)

    if request.config.getoption("--rewrite", default=False):
        for decider in players:
            assert came_of(path, decider) == came_of(path, NUMPY), f"{decider} does not agree"
        rewrite(path, came_of(path, NUMPY))
        return

    for decider in players:
        difference = differences(scenario, came_of(path, decider))
        assert not difference, f"{decider}:\n{difference}"


@file_by_file
def test_rewriting_a_file_that_is_right_changes_nothing(path: Path) -> None:
    text = path.read_text()

    assert rewritten(text, came_of(path, NUMPY)) == text


class TestCollection:
    def test_every_number_is_in_a_file_or_its_place_is_named(self) -> None:
        shown = {number for path in files() for number in read(path).numbers}

        assert shown | ELSEWHERE.keys() == NUMBERS
        assert shown & ELSEWHERE.keys() == set()
        assert shown >= PARTLY.keys()

    @pytest.mark.parametrize("number", sorted({*ELSEWHERE, *PARTLY}))
    def test_a_place_that_is_named_exists(self, number: str) -> None:
        places = [*ELSEWHERE.get(number, ()), *PARTLY.get(number, ())]

        assert [place for place in places if not is_there(place)] == []

    def test_a_place_that_is_not_there_is_seen(self) -> None:
        assert is_there("not built yet: moon")
        assert is_there(f"{PLAIN}::TestPlain::test_what_adds_nothing_is_not_claimed")
        assert not is_there(f"{PLAIN}::TestGang::test_what_adds_nothing_is_not_claimed")
        assert not is_there(f"{PLAIN}::test_what_adds_nothing_is_not_claimed")
        assert not is_there("unit/nowhere.py::test_it")

    @file_by_file
    def test_a_file_has_a_theme_and_a_title_and_its_departures_are_decisions(
        self, path: Path
    ) -> None:
        scenario = read(path)

        assert path.parent.name in THEMES
        assert scenario.title.endswith(".")
        assert set(scenario.numbers) <= NUMBERS
        decided = {f"ADR-{adr.name[:4]}" for adr in ADRS.glob("[0-9]*.md")}
        assert set(scenario.departs) <= decided

    def test_scenarios_of_which_a_decision_says_how_they_end_depart_in_its_name(self) -> None:
        departs: defaultdict[str, set[str]] = defaultdict(set)
        for path in files():
            for adr in read(path).departs:
                departs[adr] |= set(read(path).numbers)

        ends = {f"ADR-{adr.name[:4]}": ending(adr.read_text()) for adr in ADRS.glob("[0-9]*.md")}

        assert ends["ADR-0013"] == {"S27", "S37", "S40", "S42"}
        assert {adr for adr, numbers in ends.items() if numbers - departs[adr]} == set()


def ending(text: str) -> set[str]:
    """The numbers in sentences that say how scenarios end."""
    return {
        number
        for sentence in re.findall(r"Scenarios S[^.]* end\b", text)
        for number in re.findall(r"S[0-9]+", sentence)
    }


def is_there(place: str) -> bool:
    """Whether a test of this name exists; a reason why there is none will do."""
    path, *steps = place.split("::")
    if not steps:
        return place.startswith("not ")
    if not (TESTS / path).is_file():
        return False
    inside: list[ast.stmt] = ast.parse((TESTS / path).read_text()).body
    for step in steps:
        found = [node for node in inside if getattr(node, "name", None) == step]
        if not found:
            return False
        inside = getattr(found[0], "body", [])
    return steps[-1].startswith("test_")
