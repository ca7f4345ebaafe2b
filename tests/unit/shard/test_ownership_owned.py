"""Which machines are a shard's to have."""

import pytest
from typing_extensions import override

from builders import a_profile
from mainstay.inventory.merge import Named
from mainstay.model.batch import Shape
from mainstay.model.coordination import (
    Domain,
    Handed,
    Outcome,
    QuotaKind,
    QuotaMoved,
    QuotaOf,
    Stray,
)
from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId, ShardId
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, Profile
from mainstay.model.resources import NO_RESOURCES
from mainstay.shard.ownership.document import decoded, encoded
from mainstay.shard.ownership.holdings import Adoption
from mainstay.shard.ownership.owned import (
    DONE_MAX,
    Done,
    Owned,
    Promise,
    assigned,
    configured,
    dropped,
    finished,
    given,
    heard,
    promised,
    retired,
    taken,
    unassigned,
    unpromised,
)

ZONE_A, ZONE_B = Domain(ZONE_KEY, "zone-a"), Domain(ZONE_KEY, "zone-b")
M_1, M_2 = MachineId("m-1"), MachineId("m-2")
ZONE_A_ONLY = Owned(domains=frozenset({ZONE_A}), assigned=True)


def shape(zone: str = "zone-a", **labels: str) -> Shape:
    return Shape(a_profile(zone=zone, labels=labels), NO_RESOURCES)


def stray(
    machine: MachineId = M_1, domain: Domain | None = ZONE_B, *, leaving: bool = False
) -> Stray:
    return Stray(machine, "metal", domain, leaving)


class TestDomains:
    def test_a_shard_that_never_was_assigned_a_domain_takes_everything(self) -> None:
        assert Owned().admits(shape())
        assert Owned().domains is None

    def test_a_shard_that_joins_others_takes_nothing_before_it_is_assigned_a_domain(self) -> None:
        joining = configured(Owned(), frozenset())

        assert not joining.admits(shape("zone-a"))
        assert assigned(joining, ZONE_A).admits(shape("zone-a"))

    def test_without_a_word_of_the_configuration_it_takes_everything(self) -> None:
        assert configured(Owned(), None).admits(shape("zone-a"))

    def test_a_shard_takes_what_any_of_its_domains_has(self) -> None:
        owned = configured(Owned(), {(ZONE_KEY, "zone-a"), ("pool", "gpu")})

        assert owned.admits(shape("zone-a"))
        assert owned.admits(shape("zone-b", pool="gpu"))
        assert not owned.admits(shape("zone-b", pool="cpu"))
        assert not owned.admits(shape("zone-b"))

    def test_among_many_domains_a_machine_is_looked_at_once_for_each_key(self) -> None:
        asked = []

        class Seen(Profile):
            @override
            def attribute(self, key: str) -> str | None:
                asked.append(key)
                return super().attribute(key)

        racks = frozenset(Domain("rack", f"r-{number}") for number in range(3_000))
        owned = Owned(domains=racks | {Domain("pool", "gpu")})
        assert not owned.holds(Seen("m5.2xlarge", labels=(("rack", "elsewhere"),)))
        assert sorted(asked) == ["pool", "rack"]
        asked.clear()
        held = Shape(Seen("m5.2xlarge", labels=(("rack", "r-2999"),)), NO_RESOURCES)
        assert Adoption(racks, Named()).admits(held)
        assert asked == ["rack"]

    def test_a_domain_may_be_an_instance_type(self) -> None:
        assert configured(Owned(), {(INSTANCE_TYPE_KEY, "m5.2xlarge")}).admits(shape())
        assert not configured(Owned(), {(INSTANCE_TYPE_KEY, "p5.48xlarge")}).admits(shape())

    def test_the_first_domain_narrows(self) -> None:
        owned = assigned(Owned(), ZONE_A)

        assert owned.admits(shape("zone-a"))
        assert not owned.admits(shape("zone-b"))

    def test_a_shard_that_loses_its_last_domain_takes_nothing_more(self) -> None:
        """It must not widen by itself: empty is nothing, and only never is everything."""
        owned = unassigned(ZONE_A_ONLY, ZONE_A)

        assert not owned.admits(shape("zone-a"))
        assert not configured(owned, {(ZONE_KEY, "zone-a")}).admits(shape("zone-a"))
        assert not decoded(encoded(owned)).admits(shape("zone-a"))

    def test_the_domains_of_the_configuration_count_until_one_is_assigned(self) -> None:
        first = configured(heard(Owned(), 7), {(ZONE_KEY, "zone-a")})
        again = decoded(encoded(first))

        assert first.domains == frozenset({ZONE_A})
        assert configured(again, {(ZONE_KEY, "zone-b")}).domains == frozenset({ZONE_B})
        assert again.term == 7
        assert configured(assigned(first, ZONE_B), set()).domains == frozenset({ZONE_A, ZONE_B})

    @pytest.mark.parametrize("domain", [("", "a"), ("zone", "")])
    def test_a_domain_needs_both_its_halves(self, domain: tuple[str, str]) -> None:
        with pytest.raises(Rejected, match="zone=a"):
            configured(Owned(), [domain])
        with pytest.raises(Rejected, match="zone=a"):
            assigned(Owned(), Domain(*domain))


