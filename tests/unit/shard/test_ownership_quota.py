"""The part of the quota that a shard holds."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mainstay.engine.quota import Quota
from mainstay.engine.usage import cluster_use, place_use
from mainstay.model.coordination import Grant, QuotaKind, QuotaLine, QuotaOf
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.state import State
from mainstay.shard.ownership.quota import CYCLES_TO_SETTLE, used_of
from virtual_loop import run
from whole_shard import WEB, Cluster, Whole, a_provider, running, sims

OF_WEB = QuotaOf(QuotaKind.CLUSTER, WEB)
OF_SIM = QuotaOf(QuotaKind.PLACE, "sim")


def play(folder: Path, scenario: Callable[[Whole, Cluster], Awaitable[None]]) -> None:
    async def story() -> None:
        async with sims(a_provider(slots=8, idle=2)) as providers:
            async with running(folder, providers) as whole, whole.cluster() as web:
                await asyncio.sleep(12)
                await scenario(whole, web)

    run(story())


def line(whole: Whole, of: QuotaOf) -> QuotaLine:
    return next(each for each in whole.assembled.quota.lines() if each.of == of)


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


def test_what_the_disk_does_not_take_is_not_held(tmp_path: Path) -> None:
    async def scenario(whole: Whole, web: Cluster) -> None:
        (tmp_path / "quota.json.new").mkdir()
        with pytest.raises(Unavailable):
            await whole.assembled.quota.hear([Grant(OF_WEB, 1, -1)])
        assert whole.assembled.quota.held() == Quota({}, {})

    play(tmp_path, scenario)
