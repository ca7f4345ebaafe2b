"""Which roll-ups are believed, what opens the gate, and what a decision is given."""

from typing import Final

import pytest

from builders import a_need, a_need_profile
from mainstay.engine.barred import NOTHING_BARRED, Barred
from mainstay.engine.decide import decide
from mainstay.engine.plan import Memory
from mainstay.engine.policy import Policy
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.inventory.inventory import Inventory
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.runtime.clock import StepClock
from mainstay.shard.demand import Applied, Believed, DemandBook, HeldRollup
from mainstay.shard.events import Event
from mainstay.shard.quarantine import QuarantineRule, Suspicion
from noticing import NoticingJournal

WEB: Final = ClusterId("web")
BATCH: Final = ClusterId("batch")
METAL: Final = Barred(sources=frozenset({"metal"}))

ROLLUP_EVERY_S: Final = 10.0
ACCEPTED, UNCHANGED, HELD = Applied.ACCEPTED, Applied.UNCHANGED, Applied.HELD


def rows(count: int, cluster: ClusterId = WEB, **amounts: int) -> list[Need]:
    return [
        a_need(cluster=cluster, aggregate=amounts or {"cpu": 1000}, group=f"g-{number}")
        for number in range(count)
    ]


def taken(book: DemandBook, cluster: ClusterId, needs: list[Need]) -> Applied:
    """What becomes of a roll-up that is judged at once."""
    applied = book.take(book.standing(cluster).verdict(needs))
    assert applied is not None
    return applied


class Book:
    """A book with what stands around it."""

    def __init__(self, rule: QuarantineRule | None = None) -> None:
        self.clock = StepClock(100.0)
        self.journal = NoticingJournal()
        self.book = DemandBook(self.clock, self.journal, rule or QuarantineRule())

    def told(self, *counts: int) -> list[Applied]:
        """At the pace at which clusters roll up."""
        return [self.applied(rows(count)) for count in counts]

    def applied(self, needs: list[Need], *, after_s: float = ROLLUP_EVERY_S) -> Applied:
        self.clock.advance(after_s)
        return taken(self.book, WEB, needs)

    @property
    def rows(self) -> int:
        return len(self.book.of_cluster(WEB))


@pytest.fixture
def world() -> Book:
    return Book()


class TestS66Quarantine:
    def test_s66_an_empty_roll_up_is_held_twice_and_believed_the_third_time(
        self, world: Book
    ) -> None:
        assert world.told(20, 0, 0) == [ACCEPTED, HELD, HELD]
        assert world.rows == 20
        assert world.book.heard == {WEB}
        assert world.told(0) == [ACCEPTED]
        assert world.rows == 0

    def test_s66_one_that_asks_for_enough_is_accepted_and_the_count_begins_anew(
        self, world: Book
    ) -> None:
        assert world.told(20, 0, 18) == [ACCEPTED, HELD, ACCEPTED]
        assert world.rows == 18
        assert world.told(0, 0, 0) == [HELD, HELD, ACCEPTED]

    def test_s66_demand_of_nine_rows_may_go_at_once(self, world: Book) -> None:
        assert world.told(9, 0) == [ACCEPTED, ACCEPTED]
        assert world.rows == 0

    def test_s66_demand_that_shrinks_step_by_step_is_never_held(self, world: Book) -> None:
        assert world.told(40, 20, 8, 0) == [ACCEPTED] * 4

    def test_s66_the_first_roll_up_is_accepted_even_when_it_is_empty(self, world: Book) -> None:
        """And it opens the gate, so it is worth a cycle although nothing is asked for."""
        assert world.told(0) == [ACCEPTED]
        assert world.book.heard == {WEB}

    def test_s66_exactly_a_tenth_is_accepted_and_less_is_held(self, world: Book) -> None:
        assert world.told(20, 2) == [ACCEPTED, ACCEPTED]
        assert Book().told(20, 1) == [ACCEPTED, HELD]


