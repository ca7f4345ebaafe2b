"""The laws of a soak: each is quiet when it is kept, and names what breaks it."""

import dataclasses

import pytest

from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.state import State
from mainstay.model.views import Stamp, Summary
from mainstay.processes.cluster_demand import DemandSpec, rows
from mainstay.processes.soak_laws import (
    Held,
    Share,
    disagreements,
    drained_without_cause,
    forgotten,
    late,
    miscounted,
    owned_twice,
    shared,
    taken_away,
    units,
    unserved,
    was_drained,
    withdrawn,
)
from mainstay.processes.soak_shard import SoakSpec, is_quiet

A, B = ClusterId("a"), ClusterId("b")
SERVES_A = Held(State.CONFIGURED, "a")
IDLE = Held(State.IDLE)
A_LARGE, B_LARGE = Share("a", "large"), Share("b", "large")
SPEC = DemandSpec(cluster=A, machines=100)


class TestAgreement:
    def test_a_shard_that_believes_what_the_provider_says_breaks_nothing(self) -> None:
        assert disagreements({"m": SERVES_A, "n": IDLE}, {"m": SERVES_A, "n": IDLE}) == []

    def test_another_state_another_cluster_and_an_unknown_machine_are_told(self) -> None:
        provider = {"m": SERVES_A, "n": IDLE, "o": SERVES_A}
        shard = {"m": Held(State.CONFIGURED, "b"), "n": Held(State.FAILED), "p": IDLE}

        assert disagreements(provider, shard) == [
            "machine m is Configured for a at its provider and Configured for b for the shard",
            "machine n is Idle at its provider and Failed for the shard",
            "machine o is Configured for a at its provider and unknown for the shard",
            "machine p is unknown at its provider and Idle for the shard",
        ]

    def test_whom_a_failed_machine_was_meant_for_is_nobodys_business(self) -> None:
        failed, meant_for_a = Held(State.FAILED), Held(State.FAILED, "a")

        assert disagreements({"m": failed, "n": failed}, {"m": meant_for_a, "n": failed}) == []
        assert disagreements({"m": failed}, {"m": SERVES_A}) == [
            "machine m is Failed at its provider and Configured for a for the shard"
        ]

    def test_many_are_counted_and_few_are_named(self) -> None:
        told = disagreements({f"m-{n}": IDLE for n in range(100)}, {})

        assert len(told) == 6
        assert told[-1] == "95 more machines that are told differently"


class TestOwners:
    def test_one_owner_that_knows_it_breaks_nothing(self) -> None:
        assert owned_twice({"m": SERVES_A, "n": IDLE}, {A: {"m"}, B: set()}) == []

    def test_a_machine_that_two_clusters_believe_in_is_told(self) -> None:
        assert owned_twice({"m": SERVES_A}, {A: {"m"}, B: {"m"}}) == [
            "machine m serves a and is believed by a, b"
        ]

    def test_a_machine_that_the_wrong_cluster_believes_in_is_told(self) -> None:
        assert owned_twice({"m": SERVES_A}, {B: {"m"}}) == [
            "machine m serves a and is believed by b"
        ]

    def test_a_machine_that_serves_and_nobody_knows_of_is_told(self) -> None:
        assert owned_twice({"m": SERVES_A}, {A: set()}) == [
            "machine m serves a and is believed by nobody"
        ]

    def test_a_machine_that_does_not_serve_and_is_believed_in_is_told(self) -> None:
        assert owned_twice({"m": IDLE}, {A: {"m"}}) == [
            "machine m serves nobody and is believed by a"
        ]


class TestDrains:
    def test_a_drain_for_every_unit_that_went_away_is_allowed_and_one_more_is_not(self) -> None:
        assert drained_without_cause({A_LARGE: 3}, {A_LARGE: 3}, in_all=3) == []
        assert drained_without_cause({A_LARGE: 4}, {A_LARGE: 3, B_LARGE: 1}, in_all=4) == [
            "4 machines of type large were drained that served a, "
            "and only 3 units of that demand went away"
        ]

    def test_what_another_cluster_or_other_demand_gave_up_is_no_cause(self) -> None:
        causes = {B_LARGE: 9, Share("a", "small"): 9}

        assert drained_without_cause({A_LARGE: 1}, causes, in_all=1) == [
            "1 machines of type large were drained that served a, "
            "and only 0 units of that demand went away"
        ]

    def test_what_nobody_saw_is_held_against_all_that_went_away(self) -> None:
        assert drained_without_cause({A_LARGE: 1}, {A_LARGE: 3}, in_all=3) == []
        assert drained_without_cause({A_LARGE: 1}, {A_LARGE: 3}, in_all=4) == [
            "4 serving machines were drained, and only 3 units went away"
        ]

    def test_a_drain_is_seen_while_it_lasts_and_by_what_follows_it_and_only_once(self) -> None:
        draining, next_door = Held(State.DRAINING, "a"), Held(State.CONFIGURED, "b")

        for after in (draining, IDLE, next_door, Held(State.FAILED, "a")):
            assert was_drained(SERVES_A, after)
        assert was_drained(Held(State.CONFIGURING, "a"), draining)
        assert was_drained(None, draining)
        for before, after in [
            (SERVES_A, SERVES_A), (draining, draining), (draining, IDLE), (IDLE, SERVES_A),
            (Held(State.CONFIGURING, "a"), IDLE), (None, SERVES_A),
        ]:  # fmt: skip
            assert not was_drained(before, after)

    def test_while_nobody_asks_for_less_not_one_is_allowed(self) -> None:
        book = {"m": SERVES_A, "n": IDLE}

        assert taken_away(0, book, {"m": SERVES_A, "n": SERVES_A}) == []
        assert taken_away(1, book, book) == [
            "1 serving machines were drained while nobody asked for less"
        ]

    def test_while_nobody_asks_for_less_a_machine_that_serves_goes_on_serving_the_same(
        self,
    ) -> None:
        book = {"l": SERVES_A, "m": SERVES_A, "n": SERVES_A, "o": IDLE}

        assert taken_away(0, book, {"l": IDLE, "m": Held(State.CONFIGURED, "b")}) == [
            "machine l served a and is Idle: nobody asked for less",
            "machine m served a and is Configured for b: nobody asked for less",
            "machine n served a and is unknown: nobody asked for less",
        ]

    def test_units_that_went_away_are_counted_and_new_ones_do_not_make_up_for_them(self) -> None:
        more, less = rows(SPEC, 1.0), rows(SPEC, 0.5)

        assert withdrawn(less, more).total() == 0
        assert withdrawn(more, less).total() == sum(map(units, more)) - sum(map(units, less))
        assert withdrawn(more, ()).total() == sum(map(units, more)) > 90
        assert withdrawn(more[:1], more[1:]).total() == units(more[0])

    def test_where_a_need_is_for_one_type_of_machine_they_are_counted_by_type(self) -> None:
        exact = dataclasses.replace(SPEC, exact=True)

        assert withdrawn(rows(exact, 1.0), rows(exact, 0.5)) == {
            "m5.xlarge": 25, "c5.2xlarge": 15, "g4dn.xlarge": 5, "m6i.2xlarge": 4
        }  # fmt: skip