class TestStrays:
    def test_what_others_have_of_a_domain_is_not_ours(self) -> None:
        owned = assigned(ZONE_A_ONLY, ZONE_B, away=[M_1])

        assert not owned.has(M_1, a_profile(zone="zone-b"))
        assert owned.has(M_2, a_profile(zone="zone-b"))

    def test_a_domain_that_is_assigned_again_comes_with_what_others_have_now(self) -> None:
        owned = assigned(assigned(ZONE_A_ONLY, ZONE_B, away=[M_1]), ZONE_B, away=[M_2])

        assert dict(owned.away) == {M_2: ZONE_B}

    def test_a_stray_whose_domain_becomes_ours_is_none_any_more(self) -> None:
        known = assigned(taken(ZONE_A_ONLY, [Handed(M_1, "metal", ZONE_B)]), ZONE_B)
        unknown = taken(ZONE_A_ONLY, [Handed(M_1, "metal", None)])

        assert known.here == {}
        assert known.has(M_1, a_profile(zone="zone-b"))
        assert assigned(unknown, ZONE_B, inside={M_1}).here == {}
        assert M_1 in assigned(unknown, ZONE_B).here

    def test_what_serves_stays_ours_when_its_domain_goes(self) -> None:
        owned = unassigned(ZONE_A_ONLY, ZONE_A, kept=[stray(domain=ZONE_A, leaving=True)])

        assert owned.has(M_1, a_profile(zone="zone-a"))
        assert not owned.has(M_2, a_profile(zone="zone-a"))

    def test_what_others_have_of_a_domain_is_forgotten_with_it(self) -> None:
        owned = assigned(ZONE_A_ONLY, ZONE_B, away=[M_1])

        assert unassigned(owned, ZONE_B).away == {}

    def test_a_machine_that_was_given_is_not_ours_and_comes_back_by_hand_only(self) -> None:
        there = given(ZONE_A_ONLY, [Handed(M_1, "metal", ZONE_A)])
        back = taken(there, [Handed(M_1, "metal", ZONE_A)])

        assert not there.has(M_1, a_profile(zone="zone-a"))
        assert back.has(M_1, a_profile(zone="zone-a"))
        assert back == ZONE_A_ONLY

    def test_a_shard_that_takes_everything_can_give_too(self) -> None:
        there = given(Owned(), [Handed(M_1, "metal", None)])

        assert not there.has(M_1, a_profile())
        assert not assigned(there, ZONE_A).has(M_1, a_profile(zone="zone-a"))
        assert taken(there, [Handed(M_1, "metal", None)]) == Owned()

    def test_a_stray_that_is_given_away_leaves_no_trace(self) -> None:
        owned = taken(ZONE_A_ONLY, [Handed(M_1, "metal", ZONE_B)])

        assert given(owned, [Handed(M_1, "metal", ZONE_B)]) == ZONE_A_ONLY

    def test_a_machine_from_elsewhere_is_ours_by_its_name(self) -> None:
        owned = taken(ZONE_A_ONLY, [Handed(M_1, "metal", ZONE_B)])

        assert dict(owned.here) == {M_1: stray()}
        assert owned.has(M_1, a_profile(zone="zone-b"))
        assert owned.domain_of(M_1, a_profile(zone="zone-c")) == ZONE_B
        assert not dropped(owned, {M_1}).has(M_1, a_profile(zone="zone-b"))

    def test_where_a_machine_lies_is_told_by_the_key_of_our_domains(self) -> None:
        assert ZONE_A_ONLY.domain_of(M_1, a_profile(zone="zone-b")) == ZONE_B
        assert Owned().domain_of(M_1, a_profile()) is None


