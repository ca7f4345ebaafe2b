"""The circuit breaker: five bad machines, a fifth of all there or half of the steps, in 300 s."""

import pytest

from builders import a_machine, a_profile
from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, CapacityType
from mainstay.model.state import State
from mainstay.runtime.clock import StepClock
from mainstay.shard.events import Event
from mainstay.shard.hands.breaker import RACK_KEY, BreakerOptions, Breakers
from shard_hands import FakeJournal

RACK = (RACK_KEY, "r1")
ZONE = (ZONE_KEY, "zone-a")
TYPE = (INSTANCE_TYPE_KEY, "m5.2xlarge")


class Bench:
    """Breakers over a fleet of so many machines, all of one rack, zone and type."""

    def __init__(self, machines: int = 100, quota: int = 0, **options: object) -> None:
        self.announced: set[MachineId] = set()
        self.clock = StepClock(1000.0)
        self.journal = FakeJournal()
        self.breakers = Breakers(
            self.clock,
            self.journal,
            BreakerOptions(**options),  # type: ignore[arg-type]
            self.announced,
        )
        inventory = Inventory()
        for at in range(machines):
            inventory.add(self.machine(at), now=0.0)
        for at in range(quota):
            profile = self.machine(at).profile
            inventory.add(a_machine(State.SPECULATIVE, id=f"q-{at}", profile=profile), now=0.0)
        self.breakers.look(inventory.snapshot())

    def machine(self, at: int) -> Machine:
        return a_machine(State.IDLE, id=f"m-{at}", profile=a_profile(labels={RACK_KEY: "r1"}))

    def fail(self, count: int, *, first: int = 0) -> None:
        for at in range(first, first + count):
            self.breakers.failed(self.machine(at), "metal")

    def lose(self, count: int, *, first: int = 0) -> None:
        for at in range(first, first + count):
            self.breakers.lost(self.machine(at), "metal")

    def succeed(self, count: int) -> None:
        for at in range(count):
            self.breakers.succeeded(self.machine(at), "metal")

    def barred(self) -> frozenset[tuple[str, str]]:
        return self.breakers.barred(self.clock.elapsed_s())


class TestOpening:
    @pytest.mark.parametrize(
        ("machines", "good", "bad", "opens"),
        [
            (10, 100, 4, False),
            (25, 100, 5, True),
            (26, 100, 5, False),
            (26, 100, 6, True),
            (1000, 5, 5, True),
            (1000, 6, 5, False),
            (1000, 6, 6, True),
            (1000, 0, 4, False),
            (1000, 0, 5, True),
        ],
    )
    def test_it_opens_at_five_failed_steps_that_are_a_fifth_of_all_or_half_of_those_that_ended(
        self, machines: int, good: int, bad: int, opens: bool
    ) -> None:
        bench = Bench(machines)
        bench.succeed(good)
        bench.fail(bad)

        assert bench.barred() == ({RACK, ZONE, TYPE} if opens else frozenset())

    def test_a_machine_that_fails_again_and_again_is_one_bad_machine(self) -> None:
        bench = Bench()
        for _ in range(20):
            bench.fail(4)

        assert bench.barred() == frozenset()

    @pytest.mark.parametrize(("wait_s", "opens"), [(299.0, True), (300.0, False)])
    def test_only_what_happened_within_300_seconds_counts(self, wait_s: float, opens: bool) -> None:
        bench = Bench(10)
        bench.fail(4)
        bench.clock.advance(wait_s)
        bench.fail(1, first=4)

        assert bool(bench.barred()) is opens

    def test_old_successes_do_not_count_either(self) -> None:
        bench = Bench(1000)
        bench.succeed(100)
        bench.clock.advance(300)
        bench.fail(5)

        assert bench.barred()

    def test_where_nobody_knows_how_many_there_are_only_the_ends_count(self) -> None:
        bench = Bench(0)
        bench.succeed(6)
        bench.fail(5)

        assert bench.barred() == frozenset()

    def test_each_rack_zone_and_type_has_its_own(self) -> None:
        bench = Bench(0)
        for at in range(5):
            profile = a_profile(
                zone=f"z-{at}", instance_type=f"t-{at % 2}", labels={RACK_KEY: "r7"}
            )
            bench.breakers.failed(a_machine(id=f"n-{at}", profile=profile), "metal")

        assert bench.barred() == {(RACK_KEY, "r7")}

    def test_a_machine_without_a_rack_counts_for_the_rest(self) -> None:
        bench = Bench(0)
        for at in range(5):
            bench.breakers.failed(a_machine(id=f"n-{at}"), "metal")

        assert bench.barred() == {ZONE, TYPE}

    def test_the_label_of_a_rack_can_be_chosen(self) -> None:
        bench = Bench(0, rack_key="rack")
        for at in range(5):
            profile = a_profile(zone="", instance_type=f"t-{at}", labels={"rack": "r9"})
            bench.breakers.failed(a_machine(id=f"n-{at}", profile=profile), "metal")

        assert bench.barred() == {("rack", "r9")}

    def test_people_are_told_once_for_each(self) -> None:
        bench = Bench(10)
        bench.fail(9)

        assert sorted(bench.journal.reasons(Event.BREAKER_OPENED)) == sorted(
            key for key, _ in (RACK, ZONE, TYPE)
        )
        assert {fact["value"] for fact in bench.journal.facts(Event.BREAKER_OPENED)} == {
            "r1", "zone-a", "m5.2xlarge",
        }  # fmt: skip


