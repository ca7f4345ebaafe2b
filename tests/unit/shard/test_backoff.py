"""Clusters that could not be asked are left alone: 1 s, doubling to 60 s, until one succeeds."""

from mainstay.model.ids import ClusterId
from mainstay.runtime.clock import StepClock
from mainstay.shard.hands.backoff import BackOff
from shard_hands import WEB

BATCH = ClusterId("batch")


def pauses(backoff: BackOff, clock: StepClock, times: int) -> list[float]:
    """How long each pause lasts when every try after one fails."""
    lengths = []
    for _ in range(times):
        backoff.failed(WEB)
        began = clock.elapsed_s()
        while WEB in backoff.backed_off(clock.elapsed_s()):
            clock.advance(0.5)
        lengths.append(clock.elapsed_s() - began)
    return lengths


class TestBackOff:
    def test_pauses_double_to_a_minute(self) -> None:
        clock = StepClock()

        assert pauses(BackOff(clock), clock, 8) == [1, 2, 4, 8, 16, 32, 60, 60]

    def test_a_success_begins_anew(self) -> None:
        clock = StepClock()
        backoff = BackOff(clock)
        pauses(backoff, clock, 4)
        backoff.failed(WEB)
        backoff.succeeded(WEB)

        assert backoff.backed_off(clock.elapsed_s()) == frozenset()
        assert pauses(backoff, clock, 2) == [1, 2]

    def test_many_failures_at_once_count_as_one(self) -> None:
        clock = StepClock()
        backoff = BackOff(clock)
        for _ in range(32):
            backoff.failed(WEB)

        assert backoff.backed_off(0.999) == {WEB}
        assert backoff.backed_off(1.0) == frozenset()

    def test_each_cluster_has_its_own(self) -> None:
        backoff = BackOff(StepClock())
        backoff.failed(WEB)

        assert BATCH not in backoff.backed_off(0.0)
        assert backoff.backed_off(0.0) == {WEB}

    def test_after_a_pause_one_asks_and_the_others_wait_for_its_answer(self) -> None:
        clock = StepClock()
        backoff = BackOff(clock)
        with backoff.asking(WEB):
            assert not backoff.is_backed_off(WEB, 0.0)
        backoff.failed(WEB)
        clock.advance(1.0)
        assert not backoff.is_backed_off(WEB, clock.elapsed_s())
        with backoff.asking(WEB):
            assert backoff.backed_off(clock.elapsed_s()) == {WEB}
            assert not backoff.is_backed_off(BATCH, clock.elapsed_s())
            backoff.succeeded(WEB)
            assert not backoff.is_backed_off(WEB, clock.elapsed_s())

    def test_a_cluster_that_connects_anew_is_asked_at_once_but_one_question_only(self) -> None:
        clock = StepClock()
        backoff = BackOff(clock)
        pauses(backoff, clock, 5)
        backoff.failed(WEB)
        assert backoff.is_backed_off(WEB, clock.elapsed_s())

        assert backoff.connected(WEB)

        assert backoff.backed_off(clock.elapsed_s()) == frozenset()
        with backoff.asking(WEB):
            assert backoff.backed_off(clock.elapsed_s()) == {WEB}

    def test_one_that_only_connects_and_never_answers_is_left_alone_for_longer_each_time(
        self,
    ) -> None:
        clock = StepClock()
        backoff = BackOff(clock)
        lengths = []
        for _ in range(4):
            lengths += pauses(backoff, clock, 1)
            backoff.failed(WEB)
            backoff.connected(WEB)

        assert lengths == [1, 4, 16, 60]

    def test_connecting_is_no_news_of_one_that_was_not_left_alone(self) -> None:
        assert not BackOff(StepClock()).connected(WEB)

    def test_a_cluster_has_only_so_many_questions_at_a_time(self) -> None:
        backoff = BackOff(StepClock(), questions_max=2)
        with backoff.asking(WEB):
            assert not backoff.is_backed_off(WEB, 0.0)
            with backoff.asking(WEB):
                assert backoff.backed_off(0.0) == {WEB}
                assert not backoff.is_backed_off(BATCH, 0.0)
            assert backoff.backed_off(0.0) == frozenset()