class TestDone:
    def test_what_became_of_an_instruction_is_remembered_and_answered_again(self) -> None:
        done = Done(instruction="i-1", outcome=Outcome.REJECTED_INVALID, reason="no")
        owned = decoded(encoded(finished(Owned(), done)))

        answer = owned.answer_to("i-1")
        assert answer is not None
        assert (answer.ack.outcome, answer.ack.reason) == (Outcome.REJECTED_INVALID, "no")
        assert owned.answer_to("i-2") is None

    def test_the_oldest_are_forgotten(self) -> None:
        owned = Owned()
        for number in range(DONE_MAX + 3):
            owned = finished(owned, Done(instruction=f"i-{number}", outcome=Outcome.ACCEPTED))

        assert len(owned.done) == DONE_MAX
        assert owned.answer_to("i-2") is None
        assert owned.answer_to("i-3") is not None

    def test_a_promise_ends_with_its_instruction(self) -> None:
        promise = Promise(instruction="i-1", to=ShardId("b"), victims=(), priority=1, until_s=9.0)
        owned = promised(promised(Owned(), promise), promise)

        assert owned.promises == (promise,)
        done = Done(instruction="i-1", outcome=Outcome.ACCEPTED)
        assert finished(owned, done).promises == ()

    def test_a_term_only_grows(self) -> None:
        assert heard(heard(Owned(), 5), 3).term == 5

    def test_what_is_promised_for_others_goes_on_when_one_is_dropped(self) -> None:
        one, two = (
            Promise(instruction=name, to=ShardId("b"), victims=(), priority=1, until_s=9.0)
            for name in ("i-1", "i-2")
        )
        owned = promised(promised(Owned(), one), two)

        assert unpromised(owned, {"i-1"}).promises == (two,)


class TestFile:
    def test_everything_is_read_as_it_was_written(self) -> None:
        moved = QuotaMoved(QuotaOf(QuotaKind.PLACE, "metal", "eu"), 2)
        owned = given(
            taken(assigned(Owned(), ZONE_A, away=[M_1]), [Handed(MachineId("x"), "metal", ZONE_B)]),
            [Handed(M_2, "metal", ZONE_A)],
        )
        done = Done(instruction="i-1", outcome=Outcome.ACCEPTED, quota=(moved,))

        assert decoded(encoded(finished(owned, done))) == finished(owned, done)

    def test_one_of_an_older_version_is_read(self) -> None:
        """It names neither who reports what is away, nor quota that went, nor a configuration."""
        owned = decoded(
            {
                "domains": [list(ZONE_A)],
                "here": [],
                "away": [["m-1", list(ZONE_A)]],
                "term": 3,
                "done": [["i-1", 1, "", [["m-1", "metal", list(ZONE_A)]]]],
                "promises": [],
            }
        )

        assert dict(owned.away) == {M_1: ZONE_A}
        assert dict(owned.away_providers) == {}
        assert owned.configured is None
        assert owned.done[0].quota == ()

    @pytest.mark.parametrize(
        "done",
        [["i-1", 1, ""], ["i-1", 1, "", [], [], []], ["i-1", 1, "", [], [["x", "a", "", 1]]]],
    )
    def test_a_row_that_cannot_be_is_not_guessed(self, done: list[object]) -> None:
        document = encoded(Owned()) | {"done": [done]}

        with pytest.raises((TypeError, ValueError)):
            decoded(document)


class TestConfiguration:
    def test_a_domain_that_it_no_longer_names_is_ours_until_it_was_looked_at(self) -> None:
        before = configured(Owned(), {ZONE_A, ZONE_B}, keeps=True)
        after = configured(decoded(encoded(before)), {ZONE_A}, keeps=True)

        assert not before.retiring
        assert after.retiring == frozenset({ZONE_B})
        assert after.domains == frozenset({ZONE_A, ZONE_B})
        again = configured(decoded(encoded(after)), {ZONE_A}, keeps=True)
        assert again.retiring == after.retiring
        left = retired(after, ZONE_B, kept=[stray()])
        assert left.domains == frozenset({ZONE_A})
        assert not left.retiring
        assert not left.assigned
        assert left.here.keys() == {M_1}
        assert not configured(decoded(encoded(left)), {ZONE_A}, keeps=True).retiring

    def test_it_counts_at_once_where_nobody_would_ever_let_go_of_the_rest(self) -> None:
        before = configured(Owned(), {ZONE_A, ZONE_B}, keeps=True)

        assert configured(before, {ZONE_A}).domains == frozenset({ZONE_A})

    def test_what_is_named_again_is_not_let_go_of(self) -> None:
        before = configured(Owned(), {ZONE_A, ZONE_B}, keeps=True)
        without = configured(before, {ZONE_A}, keeps=True)

        assert configured(without, {ZONE_A, ZONE_B}, keeps=True).retiring == frozenset()
        assert configured(without, None, keeps=True).domains is None
