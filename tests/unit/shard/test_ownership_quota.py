"""The part of the quota that a shard holds."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest

from mainstay.engine.plan import Plan
from mainstay.engine.quota import Quota
from mainstay.engine.usage import cluster_use, place_use
from mainstay.model.coordination import Grant, QuotaKind, QuotaLine, QuotaMoved, QuotaOf
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.state import State
from mainstay.runtime.aside import Aside
from mainstay.shard.datadir import QUOTA, Kept
from mainstay.shard.ownership.quota import CYCLES_TO_SETTLE, Tally, used_of
from talking import at_once
from virtual_loop import run
from whole_shard import WEB, Cluster, Whole, a_provider, running, sims

AnswerT = TypeVar("AnswerT")

OF_WEB = QuotaOf(QuotaKind.CLUSTER, WEB)
OF_SIM = QuotaOf(QuotaKind.PLACE, "sim")


def play(
    folder: Path,
    scenario: Callable[[Whole, Cluster], Awaitable[None]],
    aside: Aside = at_once,
) -> None:
    async def story() -> None:
        async with sims(a_provider(slots=8, idle=2)) as providers:
            async with running(folder, providers, None, aside) as whole, whole.cluster() as web:
                await asyncio.sleep(12)
                await scenario(whole, web)

    run(story())


def line(whole: Whole, of: QuotaOf) -> QuotaLine:
    quota = whole.assembled.quota
    return next(each for each in quota.lines(quota.tallying()()) if each.of == of)


async def serving(whole: Whole, web: Cluster, machines: int) -> None:
    web.ask_for(machines)
    await asyncio.sleep(400)
    assert len(whole.machines(State.CONFIGURED)) == machines


def test_what_was_never_granted_is_not_limited(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        await serving(whole, web, 4)
        assert whole.assembled.quota.held() == Quota({}, {})
        assert (line(whole, OF_WEB).held, line(whole, OF_WEB).used) == (-1, 4)
        assert (line(whole, OF_SIM).held, line(whole, OF_SIM).used) == (-1, 4)

    play(tmp_path, scenario)


def test_use_is_counted_as_the_engine_counts_it(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        for machines in (4, 6, 3):
            web.ask_for(machines)
            for _ in range(30):
                await asyncio.sleep(10)
                plan = whole.cycles[-1][1].thought.plan
                used = used_of(plan.snapshot)
                assert used.machines.get(WEB, 0) == cluster_use(plan, WEB).now
                assert used.slots["sim", ""] == place_use(plan, ("sim", "")).now

    play(tmp_path, scenario)


def test_a_grant_limits_what_is_acquired_and_survives_a_restart(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        await whole.assembled.quota.hear([Grant(OF_WEB, 2, -1), Grant(OF_SIM, 5, -1)])
        assert whole.data.quota.value == Quota({WEB: 2}, {("sim", ""): 5})
        web.ask_for(4)
        await asyncio.sleep(400)
        assert len(whole.machines(State.CONFIGURED)) == 2
        assert line(whole, OF_WEB) == QuotaLine(OF_WEB, held=2, used=2, wanted=2 + 1 + 2)

    play(tmp_path, scenario)


def test_more_is_taken_and_less_is_not_unless_it_is_asked_for(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        quota = whole.assembled.quota
        await quota.hear([Grant(OF_WEB, 2, -1)])
        await quota.hear([Grant(OF_WEB, 6, -1)])
        assert quota.held().machines == {WEB: 6}
        await quota.hear([Grant(OF_WEB, 4, -1)])
        assert quota.held().machines == {WEB: 6}
        await quota.hear([Grant(OF_WEB, 6, 3)])
        assert quota.held().machines == {WEB: 3}

    play(tmp_path, scenario)


def test_what_is_used_is_never_given_back(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        quota = whole.assembled.quota
        await quota.hear([Grant(OF_WEB, 8, -1)])
        await serving(whole, web, 4)
        await quota.hear([Grant(OF_WEB, 8, 1)])
        assert quota.held().machines == {WEB: 4}

    play(tmp_path, scenario)


def test_a_number_that_was_lowered_is_told_once_no_decision_can_take_it(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        quota = whole.assembled.quota
        await quota.hear([Grant(OF_WEB, 8, -1)])
        await quota.hear([Grant(OF_WEB, 8, 1)])
        assert quota.held().machines == {WEB: 1}
        assert line(whole, OF_WEB).held == 8
        await asyncio.sleep(10 * (CYCLES_TO_SETTLE - 1))
        assert line(whole, OF_WEB).held == 8
        await asyncio.sleep(10)
        assert line(whole, OF_WEB).held == 1

    play(tmp_path, scenario)


def test_what_is_used_is_told_to_be_held(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        await serving(whole, web, 4)
        await whole.assembled.quota.hear([Grant(OF_WEB, 2, -1)])
        assert line(whole, OF_WEB).held == 4

    play(tmp_path, scenario)


def test_nothing_is_given_back_while_a_provider_does_not_answer(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        quota = whole.assembled.quota
        await quota.hear([Grant(OF_WEB, 8, -1)])
        whole.links["sim"].hangs = True
        await asyncio.sleep(200)
        await quota.hear([Grant(OF_WEB, 8, 1)])
        assert quota.held().machines == {WEB: 8}

    play(tmp_path, scenario)


def test_a_quota_that_ends_limits_nothing(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        quota = whole.assembled.quota
        await quota.hear([Grant(OF_WEB, 1, -1), Grant(OF_SIM, 8, -1)])
        await quota.hear([Grant(OF_WEB, -1, -1)])
        assert whole.data.quota.value == Quota({}, {("sim", ""): 8})

    play(tmp_path, scenario)


@pytest.mark.parametrize("bad", [Grant(OF_WEB, -2, -1), Grant(QuotaOf(QuotaKind.PLACE, ""), 1, -1)])
def test_a_grant_that_cannot_be_changes_nothing(tmp_path: Path, bad: Grant) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        with pytest.raises(Rejected, match="not a grant"):
            await whole.assembled.quota.hear([Grant(OF_WEB, 1, -1), bad])
        assert whole.data.quota.value == Quota({}, {})
        assert whole.assembled.quota.held() == Quota({}, {})

    play(tmp_path, scenario)


def test_a_report_looks_at_no_need_and_no_plan_on_the_event_loop(tmp_path: Path) -> None:
    """There are tens of thousands: sessions and cycles would wait."""

    async def scenario(whole: Whole, web: Cluster) -> None:
        web.ask_for(3)
        await asyncio.sleep(12)
        quota = whole.assembled.quota
        await quota.hear([Grant(OF_WEB, 8, -1)])
        tally = quota.tallying()()
        looked: list[str] = []

        class Untouchable:
            cycle = 10**6

            @property
            def plan(self) -> Plan:
                looked.append("plan")
                raise AssertionError

        quota._published = Untouchable  # type: ignore[assignment]
        assert {each.of for each in quota.lines(tally)} == {OF_WEB, OF_SIM}
        await quota.hear([Grant(OF_WEB, 8, 5)])
        assert looked == []

    play(tmp_path, scenario)


def test_of_what_is_held_the_use_is_counted_when_it_is_told(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        quota = whole.assembled.quota
        await quota.hear([Grant(OF_WEB, 1, -1)])
        old = quota.tallying()()
        await quota.hear([Grant(OF_WEB, 4, -1)])
        await serving(whole, web, 4)
        told = {each.of: each.used for each in quota.lines(old)}
        assert told == {OF_WEB: 4, OF_SIM: 2}
        assert {each.of for each in quota.lines(Tally())} == {OF_WEB}

    play(tmp_path, scenario)


def test_what_the_disk_may_have_taken_is_told_until_it_is_sure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the new number, and after a kill it would count."""

    async def scenario(whole: Whole, web: Cluster) -> None:
        quota, calls, sync = whole.assembled.quota, count(), os.fsync
        await quota.hear([Grant(OF_SIM, 2, -1)])

        def fails_for_the_folder(file: int) -> None:
            if next(calls) == 1:
                raise OSError(5, "Input/output error")
            sync(file)

        monkeypatch.setattr(os, "fsync", fails_for_the_folder)
        with pytest.raises(Unavailable):
            await quota.hear([Grant(OF_SIM, 10, -1)])
        assert Kept(tmp_path, QUOTA).value.slots == {("sim", ""): 10}
        assert quota.held().slots == {("sim", ""): 2}
        assert line(whole, OF_SIM).held == 10
        await quota.hear([])
        assert line(whole, OF_SIM).held == 2
        assert Kept(tmp_path, QUOTA).value.slots == {("sim", ""): 2}

    play(tmp_path, scenario)


