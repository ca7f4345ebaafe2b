"""Providers that leave calls unanswered: when nothing is begun through one, and for how long."""

import math

from mainstay.model.calls import ConfigureRequest, CreateRequest, DrainRequest, Mutation
from mainstay.model.ids import ClusterId, MachineId
from mainstay.runtime.clock import StepClock
from mainstay.shard.events import Event
from mainstay.shard.hands.unanswered import Unanswered
from shard_hands import FakeJournal

METAL = "metal"
CALL_S = 30.0


def configure(machine: str) -> Mutation:
    return ConfigureRequest(MachineId(machine), ClusterId("web"), b"join")


def create(machine: str) -> Mutation:
    return CreateRequest(MachineId(machine))


def drain(machine: str) -> Mutation:
    return DrainRequest(MachineId(machine), 30)


class World:
    """One provider, whose last list came when it is said."""

    def __init__(self, *, lists: bool) -> None:
        self.clock = StepClock()
        self.journal = FakeJournal()
        self.lists = lists
        self.changes = 0
        self.unanswered = Unanswered(
            self.clock, self.journal, lambda _: self._listed_at_s(), on_change=self._changed
        )

    def _listed_at_s(self) -> float:
        return self.clock.elapsed_s() if self.lists else -math.inf

    def _changed(self) -> None:
        self.changes += 1

    def in_vain(self, *requests: Mutation) -> None:
        """These calls, beside each other."""
        began_s = self.clock.elapsed_s()
        self.clock.advance(CALL_S)
        for each in requests:
            self.unanswered.gave_up(METAL, each, began_s, "no answer")

    def barred(self) -> bool:
        return METAL in self.unanswered.barred()

    def pause_s(self) -> float:
        """For how long it is barred from now on."""
        began_s = self.clock.elapsed_s()
        while self.barred():
            self.clock.advance(1.0)
        return self.clock.elapsed_s() - began_s


class TestSilence:
    def test_one_call_is_enough_where_nothing_was_heard_meanwhile(self) -> None:
        for request in (configure("m-1"), create("m-1"), drain("m-1")):
            w = World(lists=False)
            w.in_vain(request)
            assert w.barred()
            assert w.changes == 1
            assert "m-1: no answer" in w.unanswered.why_not(METAL)
            w.clock.advance(10_000)
            assert w.barred()

    def test_whatever_is_answered_ends_it(self) -> None:
        w = World(lists=False)
        w.in_vain(configure("m-1"))
        w.unanswered.answered(METAL)
        assert not w.barred()
        assert w.changes == 2

        w.clock.advance(1)
        w.in_vain(drain("m-2"))
        assert w.barred()
        w.clock.advance(1)
        w.lists = True
        assert not w.barred()

    def test_each_is_told_once(self) -> None:
        w = World(lists=False)
        w.in_vain(*map(configure, ("m-1", "m-2", "m-3")))
        assert w.journal.reasons(Event.PROVIDER_BARRED) == [METAL]

    def test_others_are_not_concerned(self) -> None:
        w = World(lists=False)
        w.in_vain(configure("m-1"))
        assert w.unanswered.barred() == {METAL}
        assert w.unanswered.why_not("other") == ""


class TestInARow:
    def test_one_machine_may_be_a_bad_one_however_often(self) -> None:
        w = World(lists=True)
        for _ in range(5):
            w.in_vain(configure("m-1"))
            assert not w.barred()

    def test_a_second_one_bars_its_provider_for_a_pause(self) -> None:
        w = World(lists=True)
        w.in_vain(configure("m-1"))
        w.in_vain(configure("m-2"))
        assert w.pause_s() == 10
        assert w.changes == 1

    def test_pauses_double_to_five_minutes_as_further_machines_are_tried_in_vain(self) -> None:
        w = World(lists=True)
        w.in_vain(configure("m-0"))
        told = []
        for number in range(1, 9):
            w.in_vain(configure(f"m-{number}"))
            told.append(w.pause_s())
        assert told == [10, 20, 40, 80, 160, 300, 300, 300]

    def test_the_same_machines_again_make_no_pause_longer(self) -> None:
        w = World(lists=True)
        w.in_vain(configure("m-1"), configure("m-2"))
        told = [w.pause_s()]
        for machine in ("m-1", "m-2", "m-1"):
            w.in_vain(configure(machine))
            told.append(w.pause_s())
        assert told == [10, 10, 10, 10]

    def test_those_that_were_under_way_together_count_once(self) -> None:
        w = World(lists=True)
        w.in_vain(*(configure(f"m-{number}") for number in range(30)))
        assert w.pause_s() == 10
        w.in_vain(configure("m-99"))
        assert w.pause_s() == 20

    def test_after_a_pause_one_call_at_a_time_until_one_is_answered(self) -> None:
        w = World(lists=True)
        w.in_vain(configure("m-1"), configure("m-2"))
        w.pause_s()
        with w.unanswered.calling(METAL, ConfigureRequest):
            assert w.barred()
            w.unanswered.answered(METAL, ConfigureRequest)
            assert not w.barred()
        with w.unanswered.calling(METAL, ConfigureRequest):
            assert not w.barred()

    def test_an_answer_to_the_same_call_begins_anew_and_one_to_another_does_not(self) -> None:
        w = World(lists=True)
        w.in_vain(configure("m-1"))
        w.unanswered.answered(METAL, CreateRequest)
        w.in_vain(configure("m-2"))
        assert w.barred()
        w.unanswered.answered(METAL, ConfigureRequest)
        assert not w.barred()
        w.in_vain(configure("m-3"))
        assert not w.barred()

    def test_whoever_cannot_drain_may_still_serve(self) -> None:
        w = World(lists=True)
        w.in_vain(*map(drain, ("m-1", "m-2", "m-3")))
        assert not w.barred()