class TestLosses:
    """A machine that is lost while nothing is done to it is no step that failed (ADR-0056)."""

    @pytest.mark.parametrize(
        ("machines", "lost", "opens"),
        [
            (10, 4, False),
            (25, 5, True),
            (26, 5, False),
            (26, 6, True),
            (1000, 5, False),
            (20_000, 83, False),
            (400, 80, True),
        ],
    )
    def test_losses_open_at_five_that_are_a_fifth_of_all_and_only_then(
        self, machines: int, lost: int, opens: bool
    ) -> None:
        """Although nothing ends well in a quiet fleet."""
        bench = Bench(machines)
        bench.lose(lost)

        assert bench.barred() == ({RACK, ZONE, TYPE} if opens else frozenset())

    def test_however_much_ends_well_beside_them(self) -> None:
        bench = Bench(25)
        bench.succeed(1000)
        bench.lose(5)

        assert bench.barred()

    def test_losses_and_failed_steps_are_one_share_of_the_machines(self) -> None:
        bench = Bench(25)
        bench.succeed(20)
        bench.lose(3)
        bench.fail(2, first=3)

        assert bench.barred()

    def test_losses_are_no_share_of_the_steps(self) -> None:
        bench = Bench(1000)
        bench.succeed(5)
        bench.fail(4)
        bench.lose(50, first=4)

        assert bench.barred() == frozenset()

    def test_what_was_announced_counts_neither_as_a_loss_nor_as_a_failed_step(self) -> None:
        bench = Bench(25)
        bench.announced.update(bench.machine(at).id for at in range(20))
        bench.lose(10)
        bench.fail(10, first=10)
        assert bench.barred() == frozenset()

        bench.lose(5, first=20)
        assert bench.barred()

    def test_quota_is_no_machine_of_which_a_share_could_be_lost(self) -> None:
        bench = Bench(25, quota=1000)
        bench.lose(5)

        assert bench.barred()

    def test_where_nobody_knows_how_many_there_are_losses_open_nothing(self) -> None:
        bench = Bench(0)
        bench.lose(100)

        assert bench.barred() == frozenset()

    def test_losses_fall_out_of_the_window_like_failures(self) -> None:
        bench = Bench(25)
        bench.lose(4)
        bench.clock.advance(300)
        bench.lose(4, first=4)
        assert bench.barred() == frozenset()

        bench.lose(1, first=8)
        assert bench.barred()


class TestClosing:
    def open_for(self, bench: Bench) -> float:
        """How long it stays open after five more failures."""
        bench.fail(5)
        began = bench.clock.elapsed_s()
        while bench.barred():
            bench.clock.advance(1.0)
        return bench.clock.elapsed_s() - began

    def test_it_is_open_for_60_s_and_twice_as_long_each_time_up_to_900(self) -> None:
        bench = Bench(10)

        assert [self.open_for(bench) for _ in range(6)] == [60, 120, 240, 480, 900, 900]
        assert len(bench.journal.reasons(Event.BREAKER_CLOSED)) == 6 * 3

    @pytest.mark.parametrize(("quiet_s", "then_s"), [(299.0, 120.0), (300.0, 60.0)])
    def test_after_a_quiet_window_it_begins_anew(self, quiet_s: float, then_s: float) -> None:
        bench = Bench(10)
        self.open_for(bench)
        bench.clock.advance(quiet_s)

        assert self.open_for(bench) == then_s

    def test_once_closed_it_takes_five_new_failures(self) -> None:
        bench = Bench(10)
        self.open_for(bench)
        bench.fail(4)

        assert bench.barred() == frozenset()

    def test_what_opened_it_never_counts_again(self) -> None:
        bench = Bench(10)
        self.open_for(bench)
        bench.clock.advance(300.0)
        bench.fail(4, first=5)

        assert bench.barred() == frozenset()

    def test_what_ends_while_it_is_open_counts_neither_way(self) -> None:
        bench = Bench(10)
        bench.fail(5)
        bench.clock.advance(59.0)
        bench.fail(4)
        assert bench.barred()
        bench.clock.advance(1.0)
        bench.fail(1, first=9)

        assert bench.barred() == frozenset()

    def test_what_is_long_past_is_forgotten(self) -> None:
        bench = Bench(10)
        bench.fail(4)
        assert len(bench.breakers._breakers) == 3
        bench.clock.advance(300.0)
        bench.barred()

        assert bench.breakers._breakers == {}


class TestOffers:
    """A machine that never got its host says that an offer is sold out, and nothing of hardware."""

    def slot(self, at: int) -> Machine:
        return a_machine(State.FAILED, id=f"s-{at}", profile=a_profile(), host=None)

    def test_creates_that_fail_bar_their_offer_and_no_rack_zone_or_type(self) -> None:
        bench = Bench(1000)
        for at in range(5):
            bench.breakers.failed(self.slot(at), "cloud")

        assert bench.barred() == frozenset()
        [offer] = bench.breakers.offers(bench.clock.elapsed_s())
        assert offer == ("cloud", "m5.2xlarge", "zone-a", CapacityType.ON_DEMAND)

    def test_a_provider_that_says_so_is_believed_at_once(self) -> None:
        bench = Bench(1000)
        bench.breakers.sold_out(self.slot(1), "cloud")

        assert len(bench.breakers.offers(bench.clock.elapsed_s())) == 1
        assert [event for event, *_ in bench.journal.events] == [Event.BREAKER_OPENED]

    def test_said_again_after_a_while_it_is_barred_twice_as_long(self) -> None:
        bench = Bench(1000)
        for wait_s, still in ((60, False), (60, True), (60, False)):
            bench.breakers.sold_out(self.slot(1), "cloud")
            bench.clock.advance(wait_s)
            assert bool(bench.breakers.offers(bench.clock.elapsed_s())) is still