class TestQuarantine:
    def test_the_same_again_ends_the_wait_too(self, world: Book) -> None:
        assert world.told(20, 0, 0, 20, 0, 0) == [ACCEPTED, HELD, HELD, UNCHANGED, HELD, HELD]

    def test_rows_without_their_amounts_are_held_like_no_rows(self, world: Book) -> None:
        answers = [world.applied(rows(20, cpu=cpu)) for cpu in (1000, 99, 99, 99, 1000)]

        assert answers == [ACCEPTED, HELD, HELD, ACCEPTED, ACCEPTED]

    def test_what_they_are_compared_with_does_not_move_while_they_are_held(
        self, world: Book
    ) -> None:
        assert world.told(100, 9, 0, 9) == [ACCEPTED, HELD, HELD, ACCEPTED]

    def test_one_cluster_waits_for_itself_alone(self, world: Book) -> None:
        world.told(20, 0, 0)

        assert taken(world.book, BATCH, rows(20, BATCH)) is ACCEPTED
        assert taken(world.book, BATCH, []) is HELD
        assert world.told(0) == [ACCEPTED]

    def test_what_is_held_is_told_and_shown_until_it_ends(self, world: Book) -> None:
        world.told(20, 0, 1)

        assert world.book.held == {
            WEB: HeldRollup(
                suspicion=Suspicion.ROWS,
                in_a_row=2,
                rows=1,
                rows_believed=20,
                since_s=120.0,
                counted_at_s=130.0,
            )
        }
        told = world.journal.of(Event.ROLLUP_HELD)
        assert [(each.reason, each.facts["cluster"]) for each in told] == [("rows", WEB)] * 2
        assert [each.facts["in_a_row"] for each in told] == [1, 2]

        world.told(0)
        assert world.book.held == {}

    def test_one_that_comes_too_soon_after_the_last_that_counted_does_not_count(
        self, world: Book
    ) -> None:
        assert world.told(20, 0) == [ACCEPTED, HELD]
        assert [world.applied([], after_s=1.0) for _ in range(4)] == [HELD] * 4
        assert len(world.journal.of(Event.ROLLUP_HELD)) == 1
        assert world.applied([], after_s=1.0) is HELD
        assert world.applied([], after_s=5.0) is ACCEPTED

    def test_it_can_be_switched_off(self) -> None:
        assert Book(QuarantineRule(enabled=False)).told(20, 0) == [ACCEPTED, ACCEPTED]

    def test_a_new_process_has_nothing_to_compare_with(self, world: Book) -> None:
        world.told(20)

        assert Book().told(0) == [ACCEPTED]


class TestApply:
    def test_the_same_demand_told_later_is_unchanged(self, world: Book) -> None:
        first = [a_need(cluster=WEB, arrival_nanos=1)]
        later = [a_need(cluster=WEB, arrival_nanos=2)]

        assert [taken(world.book, WEB, each) for each in (first, later)] == [ACCEPTED, UNCHANGED]
        assert world.book.of_cluster(WEB) == tuple(first)

    def test_a_second_empty_roll_up_is_unchanged(self, world: Book) -> None:
        assert world.told(0, 0) == [ACCEPTED, UNCHANGED]

    def test_a_refused_roll_up_opens_no_gate_and_changes_nothing(self, world: Book) -> None:
        before = world.book.snapshot()

        with pytest.raises(Rejected, match="names cluster batch"):
            taken(world.book, WEB, rows(3, BATCH))

        assert world.book.heard == frozenset()
        assert world.book.snapshot() is before

    def test_silence_keeps_what_was_asked_for(self, world: Book) -> None:
        world.told(3)
        world.clock.advance(10**6)

        assert len(world.book.snapshot().needs) == 3
        assert world.book.snapshot().heard == {WEB}


class TestJudgedBeside:
    """Between what a roll-up is judged by and its taking in, others may have been taken in."""

    @pytest.mark.parametrize("count", [7, 0])
    def test_one_that_was_judged_by_what_is_no_longer_so_is_not_taken_in(
        self, world: Book, count: int
    ) -> None:
        """Whether the other was believed or held."""
        world.told(20)
        late = world.book.standing(WEB).verdict(rows(15))
        world.told(count)
        before, held = world.book.snapshot(), dict(world.book.held)

        assert world.book.take(late) is None

        assert world.book.snapshot() is before
        assert world.book.held == held
        assert world.told(15) == [ACCEPTED]

    def test_of_two_that_are_held_at_the_same_time_only_one_counts(self, world: Book) -> None:
        world.told(20)
        first, second = [world.book.standing(WEB).verdict([]) for _ in range(2)]

        assert [world.book.take(each) for each in (first, second)] == [HELD, None]
        assert world.book.held[WEB].in_a_row == 1

    def test_roll_ups_of_different_clusters_do_not_disturb_each_other(self, world: Book) -> None:
        verdict = world.book.standing(WEB).verdict(rows(3))
        taken(world.book, BATCH, rows(2, BATCH))

        assert world.book.take(verdict) is ACCEPTED

    def test_taking_in_keeps_the_very_rows_that_were_made_beside(self, world: Book) -> None:
        """So nothing of it grows with their number."""
        verdict = world.book.standing(WEB).verdict(rows(3))
        assert isinstance(verdict.outcome, Believed)

        world.book.take(verdict)

        assert world.book.of_cluster(WEB) is verdict.outcome.rows

    def test_to_say_again_what_is_believed_ends_a_wait_and_is_a_new_sighting(
        self, world: Book
    ) -> None:
        world.told(20, 0)
        kind = world.book.of_cluster(WEB)[0].profile.fingerprint
        world.book.latency.configured(WEB, kind)
        before = world.book.snapshot()

        assert world.book.take(world.book.standing(WEB).again()) is UNCHANGED

        assert world.book.held == {}
        assert world.book.snapshot() is before
        assert world.book.latency.configured(WEB, kind) == 0