def test_a_number_whose_write_is_under_way_is_told_although_nobody_waits_for_it(
    tmp_path: Path,
) -> None:
    async def slow(work: Callable[[], AnswerT]) -> AnswerT:
        done = work()
        if "HeldQuota" in getattr(work, "__qualname__", ""):
            await asyncio.sleep(45)
        return done

    async def scenario(whole: Whole, web: Cluster) -> None:
        quota = whole.assembled.quota
        heard = asyncio.ensure_future(quota.hear([Grant(OF_SIM, 9, -1)]))
        await asyncio.sleep(1)
        heard.cancel()
        await asyncio.sleep(1)
        assert quota.held() == Quota({}, {})
        assert line(whole, OF_SIM).held == 9
        await asyncio.sleep(60)
        assert quota.held().slots == {("sim", ""): 9}

    play(tmp_path, scenario, slow)


class TestMoving:
    def test_what_goes_with_machines_is_durable_and_told_at_once(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            quota = whole.assembled.quota
            await quota.hear([Grant(OF_SIM, 8, -1), Grant(OF_WEB, 5, -1)])
            moved = await quota.lower({("sim", ""): 3, ("other", ""): 2})
            assert moved == (QuotaMoved(OF_SIM, 3),)
            assert whole.data.quota.value == Quota({WEB: 5}, {("sim", ""): 5})
            assert line(whole, OF_SIM).held == 5
            assert await quota.lower({}) == ()

        play(tmp_path, scenario)

    def test_more_than_is_held_cannot_be_lowered_below_nothing(self, tmp_path: Path) -> None:
        """What is used is told to be held, so it goes even where less was held."""

        async def scenario(whole: Whole, web: Cluster) -> None:
            quota = whole.assembled.quota
            await quota.hear([Grant(OF_SIM, 1, -1)])
            assert await quota.lower({("sim", ""): 2}) == (QuotaMoved(OF_SIM, 2),)
            assert quota.held().slots == {("sim", ""): 0}

        play(tmp_path, scenario)

    def test_an_answer_to_a_report_from_before_does_not_bring_it_back(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            quota = whole.assembled.quota
            await quota.hear([Grant(OF_SIM, 8, -1)])
            reported = quota.moved
            await quota.lower({("sim", ""): 3})
            await quota.hear([Grant(OF_SIM, 8, -1)], since=reported)
            assert quota.held().slots == {("sim", ""): 5}
            await quota.hear([Grant(OF_SIM, 9, -1)], since=reported)
            assert quota.held().slots == {("sim", ""): 6}
            await quota.hear([Grant(OF_SIM, 8, -1)], since=quota.moved)
            assert quota.held().slots == {("sim", ""): 8}

        play(tmp_path, scenario)

    def test_what_is_for_machines_that_are_coming_is_held_and_not_used_yet(
        self, tmp_path: Path
    ) -> None:
        """Else it is filled with others, and then they come."""

        async def scenario(whole: Whole, web: Cluster) -> None:
            quota, place = whole.assembled.quota, ("sim", "")
            await quota.hear([Grant(OF_SIM, 4, -1), Grant(OF_WEB, 1, -1)])
            more = [Grant(OF_SIM, 7, -1), Grant(OF_WEB, 2, -1)]
            await quota.hear(more, coming={"sim", WEB})
            assert quota.held() == Quota({WEB: 2}, {place: 4})
            assert whole.data.quota.value.slots == {place: 7}
            assert line(whole, OF_SIM).held == 7
            await quota.lower({place: 1})
            assert (quota.held().slots[place], line(whole, OF_SIM).held) == (3, 6)
            await quota.hear([])
            assert quota.held().slots == {place: 6}

        play(tmp_path, scenario)

    def test_nor_is_it_given_back_before_they_have_come(self, tmp_path: Path) -> None:
        """They are not counted yet: what they will use looks as if nobody did."""

        async def scenario(whole: Whole, web: Cluster) -> None:
            quota = whole.assembled.quota
            await quota.hear([Grant(OF_SIM, 7, -1)], coming={"sim"})
            await quota.hear([Grant(OF_SIM, 7, 2)], coming={"sim"})
            assert line(whole, OF_SIM).held == 7
            await quota.hear([Grant(OF_SIM, 7, 2)])
            assert whole.data.quota.value.slots == {("sim", ""): 2}

        play(tmp_path, scenario)

    def test_what_a_decision_may_still_take_goes_along(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            quota = whole.assembled.quota
            await quota.hear([Grant(OF_SIM, 9, -1)])
            await quota.hear([Grant(OF_SIM, 9, 6)])
            await quota.hear([Grant(OF_SIM, 9, 4)])
            assert line(whole, OF_SIM).held == 9
            await quota.lower({("sim", ""): 2})
            assert (quota.held().slots["sim", ""], line(whole, OF_SIM).held) == (2, 7)

        play(tmp_path, scenario)


def test_what_the_disk_does_not_take_is_not_held(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        (tmp_path / "quota.json.new").mkdir()
        with pytest.raises(Unavailable):
            await whole.assembled.quota.hear([Grant(OF_WEB, 1, -1)])
        assert whole.assembled.quota.held() == Quota({}, {})

    play(tmp_path, scenario)
