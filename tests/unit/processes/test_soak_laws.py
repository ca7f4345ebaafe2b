"""The laws of a soak: each is quiet when it is kept, and names what breaks it."""

from mainstay.model.ids import ClusterId
from mainstay.model.state import State
from mainstay.processes.cluster_demand import DemandSpec, rows
from mainstay.processes.soak_laws import (
    Held,
    disagreements,
    drained_without_cause,
    forgotten,
    late,
    miscounted,
    owned_twice,
    shared,
    taken_away,
    units,
    withdrawn,
)

A, B = ClusterId("a"), ClusterId("b")
SERVES_A = Held(State.CONFIGURED, "a")
IDLE = Held(State.IDLE)
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
        assert drained_without_cause(3, 3) == []
        assert drained_without_cause(4, 3) == [
            "4 serving machines were drained, and only 3 units of demand went away"
        ]

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

        assert withdrawn(less, more) == 0
        assert withdrawn(more, less) == sum(map(units, more)) - sum(map(units, less))
        assert withdrawn(more, ()) == sum(map(units, more)) > 90
        assert withdrawn(more[:1], more[1:]) == units(more[0])


def test_a_start_that_takes_too_long_is_told() -> None:
    assert late([1.0, 5.0], 5.0) == []
    assert late([1.0, 5.1], 5.0) == ["start 1 took 5.1 s to its first decision (at most 5 s)"]


def test_a_machine_that_two_believe_in_at_once_is_told() -> None:
    assert shared({A: {"m"}, B: {"n"}}) == []
    assert shared({A: {"m"}, B: {"m", "n"}}) == ["machine m is believed by a and by b"]


class TestMemory:
    def test_a_machine_in_motion_may_be_told_differently(self) -> None:
        held = {"m": SERVES_A}
        assert forgotten(held, {"m": Held(State.DRAINING, "a")}, held) == []
        assert forgotten(held, {}, held) == []
        assert forgotten(held, held, held) == []

    def test_a_machine_that_serves_another_cluster_than_the_new_shard_believes_is_told(
        self,
    ) -> None:
        held = {"m": SERVES_A}
        assert forgotten(held, {"m": Held(State.CONFIGURED, "b")}, held) == [
            "machine m serves a and the new shard takes it for b's"
        ]


def test_as_many_serve_as_are_asked_for_and_what_their_echo_names() -> None:
    assert miscounted(5, 5, 5) == []
    assert miscounted(5, 6, 6) == ["6 machines serve, and 5 are asked for"]
    assert miscounted(5, 5, 3) == ["2 machines do not serve what their echo names"]