class TestSnapshot:
    def test_it_is_the_same_object_while_nothing_has_changed(self, world: Book) -> None:
        world.told(3)
        first = world.book.snapshot(Quota({WEB: 1}, {}), METAL)

        world.told(3)

        assert world.book.snapshot(Quota({WEB: 1}, {}), METAL) is first

    def test_a_held_roll_up_changes_nothing_of_it(self, world: Book) -> None:
        """So nothing is decided anew because of it."""
        world.told(20)
        first = world.book.snapshot()

        world.told(0)

        assert world.book.snapshot() is first

    @pytest.mark.parametrize(
        ("quota", "barred"), [(Quota({WEB: 1}, {}), NOTHING_BARRED), (NO_QUOTA, METAL)]
    )
    def test_another_quota_or_bar_is_another_demand(
        self, world: Book, quota: Quota, barred: Barred
    ) -> None:
        world.told(3)
        before = world.book.snapshot()

        after = world.book.snapshot(quota, barred)

        assert after is not before
        assert (after.needs, after.quota, after.barred) == (before.needs, quota, barred)

    def test_a_cluster_that_is_heard_for_the_first_time_is_another_demand(
        self, world: Book
    ) -> None:
        world.told(3)
        before = world.book.snapshot()

        taken(world.book, BATCH, [])

        assert world.book.snapshot().heard == {WEB, BATCH}
        assert before.heard == {WEB}

    def test_the_columns_of_the_same_needs_are_made_once(self, world: Book) -> None:
        """Else every breaker that opens would cost a walk over all needs."""
        world.told(3)
        columns = world.book.snapshot().asked

        assert world.book.snapshot(barred=METAL).asked is columns
        world.told(4)
        assert world.book.snapshot(barred=METAL).asked is not columns

    def test_a_decision_takes_it(self, world: Book) -> None:
        world.told(1)

        plan = decide(Inventory().snapshot(), world.book.snapshot(), Memory.empty(), Policy(), 0.0)

        assert len(plan.unsatisfied) == 1


class TestLatency:
    def test_demand_waits_from_its_first_believed_roll_up(self, world: Book) -> None:
        profile = a_need_profile(priority=7)
        taken(world.book, WEB, [a_need(cluster=WEB, profile=profile)])
        world.clock.advance(12)

        assert world.book.latency.configured(WEB, profile.fingerprint) == 12

    def test_a_held_roll_up_neither_begins_nor_ends_a_wait(self, world: Book) -> None:
        world.told(20)
        other = a_need(cluster=WEB, profile=a_need_profile(priority=7))
        world.clock.advance(5)

        assert taken(world.book, WEB, [other]) is HELD

        assert world.book.latency.configured(WEB, other.profile.fingerprint) is None
        known = world.book.of_cluster(WEB)[0].profile.fingerprint
        assert world.book.latency.configured(WEB, known) == 5

    def test_a_roll_up_that_says_the_same_is_a_new_sighting_of_what_was_served(
        self, world: Book
    ) -> None:
        world.told(1)
        kind = world.book.of_cluster(WEB)[0].profile.fingerprint
        world.book.latency.configured(WEB, kind)
        world.clock.advance(60)

        assert world.told(1) == [UNCHANGED]
        world.clock.advance(3)

        assert world.book.latency.configured(WEB, kind) == 3
