"""A shard killed with SIGKILL at random moments: `mainstay soak shard`, whole in `make soak`."""

import asyncio
import dataclasses
import os
from pathlib import Path

import pytest

from mainstay.processes.soak_shard import DECIDES_S, Soaked, SoakSpec, soak
from mainstay.runtime.children import Children
from mainstay.runtime.clock import SystemClock
from outside import soak_factor

PATIENCE = 3
"""Others use this machine too: a start may take so many times as long as is promised."""

SHORT = SoakSpec(
    machines=2_000, clusters=5, demand=20, kills=2, held_kills=2, seed=5,
    cycle_interval_s=0.25, step_s=0.5, longest_life_s=3.0,
    decides_s=PATIENCE * DECIDES_S,
)  # fmt: skip
WHOLE = SoakSpec(decides_s=PATIENCE * DECIDES_S)
SPEC = SHORT if soak_factor() == 1 else WHOLE


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> Soaked:
    with Children(tmp_path_factory.mktemp("soak")) as children:
        return asyncio.run(soak(SPEC, children, SystemClock(), lambda _: None))


def test_no_law_is_broken_by_killing_a_shard(soaked: Soaked) -> None:
    assert soaked.broken == []


def test_at_full_size_a_start_is_judged_by_what_is_promised() -> None:
    whole = SoakSpec()

    assert (whole.machines, whole.clusters, whole.kills) == (100_000, 50, 20)
    assert whole.decides_s == 5.0


def test_a_start_that_takes_longer_breaks_the_soak(tmp_path: Path) -> None:
    impatient = dataclasses.replace(
        SHORT, machines=200, clusters=1, kills=0, held_kills=0, decides_s=0.0
    )

    with Children(tmp_path) as children:
        soaked = asyncio.run(soak(impatient, children, SystemClock(), lambda _: None))

    assert any("to its first decision (at most 0 s)" in law for law in soaked.broken)


def test_every_life_has_an_epoch_of_its_own_and_comes_to_a_decision(soaked: Soaked) -> None:
    kills = SPEC.kills + SPEC.held_kills
    assert soaked.kills == kills + soaked.killed_early
    assert len(soaked.starts_s) == kills + 1
    assert soaked.epoch >= len(soaked.starts_s)


def test_while_all_ask_for_the_same_nothing_is_taken_from_anybody(soaked: Soaked) -> None:
    assert soaked.held_drains == 0 < soaked.drains


def test_there_was_something_to_break(soaked: Soaked) -> None:
    assert soaked.bootstraps > soaked.serving > 0
    assert soaked.withdrawn >= soaked.drains - soaked.gang_drains
    assert soaked.drains >= soaked.drains_seen > soaked.gang_drains
    assert soaked.recognised > SPEC.clusters
    assert soaked.sessions >= SPEC.clusters * 2


def test_what_serves_is_what_is_asked_for_and_the_need_that_the_echo_names(soaked: Soaked) -> None:
    assert soaked.serving == soaked.asked == soaked.same_need


def test_a_soak_that_fails_leaves_no_process_behind(tmp_path: Path) -> None:
    pids: list[int] = []

    def give_up() -> None:
        with Children(tmp_path) as children:

            def say(line: str) -> None:
                if "kill 1" in line:
                    pids.extend(child.pid for child in children)
                    raise ZeroDivisionError

            asyncio.run(soak(SHORT, children, SystemClock(), say))

    with pytest.raises((ZeroDivisionError, BaseExceptionGroup)):
        give_up()

    assert len(pids) == 3
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
