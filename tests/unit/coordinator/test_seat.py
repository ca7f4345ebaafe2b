"""Whether a coordinator may still speak as the leader, and what becomes of a duty that fails."""

import asyncio
from pathlib import Path

import pytest

from mainstay.coordinator import seat as module
from mainstay.coordinator.reigning import Reigning
from mainstay.coordinator.seat import Ground, Seat
from mainstay.model.errors import NotLeading, Unavailable
from reigns import Stage, on_stage


def seated(stage: Stage) -> Seat:
    ground = Ground(id="c-0", store=stage.store, clock=stage.clock, metrics=stage.metrics)
    seat = Seat(ground)
    seat._reigning = stage.reigning
    return seat


def test_an_answer_that_had_to_wait_is_not_given_once_the_reign_is_over(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        seat = seated(stage)
        seat.require(stage.reigning)

        stage.reigning.over.set()

        with pytest.raises(NotLeading):
            seat.require(stage.reigning)

    on_stage(tmp_path, scenario)


def test_an_answer_of_an_earlier_reign_is_not_given_in_a_later_one(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        seat, earlier = seated(stage), stage.reigning
        seat._reigning = Reigning(earlier._reign, stage.store, stage.clock, stage.metrics)

        with pytest.raises(NotLeading, match="ask again"):
            seat.require(earlier)

    on_stage(tmp_path, scenario)


def test_a_defect_in_a_duty_ends_neither_reign_nor_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DUTY_PAUSE_S", 0.0)
    turns: list[int] = []

    async def duty(_: Reigning) -> None:
        turns.append(len(turns))
        if len(turns) < 3:
            raise ValueError("a defect")
        raise Unavailable("the store is away")

    async def scenario(stage: Stage) -> None:
        with pytest.raises(Unavailable):
            async with asyncio.timeout(5):
                await module._run(duty, stage.reigning)

    on_stage(tmp_path, scenario)
    assert turns == [0, 1, 2]
