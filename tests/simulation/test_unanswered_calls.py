"""A provider that leaves calls unanswered costs few machines and little time, whatever it lists."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from mainstay.model.calls import Capabilities, ConfigureRequest, CreateRequest, Mutation
from mainstay.model.errors import Unavailable
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.facts import Health
from mainstay.shard.outcomes import Outcome
from meddled_links import MeddledLink, disposed, line, meddled_lines, outcomes, quick
from virtual_loop import LoopClock, run
from whole_shard import Cluster, Whole, a_provider, running, sims

__all__ = ["meddled_lines"]

EAST: Final = a_provider(slots=0, idle=40, name="east")
WEST: Final = a_provider(slots=40, name="west", seed=2, zone="west-1")
"""Dearer than what is idle in the east."""

DEADLINE_S: Final = 30.0
BEGINS_S: Final = 25.0
"""All is known by then, and nothing is under way."""

PROVIDER: Final = "mainstay_shard_provider_answering"


def through(whole: Whole, source: str, *states: State) -> list[str]:
    """The machines of a provider in these states."""
    inventory = whole.assembled.live.inventory
    return [each.id for each in whole.machines(*states) if inventory.source(each.id) == source]


def asked(link: MeddledLink, kind: type[Mutation] = ConfigureRequest) -> list[tuple[float, str]]:
    """When and for which machines the first attempts of calls went out."""
    first: dict[str, float] = {}
    for each in link.tried:
        if isinstance(each.request, kind):
            first.setdefault(each.request.machine, each.at_s)
    return sorted((at_s, machine) for machine, at_s in first.items())


@asynccontextmanager
async def east_and_west(
    folder: Path, declares: Capabilities | None = None, **settings: object
) -> AsyncIterator[tuple[Whole, Cluster, MeddledLink]]:
    async with sims(EAST, WEST) as providers:
        async with running(folder, providers, **settings) as whole, whole.cluster() as web:
            east = line(whole, "east")
            east.declares = declares
            await asyncio.sleep(BEGINS_S)
            yield whole, web, east


async def until(holds: Callable[[], object], within_s: float) -> float:
    """When it holds, in seconds from now."""
    began_s = LoopClock().elapsed_s()
    while not holds():
        await asyncio.sleep(0.1)
        assert LoopClock().elapsed_s() - began_s < within_s
    return LoopClock().elapsed_s() - began_s


def hang(link: MeddledLink, *, lists: bool) -> None:
    """From now on nothing is answered, or only lists are."""
    link.hangs = not lists
    link.hangs_on = lambda _: True


def is_of_the_first(call: Mutation, bad: set[str], many: int) -> bool:
    """Whether a call is for one of the first machines that anything was asked for."""
    if len(bad) < many:
        bad.add(call.machine)
    return call.machine in bad


class TestAProviderThatHangs:
    @pytest.mark.parametrize("lists", [False, True], ids=["everything", "calls alone"])
    @pytest.mark.parametrize(
        "declares", [Capabilities(), None], ids=["full lists alone", "incremental"]
    )
    def test_demand_is_met_elsewhere_after_one_deadline(
        self, tmp_path: Path, declares: Capabilities | None, lists: bool
    ) -> None:
        async def scenario() -> None:
            async with east_and_west(tmp_path, declares) as (whole, web, east):
                hang(east, lists=lists)
                web.ask_for(4)
                took_s = await until(lambda: len(line(whole, "west").sent) == 4, within_s=300)
                assert took_s < DEADLINE_S + 1
                await asyncio.sleep(300)
                assert len(through(whole, "west", State.CONFIGURED)) == 4
                assert len({machine for _, machine in asked(east)}) == 4
                assert len(through(whole, "east", State.FAILED)) <= 4

        run(scenario())

    def test_a_single_machine_is_enough_where_nothing_else_is_answered(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with east_and_west(tmp_path, Capabilities()) as (whole, web, east):
                hang(east, lists=False)
                web.ask_for(1)
                await asyncio.sleep(DEADLINE_S + 1)
                assert line(whole, "west").sent
                assert len(asked(east)) == 1
                (told,) = [e for e in whole.assembled.live.providers() if e.name == "east"]
                assert told.health is Health.LOST
                assert "leaves calls unanswered" in told.why
                assert whole.metric(PROVIDER, provider="east") == 0
                assert whole.journal.of(Event.PROVIDER_BARRED) == ["east"]

        run(scenario())

    def test_what_waits_in_the_queue_is_not_begun(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with east_and_west(tmp_path, Capabilities(), workers=4) as (whole, web, east):
                hang(east, lists=False)
                web.ask_for(10)
                await asyncio.sleep(100)
                assert len(asked(east)) == 4
                assert disposed(whole, "deferred", "bootstrap")
                assert outcomes(whole, Outcome.ROLLED_BACK)  # those that had their blobs
                begun = len(through(whole, "west")) - len(through(whole, "west", State.SPECULATIVE))
                assert begun == 10

        run(scenario())

    def test_nothing_is_released_through_it_either(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with east_and_west(tmp_path) as (whole, web, east):
                web.ask_for(3)
                await asyncio.sleep(120)
                hang(east, lists=True)
                web.ask_for(7)
                await asyncio.sleep(DEADLINE_S + 1)
                assert whole.journal.of(Event.PROVIDER_BARRED) == ["east"]
                web.ask_for(6)
                await asyncio.sleep(0)
                assert len(through(whole, "east", State.CONFIGURED)) == 3
                assert not web.reclaims

        run(scenario())

    def test_it_is_used_again_when_it_answers_again(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with east_and_west(tmp_path, Capabilities()) as (whole, web, east):
                hang(east, lists=False)
                web.ask_for(1)
                await asyncio.sleep(DEADLINE_S + 20)
                east.hangs, east.hangs_on = False, lambda _: False
                await asyncio.sleep(300)
                assert whole.metric(PROVIDER, provider="east") == 1
                web.ask_for(6)
                await asyncio.sleep(60)
                assert len(through(whole, "east", State.CONFIGURED)) == 5

        run(scenario())


class TestAProviderThatListsAndAnswersNoCall:
    def test_it_is_tried_ever_more_rarely_and_with_one_machine(self, tmp_path: Path) -> None:
        """Demand that comes again and again does not go there again and again."""

        async def scenario() -> None:
            async with east_and_west(tmp_path) as (whole, web, east):
                hang(east, lists=True)
                for machines in range(4, 40):
                    web.ask_for(machines)
                    await asyncio.sleep(100)
                tries = [at_s for at_s, _ in asked(east)]
                assert len(tries) <= 4 + 16
                later = [at_s for at_s in tries if at_s > BEGINS_S + 1]
                assert later
                assert len({round(at_s) for at_s in later}) == len(later)
                assert len(through(whole, "west", State.CONFIGURED)) >= 30

        run(scenario())

    def test_a_single_machine_that_hangs_costs_its_provider_nothing(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with east_and_west(tmp_path) as (whole, web, east):
                bad = set[str]()
                east.hangs_on = lambda call: is_of_the_first(call, bad, 1)
                web.ask_for(1)
                await until(lambda: through(whole, "east", State.CONFIGURED), within_s=120)
                assert not line(whole, "west").sent
                assert not whole.journal.of(Event.PROVIDER_BARRED)

        run(scenario())

    def test_two_machines_that_hang_do_not_keep_the_others_from_who_has_no_choice(
        self, tmp_path: Path
    ) -> None:
        """Those two come back by every list, and would be chosen first."""

        async def scenario() -> None:
            async with sims(EAST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(BEGINS_S)
                    bad = set[str]()
                    line(whole, "east").hangs_on = lambda call: is_of_the_first(call, bad, 2)
                    web.ask_for(1)
                    await until(lambda: through(whole, "east", State.CONFIGURED), within_s=400)

        run(scenario())

    def test_create_that_is_answered_says_nothing_of_configure(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            fast = quick(slots=40, name="east")
            async with sims(fast, WEST) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(BEGINS_S)
                    east = line(whole, "east")
                    east.hangs_on = lambda call: isinstance(call, ConfigureRequest)
                    web.ask_for(2)
                    await until(lambda: whole.journal.of(Event.PROVIDER_BARRED), within_s=90)
                    assert len(asked(east, CreateRequest)) == 2
                    await asyncio.sleep(60)
                    assert len(asked(east, CreateRequest)) == 2

        run(scenario())

    def test_a_refusal_is_an_answer(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with east_and_west(tmp_path) as (whole, web, east):
                east.refuses = lambda _: Unavailable("come back later")
                web.ask_for(2)
                await asyncio.sleep(DEADLINE_S + 1)
                assert whole.journal.of(Event.PROVIDER_BARRED) == ["east"]
                east.refuses = lambda _: None
                web.ask_for(3)
                await asyncio.sleep(60)
                assert whole.metric(PROVIDER, provider="east") == 1

        run(scenario())


class TestTicks:
    def test_only_the_first_waits_for_an_incremental_list_that_hangs(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with east_and_west(tmp_path) as (whole, _, east):
                east.delta_takes_s = 1e9
                began = len(whole.cycles)
                await asyncio.sleep(29)
                late = [round(when % 10, 3) for when, _ in whole.cycles[began:]]
                assert late == [1.0, 0.0, 0.0]

        run(scenario())
