"""What a shard that starts again knows of the drains that its life before began."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Final

import pytest

from mainstay.model.calls import Call, Capabilities, DrainRequest
from mainstay.model.machine import Machine
from mainstay.model.metadata import DRAINED_PREFIX
from mainstay.model.state import State
from mainstay.providers.sim.latency import INSTANT, Latency
from mainstay.providers.sim.spec import SimSpec
from meddled_links import disposed, line, meddled_lines
from virtual_loop import run
from whole_shard import WEB, Cluster, Whole, a_provider, running, sims

__all__ = ["meddled_lines"]
DRAIN_S: Final = 120.0
MUTE: Final = Capabilities(incremental=True, tombstones=True, attribution=True)
"""A provider that does not say what a machine is drained for."""


def slow_to_drain(*, idle: int = 4) -> SimSpec:
    latencies = {**INSTANT, Call.DRAIN: Latency(DRAIN_S, 0.0)}
    return dataclasses.replace(a_provider(slots=0, idle=idle), latencies=latencies)


def silent_on_drains(record: Machine) -> Machine:
    """The record as a provider reports it that keeps only what Configure was given."""
    kept = {
        key: text
        for key, text in record.shard_metadata.items()
        if not key.startswith(DRAINED_PREFIX)
    }
    return dataclasses.replace(record, shard_metadata=kept)


def make_mute(whole: Whole) -> None:
    line(whole).declares, line(whole).reports = MUTE, silent_on_drains


def ask(batch: Cluster, web: Cluster, *, left: int) -> None:
    """So much for batch, and one machine for web that matters more."""
    batch.ask_for(left, priority=10)
    web.ask_for(1, priority=1000)


@pytest.mark.parametrize(("left", "kind"), [(4, "preempt"), (3, "reclaim")])
def test_a_restart_while_a_machine_drains_for_a_need_drains_no_other_one(
    tmp_path: Path, left: int, kind: str
) -> None:
    """Whether it served somebody who matters less or nobody any more."""

    async def scenario() -> None:
        async with sims(slow_to_drain()) as providers:
            async with running(tmp_path, providers) as whole:
                async with whole.cluster("batch") as batch, whole.cluster() as web:
                    batch.ask_for(4, priority=10)
                    await asyncio.sleep(30)
                    assert len(whole.machines(State.CONFIGURED)) == 4
                    ask(batch, web, left=left)
                    await asyncio.sleep(20)
                    assert disposed(whole, "executed", kind) == 1
                    before = [each.machine for each in line(whole).attempts(DrainRequest)]
            async with running(tmp_path, providers) as whole:
                async with whole.cluster("batch") as batch, whole.cluster() as web:
                    ask(batch, web, left=left)
                    await asyncio.sleep(60)
                    assert [each.id for each in whole.machines(State.DRAINING)] == before
                    await asyncio.sleep(DRAIN_S)
                    assert line(whole).attempts(DrainRequest) == []
                    assert [whole.machine(each).cluster for each in before] == [WEB]

    run(scenario())


def test_where_a_provider_does_not_say_for_whom_it_drains_nobody_else_is_preempted_meanwhile(
    tmp_path: Path,
) -> None:
    """A second machine may be needed after all: once the drain has ended, that is seen."""

    async def scenario() -> None:
        async with sims(slow_to_drain()) as providers:
            async with running(tmp_path, providers) as whole:
                make_mute(whole)
                async with whole.cluster("batch") as batch, whole.cluster() as web:
                    batch.ask_for(4, priority=10)
                    await asyncio.sleep(30)
                    ask(batch, web, left=4)
                    await asyncio.sleep(20)
                    assert len(line(whole).attempts(DrainRequest)) == 1
            async with running(tmp_path, providers) as whole:
                make_mute(whole)
                async with whole.cluster("batch") as batch, whole.cluster() as web:
                    ask(batch, web, left=4)
                    await asyncio.sleep(60)
                    assert line(whole).attempts(DrainRequest) == []
                    reasons = {each.reason for each in whole.journal.records()}
                    assert "draining" in reasons
                    web.ask_for(2, priority=1000)
                    await asyncio.sleep(2 * DRAIN_S)
                    assert len(line(whole).attempts(DrainRequest)) == 1

    run(scenario())
