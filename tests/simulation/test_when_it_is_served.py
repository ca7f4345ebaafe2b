"""A whole shard says when: it has measured how long the same took before."""

import asyncio
from pathlib import Path

from live_shard import AT_ONCE
from mainstay.model.questions import About, Explanation, Question, When
from mainstay.shard.answers.view import ShardView
from mainstay.shard.latency import Step
from virtual_loop import run
from whole_shard import WEB, Whole, a_provider, running, sims


async def asked(whole: Whole) -> Explanation:
    view = ShardView(whole.assembled.live, AT_ONCE)
    return await view.explain(Question(about=About.NEED, name=WEB, quick=True))


def test_the_second_machine_is_expected_when_it_comes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=8)) as providers, running(tmp_path, providers) as whole:
            async with whole.cluster() as web:
                web.ask_for(2)
                await asyncio.sleep(600)
                assert (await asked(whole)).expected.when is When.NOW
                steps = {step for _, step in whole.assembled.live.outlook().measured.samples}
                assert steps >= {Step.CREATE, Step.CONFIGURE}

                web.ask_for(3)
                await asyncio.sleep(1)
                coming = (await asked(whole)).expected
                assert coming.when is When.ABOUT
                assert coming.seconds > 0
                await asyncio.sleep(3 * coming.seconds + 30)
                assert (await asked(whole)).expected.when is When.NOW

    run(scenario())


def test_gauges_of_money_are_shown(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=8)) as providers, running(tmp_path, providers) as whole:
            async with whole.cluster() as web:
                web.ask_for(2)
                await asyncio.sleep(600)
                rates = whole.assembled.live.money_.book.account.by_class()
                shown = {
                    of: whole.metric("mainstay_shard_spend_dollars_per_hour", capacity_type=str(of))
                    for of in rates
                }
                assert shown == {of: rate.spend / 1e9 for of, rate in rates.items()}
                assert sum(shown.values()) > 0

    run(scenario())
