"""Roll-ups that a whole shard does not believe at once, or refuses: at the boundaries."""

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from mainstay.model.frames import Acknowledged
from mainstay.model.need import Need, NeedProfile
from mainstay.model.state import State
from mainstay.model.views import ClusterQuery, ClusterRow, NeedQuery
from mainstay.shard.answers.view import ShardView
from mainstay.shard.events import Event
from talking import a_rollup, at_once
from virtual_loop import run
from whole_shard import UNIT_MILLI, WEB, Cluster, Whole, a_provider, needs, running, sims

TICK_S: Final = 10.0
AT_ONCE_S: Final = 0.9


def rows(count: int, milli: int = UNIT_MILLI) -> list[Need]:
    """So many kinds of need, each for so much."""
    return [
        Need(
            cluster=WEB,
            profile=NeedProfile(priority=priority),
            aggregate={"cpu": milli},
            min_unit={"cpu": milli},
        )
        for priority in range(count)
    ]


async def believed(whole: Whole) -> list[Need]:
    """What the plan of the next tick is made for."""
    await asyncio.sleep(TICK_S)
    return list(whole.cycles[-1][1].thought.plan.needs)


async def row_of(whole: Whole, cluster: str = WEB) -> ClusterRow:
    view = ShardView(whole.assembled.live, at_once)
    (row,) = (await view.clusters(ClusterQuery(cluster=cluster))).rows
    return row


def said(web: Cluster) -> int:
    """How many roll-ups were acknowledged."""
    return [ack.echo for ack in web.line.heard(Acknowledged)].count("rollup")


class Asked:
    """A cluster that has been believed, and what it says next."""

    def __init__(self, whole: Whole, web: Cluster) -> None:
        self.whole, self.web = whole, web

    async def says(self, now: Sequence[Need]) -> int:
        """How many rows are believed after it."""
        self.web.roll_up(now)
        return len(await believed(self.whole))


class TestRows:
    @pytest.mark.parametrize(
        ("before", "after", "held"),
        [
            (10, 0, True), (9, 0, False), (10, 1, False),
            (20, 1, True), (20, 2, False), (29, 2, True), (30, 3, False),
        ],
    )  # fmt: skip
    def test_less_than_a_tenth_of_at_least_ten_rows_is_held_until_three_in_a_row_say_so(
        self, tmp_path: Path, before: int, after: int, held: bool
    ) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=0, idle=2)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    asked = Asked(whole, web)
                    assert await asked.says(rows(before)) == before
                    found = [await asked.says(rows(after)) for _ in range(3)]
                    assert found == ([before, before, after] if held else [after] * 3)

        run(scenario())

    def test_one_that_asks_for_enough_begins_the_count_anew(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=0, idle=2)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    asked = Asked(whole, web)
                    sequence = (20, 0, 0, 18, 0, 0, 0)
                    found = [await asked.says(rows(count)) for count in sequence]
                    assert found == [20, 20, 20, 18, 18, 18, 0]

        run(scenario())

    def test_a_refused_one_between_does_not_count_as_one_that_agrees(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=0, idle=2)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    asked = Asked(whole, web)
                    assert await asked.says(rows(20)) == 20
                    assert await asked.says([]) == 20
                    web.line.session.rolled_up(a_rollup(nanos=-1))
                    assert len(await believed(whole)) == 20
                    assert await asked.says([]) == 20
                    assert await asked.says([]) == 0

        run(scenario())


