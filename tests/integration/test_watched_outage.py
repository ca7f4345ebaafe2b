"""`--watch` sees its servers go and come back, on a terminal and in a pipe."""

import json
import os
import pty
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

import live_shard
import nursery
import outside
from mainstay.cli import exits
from nursery import Born
from running import read_until, until

PATIENCE_S: Final = 60.0
LISTS: Final = {
    ("get", "machines", "--limit", "1"): b"c-000",
    ("get", "clusters"): b"batch",
    ("get", "money"): b"(all)",
}
"""What is watched, and a word that only an answer has."""

Starts = Callable[[str], Born]


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Starts]:
    """Shards of this home, by name; all end with the test."""
    with ExitStack() as ends:

        def start(name: str) -> Born:
            process = live_shard.started(tmp_path, name)
            ends.callback(gone, process)
            return process

        yield start


def gone(process: Born) -> None:
    process.kill()
    process.wait()


def watching(home: Path, words: Sequence[str], outputs: tuple[int, int]) -> Born:
    environment = outside.environment(MAINSTAY_HOME=str(home))
    return nursery.start([*words, "--watch"], cwd=home, env=environment, outputs=outputs)


class Screen:
    """A terminal on which one list of shard s-1 is watched."""

    def __init__(self, home: Path, words: Sequence[str]) -> None:
        self._reads, its_end = pty.openpty()
        self.process = watching(home, [*words, "--shard", "s-1"], (its_end, its_end))
        os.close(its_end)

    def shows(self, word: bytes) -> None:
        """Read on until it does."""

        def enough(seen: bytes) -> bool:
            assert self.process.poll() is None, seen
            return word in seen

        read_until(self._reads, enough)

    def close(self) -> None:
        gone(self.process)
        os.close(self._reads)


def test_a_watched_terminal_goes_on_when_its_shard_is_back_somewhere_else(
    tmp_path: Path, starts: Starts
) -> None:
    """Another shard runs here all the while, so that the one that is meant is not to be found."""
    first, _ = starts("s-1"), starts("s-2")
    with ExitStack() as ends:
        screens = [(Screen(tmp_path, words), word) for words, word in LISTS.items()]
        for screen, word in screens:
            ends.callback(screen.close)
            screen.shows(word)

        gone(first)
        for screen, _ in screens:
            screen.shows(b"s-1 does not answer")
        starts("s-1")
        for screen, word in screens:
            screen.shows(word)
            screen.process.send_signal(signal.SIGINT)

        codes = [screen.process.wait(timeout=PATIENCE_S) for screen, _ in screens]
        assert codes == [exits.DONE] * len(screens)


@contextmanager
def piped(home: Path, *words: str) -> Iterator[tuple[Path, Path]]:
    """What it writes, and what it complains of."""
    said, complained = home / "said", home / "complained"
    with said.open("wb") as out, complained.open("wb") as err:
        process = watching(home, words, (out.fileno(), err.fileno()))
    try:
        yield said, complained
    finally:
        gone(process)


def test_in_a_pipe_an_outage_is_a_line_and_what_differs_afterwards_follows(
    tmp_path: Path, starts: Starts
) -> None:
    first = starts("s-1")
    pause = ("pause", "--cluster", "web", "--reason", "a drill", "--for", "30m")
    environment = outside.environment(MAINSTAY_HOME=str(tmp_path))
    assert nursery.run(pause, cwd=tmp_path, env=environment).returncode == exits.DONE

    with piped(tmp_path, "get", "controls", "-o", "json") as (said, complained):
        until(lambda: said.read_text().endswith("\n"))
        gone(first)
        until(lambda: complained.read_text().endswith("\n"))
        starts("s-1")  # it remembers no control
        until(lambda: said.read_text().count("\n") == 2)

    line, *others = complained.read_text().splitlines()
    assert ("shard s-1 does not answer, is it running?" in line, others) == (True, [])
    changes = [json.loads(each)["change"] for each in said.read_text().splitlines()]
    assert changes == ["", "gone"]
