"""Answers grow old, and say since when."""

import asyncio
import gc

from mainstay.dashboard.told import Answers, Patience, Told
from mainstay.model.errors import Rejected, Unavailable
from mainstay.runtime.clock import StepClock


class Asked:
    """A source that can be told how to behave."""

    def __init__(self) -> None:
        self.clock = StepClock(100.0)
        self.answers = Answers(self.clock, deadline_s=0.01)
        self.times = 0
        self.fails: Exception | None = None
        self.hangs = False

    def ask(self, key: str = "k", patience: Patience | None = None) -> Told[int]:
        return asyncio.run(self.answers.ask("shard-a", key, self.question, patience))

    async def question(self) -> int:
        self.times += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise self.fails
        return self.times


def test_an_answer_is_fresh_and_not_asked_for_again_at_once() -> None:
    asked = Asked()
    first = asked.ask()
    assert (first.value, first.at_s, first.is_stale) == (1, 100.0, False)
    assert asked.ask() is first
    asked.clock.advance(1.5)
    assert asked.ask().value == 2


def test_when_a_source_stops_its_last_answer_stays_and_says_since_when() -> None:
    asked = Asked()
    asked.ask()
    asked.fails = Unavailable("it does not answer")
    asked.clock.advance(10)
    old = asked.ask()
    assert (old.value, old.is_stale, old.since_s, old.error) == (
        1,
        True,
        100.0,
        "it does not answer",
    )
    asked.clock.advance(10)
    assert asked.ask().since_s == 100.0
    asked.fails = None
    asked.clock.advance(10)
    assert (asked.ask().is_stale, asked.ask().at_s) == (False, 130.0)


def test_one_that_never_answered_is_stale_since_it_was_first_asked() -> None:
    asked = Asked()
    asked.fails = Unavailable("no")
    assert asked.ask().since_s == 100.0
    asked.clock.advance(5)
    told = asked.ask()
    assert (told.value, told.since_s, told.is_stale) == (None, 100.0, True)


def test_one_that_hangs_is_waited_for_once_and_not_once_for_each_question() -> None:
    asked = Asked()
    asked.ask("a")
    asked.hangs = True
    asked.clock.advance(2)
    assert asked.ask("a").error == "no answer within 0.01 s"
    assert (asked.ask("b").is_stale, asked.times) == (True, 2)
    asked.hangs = False
    asked.clock.advance(2)
    assert asked.ask("b").value == 3


def test_a_no_is_an_answer_and_makes_nothing_stale() -> None:
    asked = Asked()
    asked.fails = Rejected("no such machine")
    told = asked.ask()
    assert (told.refused, told.is_stale, told.error) == (True, False, "no such machine")


def test_after_a_change_it_is_asked_anew_and_what_was_known_is_still_known() -> None:
    asked = Asked()
    asked.ask()
    asked.answers.forget("shard-a")
    asked.fails = Unavailable("gone")
    assert (asked.ask().value, asked.times) == (1, 2)


def test_what_is_dear_to_answer_is_kept_for_longer() -> None:
    asked = Asked()
    dear = Patience(deadline_s=1.0, fresh_s=30.0)
    asked.ask(patience=dear)
    asked.clock.advance(20)
    assert asked.ask(patience=dear).value == 1
    asked.clock.advance(20)
    assert asked.ask(patience=dear).value == 2


def test_what_may_take_long_and_does_makes_no_other_answer_old() -> None:
    asked = Asked()
    asked.ask("a")
    asked.hangs = True
    asked.clock.advance(2)
    assert asked.ask("what if", Patience(deadline_s=0.02)).error == "no answer within 0.02 s"
    asked.hangs = False
    assert asked.ask("a").value == 3


def test_nothing_is_left_of_questions_that_were_answered_or_given_up() -> None:
    asked = Asked()
    before = locks()
    for key in ("a", "a", "b"):
        asked.ask(key)
    asked.hangs = True
    asyncio.run(given_up(asked))
    assert locks() == before


async def given_up(asked: Asked) -> None:
    """Somebody asks, and goes away before there is an answer."""
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(asked.answers.ask("shard-a", "c", asked.question))
        await asyncio.sleep(0)
        asking.cancel()


def locks() -> int:
    """How many there are in this process."""
    gc.collect()
    return sum(isinstance(each, asyncio.Lock) for each in gc.get_objects())
