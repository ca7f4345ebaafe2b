"""How a shard begins: what it waits for before it acquires anything, and what it does not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainstay.model.action import ActionKind
from mainstay.model.state import State
from mainstay.processes.shard_pages import readiness
from mainstay.providers.sim.provider import Sim
from mainstay.shard.events import Event
from mainstay.shard.outcomes import Disposition
from virtual_loop import run
from whole_shard import SettableClock, Whole, a_provider, running, sims

QUICKLY = {"list_timeout_s": 5.0}
"""A list that hangs is given up early, so that cycles begin."""


@asynccontextmanager
async def east_and_west() -> AsyncIterator[dict[str, Sim]]:
    """Machines are in the east; in the west they can be bought."""
    specs = (
        a_provider(slots=0, idle=4, name="east"),
        a_provider(slots=8, name="west", seed=2, zone="west-1"),
    )
    async with sims(*specs) as providers:
        yield providers


async def served_from_the_east(folder: Path, providers: dict[str, Sim]) -> None:
    """A life in which three machines of the east come to serve."""
    async with running(folder, providers) as whole, whole.cluster() as web:
        web.ask_for(3)
        await asyncio.sleep(300)
        serving = whole.machines(State.CONFIGURED)
        inventory = whole.assembled.live.inventory
        assert [inventory.source(machine.id) for machine in serving] == ["east"] * 3


def awaited(whole: Whole) -> float:
    return whole.metric("mainstay_shard_providers_awaited")


def test_nothing_is_bought_for_what_a_provider_out_of_sight_may_serve(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with east_and_west() as providers:
            await served_from_the_east(tmp_path, providers)
            async with running(tmp_path, providers, **QUICKLY) as whole:
                whole.links["east"].hangs = True
                async with whole.cluster() as web:
                    web.ask_for(3)
                    await asyncio.sleep(250)
                    assert whole.sent() == 0
                    page = readiness(whole.assembled.live)
                    assert page.status == 200
                    assert page.text.startswith("ok; nothing is acquired before")
                    assert awaited(whole) == 1
                    held = whole.journal.records()
                    assert {(each.disposition, each.reason) for each in held} == {
                        (Disposition.DEFERRED, "unlisted")
                    }
                    said = whole.assembled.live.published
                    assert said is not None
                    for told in (said.unlisted, held[-1].detail):
                        assert "nothing is acquired before the first list of provider east" in told

                    whole.links["east"].hangs = False
                    await asyncio.sleep(600)
                    assert whole.sent() == 0
                    assert len(whole.machines(State.CONFIGURED)) == 3
                    assert awaited(whole) == 0
                    assert readiness(whole.assembled.live).text == "ok\n"
                    assert not whole.journal.of(Event.PROVIDER_NOT_AWAITED)

    run(scenario())


def test_a_provider_that_does_not_come_back_in_time_is_given_up_and_that_is_told(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with east_and_west() as providers:
            await served_from_the_east(tmp_path, providers)
            async with running(tmp_path, providers, **QUICKLY) as whole:
                whole.links["east"].hangs = True
                async with whole.cluster() as web:
                    web.ask_for(3)
                    await asyncio.sleep(299)
                    assert whole.sent() == 0
                    await asyncio.sleep(300)
                    assert len(whole.machines(State.CONFIGURED)) == 3
                    assert whole.journal.of(Event.PROVIDER_NOT_AWAITED) == ["east"]
                    assert awaited(whole) == 0

    run(scenario())


@pytest.mark.parametrize(
    ("how", "settings"), [("new directory", {}), ("off", {"first_list_wait_s": 0.0})]
)
def test_nobody_is_waited_for_on_a_new_data_directory_or_where_it_is_turned_off(
    tmp_path: Path, how: str, settings: dict[str, float]
) -> None:
    async def scenario() -> None:
        async with east_and_west() as providers:
            await served_from_the_east(tmp_path / "a", providers)
            folder = tmp_path / ("a" if how == "off" else "b")
            async with running(folder, providers, **QUICKLY, **settings) as whole:
                whole.links["east"].hangs = True
                async with whole.cluster() as web:
                    web.ask_for(3)
                    await asyncio.sleep(240)
                    assert len(whole.machines(State.CONFIGURED)) == 3
                    assert awaited(whole) == 0

    run(scenario())


def test_a_provider_that_no_life_has_listed_is_not_waited_for(tmp_path: Path) -> None:
    """Nothing of ours can be there; not even when the life before this one had it already."""

    async def scenario() -> None:
        new = a_provider(slots=4, name="new", seed=3, zone="new-1")
        async with east_and_west() as providers, sims(new) as added:
            await served_from_the_east(tmp_path, providers)
            for _ in range(2):
                async with running(tmp_path, providers | added, **QUICKLY) as whole:
                    whole.links["new"].hangs = True
                    async with whole.cluster() as web:
                        web.ask_for(5)
                        await asyncio.sleep(240)
                        assert len(whole.machines(State.CONFIGURED)) == 5

    run(scenario())


@pytest.mark.parametrize("stalls", [False, True])
def test_a_disk_that_does_not_take_who_was_listed_makes_no_cycle_follow_another(
    tmp_path: Path, stalls: bool
) -> None:
    """What may not be begun takes no place under the limit, so nothing waits for the limit."""

    async def scenario() -> None:
        goes_on = asyncio.Event()

        async def when_it_goes_on(work: Callable[[], Any]) -> Any:
            await goes_on.wait()
            return work()

        async with sims(a_provider(slots=8)) as providers:
            limit = {"actions_per_cycle_max": 2}
            async with running(tmp_path, providers, **limit) as whole, whole.cluster() as web:
                if stalls:
                    whole.assembled.shard._parts.awaited.ever._aside = when_it_goes_on
                else:
                    (tmp_path / "listed.json.new").mkdir()
                web.ask_for(6)
                await asyncio.sleep(60)
                assert len(whole.cycles) < 30
                assert whole.sent() == 0

                goes_on.set()
                if not stalls:
                    (tmp_path / "listed.json.new").rmdir()
                await asyncio.sleep(300)
                assert len(whole.machines(State.CONFIGURED)) == 6

    run(scenario())


def test_what_the_disk_does_not_take_of_a_new_provider_is_had_from_another(tmp_path: Path) -> None:
    """The new one would be preferred, having machines already; and is, once that is on disk."""

    async def scenario() -> None:
        new = a_provider(slots=0, idle=8, name="new", zone="new-1")
        async with sims(a_provider(slots=8), new) as providers:
            async with running(tmp_path, {"sim": providers["sim"]}):
                await asyncio.sleep(30)
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                (tmp_path / "listed.json.new").mkdir()
                await asyncio.sleep(5)
                web.ask_for(6)
                await asyncio.sleep(600)
                inventory = whole.assembled.live.inventory
                served = [inventory.source(each.id) for each in whole.machines(State.CONFIGURED)]
                assert served == ["sim"] * 6
                said = whole.assembled.live.published
                assert said is not None
                assert said.refused == {"new"}

                (tmp_path / "listed.json.new").rmdir()
                await asyncio.sleep(60)
                web.ask_for(7)
                await asyncio.sleep(60)
                assert len(whole.links["new"].sent) == 1

    run(scenario())


def test_a_directory_that_does_not_say_who_was_listed_waits_for_all(tmp_path: Path) -> None:
    """It may be of any age; and it goes on so until all were listed."""

    async def scenario() -> None:
        async with east_and_west() as providers:
            await served_from_the_east(tmp_path, providers)
            (tmp_path / "listed.json").unlink()
            for _ in range(2):
                async with running(tmp_path, providers, **QUICKLY) as whole:
                    whole.links["east"].hangs = True
                    async with whole.cluster() as web:
                        web.ask_for(3)
                        await asyncio.sleep(100)
                        assert whole.sent() == 0

    run(scenario())


def test_meanwhile_nobody_is_preempted_and_what_nobody_needs_is_released(tmp_path: Path) -> None:
    async def scenario() -> None:
        specs = (
            a_provider(slots=0, idle=2, name="east"),
            a_provider(slots=0, idle=3, name="west", seed=2, zone="west-1"),
        )
        async with sims(*specs) as providers:
            async with running(tmp_path, providers) as whole:
                async with whole.cluster("batch") as batch, whole.cluster() as web:
                    web.ask_for(2, priority=1000)
                    await asyncio.sleep(100)
                    batch.ask_for(3, priority=10)
                    await asyncio.sleep(100)
                    assert len(whole.machines(State.CONFIGURED)) == 5
                inventory = whole.assembled.live.inventory
                of_web = [m for m in whole.machines() if m.cluster == "web"]
                hidden = {inventory.source(machine.id) for machine in of_web}
                assert len(hidden) == 1
            async with running(tmp_path, providers, **QUICKLY) as whole:
                whole.links[hidden.pop()].hangs = True
                async with whole.cluster("batch") as batch, whole.cluster() as web:
                    web.ask_for(2, priority=1000)
                    batch.ask_for(3, priority=10)
                    await asyncio.sleep(100)
                    kinds = {each.order.action.kind for each in whole.journal.records()}
                    assert kinds == {ActionKind.PREEMPT}
                    assert whole.sent() == 0

                    batch.ask_for(1, priority=10)
                    await asyncio.sleep(100)
                    assert len(batch.reclaims) == 2

    run(scenario())


@pytest.mark.parametrize("by_s", [86_400.0, -86_400.0])
def test_a_clock_that_is_set_neither_releases_idle_machines_nor_keeps_them(
    tmp_path: Path, by_s: float
) -> None:
    async def scenario() -> None:
        clock = SettableClock()
        async with sims(a_provider(slots=4)) as providers:
            async with running(tmp_path, providers, clock) as whole:
                async with whole.cluster() as web:
                    web.ask_for(2)
                    await asyncio.sleep(300)
                    web.ask_for(0)
                    await asyncio.sleep(120)
                    assert len(whole.machines(State.IDLE)) == 2
                    clock.set_by_s = by_s
                    await asyncio.sleep(400)
                    assert len(whole.machines(State.IDLE)) == 2
                    await asyncio.sleep(200)
                    assert len(whole.machines(State.SPECULATIVE)) == 4

    run(scenario())


def test_after_a_restart_holds_begin_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=2)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.ask_for(1)
                await asyncio.sleep(300)
                web.ask_for(0)
                await asyncio.sleep(500)
                assert len(whole.machines(State.IDLE)) == 1
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.ask_for(0)
                await asyncio.sleep(590)
                assert len(whole.machines(State.IDLE)) == 1
                await asyncio.sleep(60)
                assert len(whole.machines(State.SPECULATIVE)) == 2

    run(scenario())
