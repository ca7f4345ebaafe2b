"""Sentences about machines that a whole shard loses while nothing is done to them (ADR-0056)."""

import asyncio
import dataclasses
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from mainstay.model.ids import MachineId
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.providers.sim.latency import INSTANT
from mainstay.providers.sim.spec import Pool, SimSpec
from mainstay.shard.events import Event
from shard_over_sim import OFFER
from virtual_loop import run
from whole_shard import Whole, running, sims

ROW: Final = "row"
QUIET_S: Final = 400.0
"""Longer than what ends well is remembered."""

REPLACED_S: Final = 60.0
"""Until the provider has noticed, a list has told and the next machine serves; less than a breaker
is open.
"""


def a_pool(zone: str, slots: int, *, row: str = "", dollars: float = 1.0) -> Pool:
    kind = f"kind-{row or zone}"
    offer = dataclasses.replace(OFFER, instance_type=kind, zone=zone, spot_dollars_per_hour=dollars)
    return Pool(offer, CapacityType.SPOT, slots, ((ROW, row or zone),))


def a_fleet(*pools: Pool) -> SimSpec:
    return SimSpec(pools=pools, latencies=INSTANT)


def serving_by_row(whole: Whole) -> Counter[str]:
    labels = [dict(each.profile.labels) for each in whole.machines(State.CONFIGURED)]
    return Counter(each[ROW] for each in labels)


def some_of(whole: Whole, row: str, count: int) -> list[MachineId]:
    there = whole.machines(State.CONFIGURED)
    return [each.id for each in there if (ROW, row) in each.profile.labels][:count]


def test_a_large_quiet_fleet_that_loses_a_few_replaces_them_in_the_same_zone_at_once(
    tmp_path: Path,
) -> None:
    """Though within five minutes nothing ended there but those losses."""

    async def scenario() -> None:
        fleet = a_fleet(a_pool("near", 210), a_pool("far", 50, dollars=9.0))
        async with sims(fleet) as providers:
            async with (
                running(tmp_path, providers, breaker_rack_label=ROW) as whole,
                whole.cluster() as web,
            ):
                web.ask_for(200)
                await asyncio.sleep(QUIET_S)
                assert serving_by_row(whole) == {"near": 200}
                for each in some_of(whole, "near", 10):
                    await providers["sim"].lose(each)
                await asyncio.sleep(REPLACED_S)

                assert len(whole.journal.of(Event.MACHINE_REMOVED)) == 10
                assert serving_by_row(whole) == {"near": 200}
                assert not whole.journal.of(Event.BREAKER_OPENED)

    run(scenario())


@pytest.mark.parametrize(
    ("notice_s", "first", "then"),
    [("120", Event.INTERRUPTION_NOTICED, "near"), ("0", Event.MACHINE_REMOVED, "far")],
    ids=["announced", "without a word"],
)
def test_hosts_that_are_taken_as_announced_open_nothing_and_without_a_word_they_do(
    tmp_path: Path, notice_s: str, first: Event, then: str
) -> None:
    async def scenario() -> None:
        fleet = a_fleet(a_pool("near", 20), a_pool("far", 20, dollars=9.0))
        async with sims(fleet) as providers:
            async with (
                running(tmp_path, providers, breaker_rack_label=ROW) as whole,
                whole.cluster() as web,
            ):
                sim = providers["sim"]
                web.ask_for(20)
                await asyncio.sleep(QUIET_S)
                assert serving_by_row(whole) == {"near": 20}
                sim.change({"interruptions": "1000000", "notice_s": notice_s})
                for _ in range(100):
                    await asyncio.sleep(0.0 if whole.journal.of(first) else 1.0)
                sim.change({"interruptions": "0"})
                await asyncio.sleep(int(notice_s) + REPLACED_S)

                assert len(whole.journal.of(Event.MACHINE_REMOVED)) == 20
                assert serving_by_row(whole) == {then: 20}
                assert bool(whole.journal.of(Event.BREAKER_OPENED)) is (then == "far")

    run(scenario())


def test_a_rack_that_loses_most_of_its_machines_is_replaced_elsewhere(tmp_path: Path) -> None:
    """However many there are in its zone."""

    async def scenario() -> None:
        fleet = a_fleet(
            a_pool("near", 200, row="one"),
            a_pool("near", 60, row="two", dollars=0.5),
            a_pool("near", 200, row="three", dollars=2.0),
        )
        async with sims(fleet) as providers:
            async with (
                running(tmp_path, providers, breaker_rack_label=ROW) as whole,
                whole.cluster() as web,
            ):
                web.ask_for(160)
                await asyncio.sleep(QUIET_S)
                before = serving_by_row(whole)
                assert before == {"two": 60, "one": 100}
                for each in some_of(whole, "two", 25):
                    await providers["sim"].lose(each)
                await asyncio.sleep(REPLACED_S)

                assert serving_by_row(whole) == {"two": 35, "one": 125}
                assert set(whole.journal.of(Event.BREAKER_OPENED)) == {
                    ROW, "node.kubernetes.io/instance-type",
                }  # fmt: skip

    run(scenario())


def test_of_quota_nothing_is_lost_so_much_of_it_hides_no_mass_loss(tmp_path: Path) -> None:
    async def scenario() -> None:
        fleet = a_fleet(a_pool("near", 300), a_pool("far", 50, dollars=9.0))
        async with sims(fleet) as providers:
            async with (
                running(tmp_path, providers, breaker_rack_label=ROW) as whole,
                whole.cluster() as web,
            ):
                web.ask_for(60)
                await asyncio.sleep(QUIET_S)
                for each in some_of(whole, "near", 40):
                    await providers["sim"].lose(each)
                await asyncio.sleep(REPLACED_S)

                assert serving_by_row(whole) == {"near": 20, "far": 40}

    run(scenario())