def test_a_start_that_takes_too_long_is_told() -> None:
    assert late([1.0, 5.0], 5.0) == []
    assert late([1.0, 5.1], 5.0) == ["start 1 took 5.1 s to its first decision (at most 5 s)"]


def test_a_machine_that_two_believe_in_at_once_is_told() -> None:
    assert shared({A: {"m"}, B: {"n"}}) == []
    assert shared({A: {"m"}, B: {"m", "n"}}) == ["machine m is believed by a and by b"]


class TestMemory:
    def test_what_serves_and_is_taken_for_it_or_is_drained_by_now_breaks_nothing(self) -> None:
        held = {"m": SERVES_A, "n": IDLE}
        assert forgotten(held, held, ()) == []
        assert forgotten(held, {"m": Held(State.DRAINING, "a")}, ()) == []

    def test_a_machine_that_was_touched_or_lost_meanwhile_may_be_told_in_any_way(self) -> None:
        held = {"m": SERVES_A}
        for told in ({}, {"m": IDLE}, {"m": Held(State.CONFIGURED, "b")}):
            assert forgotten(held, told, {"m"}) == []

    def test_a_machine_that_serves_and_that_the_new_shard_takes_for_anything_else_is_told(
        self,
    ) -> None:
        takes = "machine m serves a and the new shard takes it for "
        for told, what in [
            (Held(State.CONFIGURED, "b"), "b's"),
            (None, "one that is unknown"),
            (IDLE, "one that is Idle"),
            (Held(State.SPECULATIVE), "one that is Speculative"),
            (Held(State.CONFIGURING, "a"), "one that is Configuring for a"),
            (Held(State.DRAINING, "b"), "one that is Draining for b"),
        ]:
            book = {} if told is None else {"m": told}
            assert forgotten({"m": SERVES_A}, book, ()) == [takes + what]

    def test_a_life_that_takes_every_serving_machine_for_an_idle_one_is_told(self) -> None:
        held = {f"m-{number}": SERVES_A for number in range(100)}

        told = forgotten(held, dict.fromkeys(held, IDLE), ())

        assert len(told) == 6
        assert told[-1] == "95 more machines that were forgotten"


class TestRest:
    QUIET = Summary(stamp=Stamp(shard="soak"), connected=2, clusters=2, machines={"Configured": 4})

    def test_all_that_is_asked_for_is_met(self) -> None:
        assert unserved(0) == []
        assert unserved(2) == ["2 needs are not met, and there are machines for them"]

    def test_a_shard_is_at_rest_when_all_are_heard_and_served_and_nothing_moves(self) -> None:
        assert is_quiet(self.QUIET, 2)
        for change in (
            {"unmet": 1}, {"connected": 1}, {"clusters": 1}, {"planned": {"drain": 1}},
            {"queued": 1}, {"in_flight": 1}, {"machines": {"Draining": 1}},
        ):  # fmt: skip
            assert not is_quiet(dataclasses.replace(self.QUIET, **change), 2)

    def test_a_soak_that_asks_for_more_than_there_is_is_refused(self) -> None:
        with pytest.raises(Rejected, match="give at least 5 times as many machines, not 499"):
            SoakSpec(machines=499, clusters=5, demand=20)

        SoakSpec(machines=500, clusters=5, demand=20)


def test_as_many_serve_as_are_asked_for_and_what_their_echo_names() -> None:
    assert miscounted(5, 5, 5) == []
    assert miscounted(5, 6, 6) == ["6 machines serve, and 5 are asked for"]
    assert miscounted(5, 5, 3) == ["2 machines do not serve what their echo names"]
