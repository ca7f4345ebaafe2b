"""Whose first list after a start is waited for, and what is kept of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mainstay.runtime.clock import StepClock
from mainstay.shard.datadir import DataDir
from mainstay.shard.events import Event
from mainstay.shard.lists.awaited import Awaited, EverListed
from shard_hands import FakeJournal
from talking import at_once
from virtual_loop import run

SOURCES = ("east", "west")


class Life:
    """One life of a shard in a folder, as far as waiting goes."""

    def __init__(self, folder: Path, *, wait_s: float = 300.0) -> None:
        self.clock = StepClock(50.0)
        self.journal = FakeJournal()
        self.data = DataDir(folder)
        self.heard: list[frozenset[str] | None] = []
        self.ever = EverListed(
            SOURCES,
            self.data.listed,
            is_new=self.data.epoch == 1,
            journal=self.journal,
            aside=at_once,
            on_kept=lambda: self.heard.append(self.data.listed.value),
        )
        self.awaited = Awaited(self.ever, wait_s=wait_s, clock=self.clock, journal=self.journal)

    def save(self) -> None:
        run(self.ever.save())

    def end(self) -> None:
        self.save()
        self.data.close()


def a_life(folder: Path, *listed: str) -> None:
    life = Life(folder)
    for name in listed:
        life.awaited.listed(name)
    life.end()


def test_the_first_life_waits_for_nobody_and_the_next_for_whom_it_has_listed(
    tmp_path: Path,
) -> None:
    first = Life(tmp_path)
    assert first.awaited.names() == frozenset()
    first.awaited.listed("east")
    first.end()

    second = Life(tmp_path)

    assert second.awaited.names() == {"east"}
    assert "provider east since the start" in second.awaited.why()
    assert second.awaited.why().endswith("for 300 s at most")
    second.awaited.listed("east")
    assert (second.awaited.names(), second.awaited.why()) == (frozenset(), "")


def test_whoever_was_listed_in_any_life_is_remembered(tmp_path: Path) -> None:
    a_life(tmp_path, "east")
    a_life(tmp_path, "west")
    a_life(tmp_path)

    life = Life(tmp_path)

    assert life.awaited.names() == {"east", "west"}
    assert "providers east, west since" in life.awaited.why()


def test_one_that_is_no_longer_configured_is_not_waited_for(tmp_path: Path) -> None:
    a_life(tmp_path, "east", "north")

    assert Life(tmp_path).awaited.names() == {"east"}


def test_a_first_life_that_listed_nobody_leaves_nobody_to_wait_for(tmp_path: Path) -> None:
    a_life(tmp_path)

    assert Life(tmp_path).awaited.names() == frozenset()


def test_without_the_file_everybody_is_waited_for_until_all_were_listed(tmp_path: Path) -> None:
    a_life(tmp_path, "east")
    (tmp_path / "listed.json").unlink()
    a_life(tmp_path, "east")

    assert Life(tmp_path).awaited.names() == {"east", "west"}


def test_after_the_wait_they_are_given_up_and_told_once(tmp_path: Path) -> None:
    a_life(tmp_path, *SOURCES)
    life = Life(tmp_path)
    life.clock.advance(299.9)
    assert life.awaited.names() == {"east", "west"}
    assert life.journal.events == []

    life.clock.advance(0.1)

    assert life.awaited.why() == ""
    assert life.awaited.names() == frozenset()
    assert life.journal.reasons(Event.PROVIDER_NOT_AWAITED) == ["east", "west"]


def test_a_wait_of_zero_is_none(tmp_path: Path) -> None:
    a_life(tmp_path, *SOURCES)
    life = Life(tmp_path, wait_s=0.0)

    assert life.awaited.names() == frozenset()
    assert life.journal.events == []


def test_what_the_disk_does_not_take_is_tried_again_with_the_next_list(tmp_path: Path) -> None:
    life = Life(tmp_path)
    (tmp_path / "listed.json.new").mkdir()
    life.awaited.listed("east")
    assert life.ever.refused() == frozenset()
    life.save()
    assert len(life.journal.facts(Event.LISTED_NOT_SAVED)) == 1
    assert "east" in life.ever.refused()
    (tmp_path / "listed.json.new").rmdir()

    life.awaited.listed("east")
    life.save()
    assert life.ever.refused() == frozenset()
    life.end()

    assert Life(tmp_path).awaited.names() == {"east"}


@pytest.mark.parametrize("asks", [lambda ever: ever.unkept(), lambda ever: ever.is_kept("east")])
def test_whoever_asks_before_a_name_is_on_disk_hears_when_it_is(
    tmp_path: Path, asks: Callable[[EverListed], object]
) -> None:
    life = Life(tmp_path)
    life.save()
    life.awaited.listed("west")
    life.save()
    assert life.ever.is_kept("west")
    assert life.ever.unkept() == {"east"}
    life.awaited.listed("west")
    life.save()
    assert life.heard == []

    life.awaited.listed("east")
    asks(life.ever)
    (tmp_path / "listed.json.new").mkdir()
    life.save()
    assert life.heard == []
    (tmp_path / "listed.json.new").rmdir()
    life.save()

    assert life.ever.is_kept("east")
    assert life.heard == [frozenset(SOURCES)]
