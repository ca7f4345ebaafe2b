"""A whole shard that does nothing through a provider says so wherever somebody looks."""

import asyncio
from pathlib import Path
from typing import Final

from live_shard import AT_ONCE
from mainstay.cli.top import screen
from mainstay.model.errors import Fenced
from mainstay.model.questions import About, Question, When
from mainstay.model.views import ProviderQuery, SummaryQuery
from mainstay.shard.answers.view import ShardView
from meddled_links import line, meddled_lines, quick
from virtual_loop import run
from whole_shard import WEB, running, sims

__all__ = ["meddled_lines"]

ENDS: Final = "provider sim refuses this shard until the shard is started again: too old"


def test_a_provider_that_refuses_the_shard_is_shown_as_fenced_and_what_ends_it(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with sims(quick(idle=4)) as providers, running(tmp_path, providers) as whole:
            async with whole.cluster() as web:
                await asyncio.sleep(15)
                line(whole).refuses = lambda _: Fenced("too old", epoch=whole.data.epoch)
                web.ask_for(1)
                await asyncio.sleep(60)
                view = ShardView(whole.assembled.live, AT_ONCE)

                (row,) = (await view.providers(ProviderQuery())).rows
                assert (row.health, row.why) == ("fenced", ENDS)
                summary = await view.summary(SummaryQuery())
                assert summary.providers == (row,)
                assert f"NOT ACTING through sim: {ENDS}" in screen([summary])

                question = Question(about=About.NEED, name=WEB, quick=True)
                told = await view.explain(question)
                assert told.expected.when is When.NEVER
                assert told.expected.because == (ENDS,)

    run(scenario())
