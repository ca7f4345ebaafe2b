"""How long demand waits, from the first roll-up that asks to the machine that serves."""

from typing import Final

from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.runtime.clock import StepClock
from mainstay.shard.latency import Latency

WEB: Final = ClusterId("web")
BATCH: Final = ClusterId("batch")
BIG: Final = Fingerprint("b" * 32)
SMALL: Final = Fingerprint("5" * 32)


def started() -> tuple[StepClock, Latency]:
    clock = StepClock(1000.0)
    return clock, Latency(clock)


def test_it_is_the_time_from_the_first_roll_up_not_from_the_last() -> None:
    clock, latency = started()
    latency.asked_for(WEB, {BIG})
    clock.advance(10)
    latency.asked_for(WEB, {BIG})
    clock.advance(5)

    assert latency.configured(WEB, BIG) == 15


def test_one_sighting_gives_one_sample() -> None:
    """Else every machine of a long-lived need would show the age of the need."""
    clock, latency = started()
    latency.asked_for(WEB, {BIG})
    clock.advance(10)

    assert latency.configured(WEB, BIG) == 10
    assert latency.configured(WEB, BIG) is None


def test_the_next_roll_up_that_still_asks_is_a_new_sighting() -> None:
    clock, latency = started()
    latency.asked_for(WEB, {BIG})
    latency.configured(WEB, BIG)
    clock.advance(100)
    latency.asked_for(WEB, {BIG})
    clock.advance(4)

    assert latency.configured(WEB, BIG) == 4


def test_what_is_no_longer_asked_for_is_forgotten() -> None:
    clock, latency = started()
    latency.asked_for(WEB, {BIG, SMALL})
    latency.asked_for(WEB, {SMALL})
    clock.advance(10)
    latency.asked_for(WEB, {BIG, SMALL})
    clock.advance(1)

    assert latency.configured(WEB, BIG) == 1
    assert latency.configured(WEB, SMALL) == 11


def test_each_cluster_waits_for_itself() -> None:
    clock, latency = started()
    latency.asked_for(WEB, {BIG})
    clock.advance(10)
    latency.asked_for(BATCH, {BIG})

    assert latency.configured(BATCH, BIG) == 0
    assert latency.configured(WEB, BIG) == 10


def test_a_machine_that_nobody_waits_for_gives_no_sample() -> None:
    _, latency = started()

    assert latency.configured(WEB, BIG) is None


def test_it_holds_no_more_than_what_is_asked_for() -> None:
    _, latency = started()
    latency.asked_for(WEB, {BIG, SMALL})
    assert len(latency) == 2

    latency.asked_for(WEB, set())

    assert len(latency) == 0
