"""Which hints are said."""

from collections.abc import Iterator

from typing_extensions import override

from builders import a_need_profile
from mainstay.engine.hints import Confidence, Hint
from mainstay.model.frames import CapacityHint, HintConfidence
from mainstay.model.ids import ClusterId
from mainstay.model.need import Operator, Requirement
from mainstay.shard.talk.hints import HintMemory, frame_of

WEB, BATCH = ClusterId("web"), ClusterId("batch")
BOTH = frozenset({WEB, BATCH})


def a_hint(cluster: ClusterId = WEB, count: int = 3, priority: int = 1, cost: float = 0.5) -> Hint:
    profile = a_need_profile(priority=priority)
    return Hint(cluster, profile, count, Confidence.HIGH if count else Confidence.NONE, cost)


def counts(due: list[tuple[ClusterId, CapacityHint]]) -> list[tuple[str, int]]:
    return [(cluster, frame.count) for cluster, frame in due]


def test_what_was_said_is_not_repeated() -> None:
    memory = HintMemory()

    assert counts(memory.due([a_hint()], BOTH, now_s=0)) == [(WEB, 3)]
    assert memory.due([a_hint()], BOTH, now_s=1000) == []


def test_a_change_of_count_confidence_or_cost_is_news() -> None:
    memory = HintMemory()
    for now_s, hint in enumerate((a_hint(), a_hint(count=4), a_hint(count=0), a_hint(cost=0.6))):
        assert len(memory.due([hint], BOTH, now_s=now_s * 5)) == 1


def test_news_is_said_at_most_every_five_seconds_and_then_the_newest() -> None:
    memory = HintMemory()
    memory.due([a_hint(count=1)], BOTH, now_s=0)

    assert memory.due([a_hint(count=2)], BOTH, now_s=4.9) == []
    assert counts(memory.due([a_hint(count=9)], BOTH, now_s=5.0)) == [(WEB, 9)]


def test_what_was_held_back_is_said_later_though_the_hints_are_the_same_object() -> None:
    memory = HintMemory()
    memory.due([a_hint(count=1)], BOTH, now_s=0)
    held = [a_hint(count=2)]

    assert memory.due(held, BOTH, now_s=1) == []
    assert counts(memory.due(held, BOTH, now_s=6)) == [(WEB, 2)]


def test_the_limit_is_per_cluster_and_fingerprint() -> None:
    memory = HintMemory()
    memory.due([a_hint(WEB, 1)], BOTH, now_s=0)

    due = memory.due([a_hint(WEB, 2), a_hint(BATCH, 2), a_hint(WEB, 7, priority=2)], BOTH, now_s=1)

    assert counts(due) == [(BATCH, 2), (WEB, 7)]


def test_a_cluster_that_is_not_connected_is_told_nothing_and_nothing_counts_as_said() -> None:
    memory = HintMemory()

    assert memory.due([a_hint()], frozenset(), now_s=0) == []
    memory.forget(WEB)
    assert counts(memory.due([a_hint()], BOTH, now_s=0)) == [(WEB, 3)]


def test_a_reconnect_gets_fresh_hints_while_others_see_no_repeat() -> None:
    memory = HintMemory()
    hints = [a_hint(WEB), a_hint(BATCH)]
    assert len(memory.due(hints, BOTH, now_s=0)) == 2

    memory.forget(WEB)

    assert counts(memory.due(hints, BOTH, now_s=1)) == [(WEB, 3)]


def test_the_same_hints_again_are_not_even_looked_at() -> None:
    class Once(list[Hint]):
        looked = 0

        @override
        def __iter__(self) -> Iterator[Hint]:
            self.looked += 1
            return super().__iter__()

    memory, hints = HintMemory(), Once([a_hint()])
    for now_s in range(3):
        memory.due(hints, BOTH, now_s=now_s)

    assert hints.looked == 1


class TestForgetting:
    def test_a_kind_of_need_that_comes_back_is_told_again(self) -> None:
        memory = HintMemory()
        memory.due([a_hint()], BOTH, now_s=0)
        memory.due([], BOTH, now_s=6)

        assert counts(memory.due([a_hint()], BOTH, now_s=7)) == [(WEB, 3)]

    def test_but_not_one_that_comes_and_goes_quickly(self) -> None:
        memory = HintMemory()
        memory.due([a_hint()], BOTH, now_s=0)
        memory.due([], BOTH, now_s=1)

        assert memory.due([a_hint()], BOTH, now_s=2) == []
        assert memory.due([a_hint(count=9)], BOTH, now_s=3) == []


def test_a_hint_tells_what_is_asked_for_how_much_there_is_and_how_sure_that_is() -> None:
    wanted = Requirement("arch", Operator.IN, ("arm64",))
    profile = a_need_profile(requirements=(wanted,))
    confidences = [
        frame_of(Hint(WEB, profile, 1, confidence, 0.25)).confidence for confidence in Confidence
    ]

    assert confidences == [HintConfidence.NONE, HintConfidence.MEDIUM, HintConfidence.HIGH]
    assert frame_of(Hint(WEB, profile, 7, Confidence.HIGH, 0.25)) == CapacityHint(
        fingerprint=profile.fingerprint,
        requirements=(wanted,),
        count=7,
        confidence=HintConfidence.HIGH,
        cost_per_hour=0.25,
    )
