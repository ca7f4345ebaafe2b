"""Long runs of the simulator say how far they are; short ones say nothing."""

import json

import pytest

from mainstay.cli import sim
from mainstay.sim.loop import run
from mainstay.sim.spec import LoopSpec
from mainstay.sim.world import Stats


def test_whoever_waits_is_told_of_every_cycle() -> None:
    told: list[Stats] = []

    loop = run(LoopSpec(seed=1, cycles=3), told.append)

    assert told == loop.history


@pytest.mark.parametrize(("part", "said"), [(2, 3), (1_000, 0)])
def test_a_part_of_the_cycles_is_said_when_it_is_done(
    part: int,
    said: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sim, "PART_MIN", part)

    sim.loop(cycles=6)

    out, err = capsys.readouterr()
    assert json.loads(out)["last"]["cycle"] == 5
    assert len(err.splitlines()) == said
    assert not said or err.splitlines()[-1].startswith("cycle 6: ")