class TestAmounts:
    @pytest.mark.parametrize(("milli", "held"), [(200, False), (199, True), (0, True)])
    def test_rows_that_stay_and_lose_their_quantities_are_held_too(
        self, tmp_path: Path, milli: int, held: bool
    ) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=0, idle=2)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await Asked(whole, web).says(rows(10, 2_000))
                    found = []
                    for _ in range(3):
                        web.roll_up(rows(10, milli))
                        amounts = {need.aggregate["cpu"] for need in await believed(whole)}
                        found.append(amounts)
                    assert found == ([{2_000}] * 2 + [{milli}] if held else [{milli}] * 3)
                    assert whole.journal.of(Event.ROLLUP_HELD) == ["amounts"] * 2 * held

        run(scenario())

    @pytest.mark.parametrize(("milli", "held"), [(200, False), (199, True), (0, True)])
    def test_so_are_rows_that_lose_one_of_their_quantities(
        self, tmp_path: Path, milli: int, held: bool
    ) -> None:
        def asked(milli: int) -> list[Need]:
            amounts = {"cpu": milli, "memory": 1_000}
            return [dataclasses.replace(row, aggregate=amounts) for row in rows(10)]

        async def scenario() -> None:
            async with sims(a_provider(slots=0, idle=2)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await Asked(whole, web).says(asked(2_000))
                    found = []
                    for _ in range(3):
                        web.roll_up(asked(milli))
                        found.append({need.aggregate["cpu"] for need in await believed(whole)})
                    assert found == ([{2_000}] * 2 + [{milli}] if held else [{milli}] * 3)

        run(scenario())


def test_what_is_held_is_shown_and_counted_and_reclaims_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=12)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.roll_up(rows(12))
                await asyncio.sleep(100)
                assert len(whole.machines(State.CONFIGURED)) == 12
                for in_a_row in (1, 2):
                    web.roll_up([])
                    await asyncio.sleep(2 * TICK_S)
                    assert (await row_of(whole)).held_rollups == in_a_row
                    assert whole.metric("mainstay_shard_rollups_quarantined") == 1
                    assert whole.metric("mainstay_shard_rollups_held_total") == in_a_row
                assert not web.reclaims
                web.roll_up([])
                await asyncio.sleep(2 * TICK_S)
                assert web.reclaims
                assert (await row_of(whole)).held_rollups == 0
                assert whole.metric("mainstay_shard_rollups_quarantined") == 0

    run(scenario())


def test_a_held_roll_up_is_acknowledged_and_triggers_no_cycle(tmp_path: Path) -> None:
    """The third one does: it is news."""

    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=1)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await asyncio.sleep(TICK_S + 1)
                for now, cycles in [(rows(12), 1), ([], 0), ([], 0), ([], 1)]:
                    await asyncio.sleep(5 * TICK_S)
                    before, acknowledged = len(whole.cycles), said(web)
                    web.roll_up(now)
                    await asyncio.sleep(AT_ONCE_S)
                    assert len(whole.cycles) - before == cycles
                    assert said(web) - acknowledged == 1
                    assert (await row_of(whole)).heard

    run(scenario())


def test_a_refused_roll_up_opens_no_gate_triggers_no_cycle_and_is_not_acknowledged(
    tmp_path: Path,
) -> None:
    """After a restart nothing is reclaimed because of it; an empty one that can be read opens."""

    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=4)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.roll_up(needs(3))
                await asyncio.sleep(100)
                assert len(whole.machines(State.CONFIGURED)) == 3
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await asyncio.sleep(TICK_S + 1)
                before = len(whole.cycles)
                web.line.session.rolled_up(a_rollup(nanos=-1))
                await asyncio.sleep(AT_ONCE_S)
                assert len(whole.cycles) == before
                await asyncio.sleep(5 * TICK_S)
                assert not (await row_of(whole)).heard
                assert said(web) == 0
                assert not web.reclaims
                assert whole.metric("mainstay_shard_rollups_rejected_total") == 1

                web.roll_up([])
                await asyncio.sleep(AT_ONCE_S)
                assert (await row_of(whole)).heard
                assert len(web.reclaims) == 1

    run(scenario())


def test_a_refused_roll_up_leaves_the_demand_that_was_believed_last(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=1)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await Asked(whole, web).says(rows(5))
                web.line.session.rolled_up(a_rollup(nanos=-1))
                await asyncio.sleep(2 * TICK_S)
                view = ShardView(whole.assembled.live, at_once)
                found = await view.needs(NeedQuery(cluster=WEB))
                assert [row.asked for row in found.rows] == [{"cpu": "2"}] * 5

    run(scenario())


class TestTime:
    def test_many_in_one_moment_count_as_one_and_a_recovery_begins_anew(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=0, idle=2)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    asked = Asked(whole, web)
                    assert await asked.says(rows(12)) == 12
                    for count in (0, 1, 0, 1, 0):
                        web.roll_up(rows(count))
                        await asyncio.sleep(0.02)
                    assert len(await believed(whole)) == 12
                    assert await asked.says(rows(12)) == 12
                    assert await asked.says([]) == 12
                    assert whole.journal.of(Event.ROLLUP_HELD) == ["rows"] * 2

        run(scenario())
