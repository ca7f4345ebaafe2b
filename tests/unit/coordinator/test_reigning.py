"""What a leader has in memory is what the store has, whatever becomes of a write."""

import asyncio
from pathlib import Path

import pytest

from coordinating import EAST, NOW, WEST, A, B
from mainstay.coordinator import commands, snapshots
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.reigning import Reigning
from mainstay.coordinator.store import Change, Deposed, Overtaken
from mainstay.model.errors import NotLeading, Rejected, Unavailable, Unknown
from reigns import Stage, a_report, on_stage, taking


async def with_shards(stage: Stage) -> None:
    for shard in (A, B):
        await stage.reigning.carry_out(taking(a_report(shard)))


async def assign(reigning: Reigning) -> Fleet:
    return await reigning.one(lambda fleet: commands.assign_domain(fleet, EAST, A, NOW))


async def stored(stage: Stage) -> Fleet:
    return Fleet.from_entries((await stage.store.load()).entries)


def test_what_is_carried_out_is_stored_and_known(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await with_shards(stage)

        await assign(stage.reigning)

        assert stage.reigning.fleet.domains[EAST].shard == A
        assert (await stored(stage)).domains[EAST].shard == A
        assert stage.value("loads_total") == 1
        assert stage.value("apply_total", outcome="success") == 4

    on_stage(tmp_path, scenario)


def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        before = await stage.store.load()

        with pytest.raises(Unknown):
            await assign(stage.reigning)

        assert await stage.store.load() == before
        assert stage.value("apply_total", outcome="refused") == 1

    on_stage(tmp_path, scenario)


@pytest.mark.parametrize("is_stored", [True, False])
def test_when_the_store_does_not_say_all_is_read_again_before_anything_else(
    tmp_path: Path, is_stored: bool
) -> None:
    async def scenario(stage: Stage) -> None:
        await with_shards(stage)
        stage.will_fail(Unavailable("no answer"), is_stored=is_stored)

        with pytest.raises(Unavailable):
            await assign(stage.reigning)
        with pytest.raises(Unavailable, match="has not said what it holds"):
            _ = stage.reigning.fleet
        assert (EAST in (await stage.reigning.current()).domains) is is_stored
        await stage.reigning.one(lambda fleet: commands.assign_domain(fleet, WEST, A, NOW))

        assert (EAST in stage.reigning.fleet.domains) is is_stored
        assert stage.reigning.fleet.domains[WEST].shard == A
        assert stage.value("apply_total", outcome="error") == 1
        assert stage.value("loads_total") == 2

    on_stage(tmp_path, scenario)


def test_a_call_that_is_given_up_while_it_writes_leaves_nothing_in_memory_that_is_not_so(
    tmp_path: Path,
) -> None:
    async def scenario(stage: Stage) -> None:
        await with_shards(stage)
        stage.will_fail(asyncio.CancelledError(), is_stored=True)

        with pytest.raises(asyncio.CancelledError):
            await assign(stage.reigning)

        after = await stage.reigning.one(lambda _: Change())
        assert after.domains[EAST].shard == A

    on_stage(tmp_path, scenario)


def test_a_caller_that_hangs_up_stops_nothing(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await with_shards(stage)

        async with asyncio.TaskGroup() as tasks:
            caller = tasks.create_task(assign(stage.reigning))
            await asyncio.sleep(0)
            caller.cancel()
        after = await stage.reigning.one(lambda _: Change())

        assert caller.cancelled()
        assert after.domains[EAST].shard == A
        assert stage.value("loads_total") == 1

    on_stage(tmp_path, scenario)


def test_who_was_overtaken_reads_and_decides_once_more(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await with_shards(stage)
        stage.will_fail(Overtaken("somebody was faster"))

        await assign(stage.reigning)

        assert stage.reigning.fleet.domains[EAST].shard == A
        assert stage.value("loads_total") == 2

    on_stage(tmp_path, scenario)


def test_who_is_overtaken_twice_says_so(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await with_shards(stage)
        stage.will_fail(Overtaken("somebody was faster"))
        stage.will_fail(Overtaken("and again"))

        with pytest.raises(Overtaken, match="and again"):
            await assign(stage.reigning)

        assert EAST not in (await stored(stage)).domains

    on_stage(tmp_path, scenario)


def test_who_was_deposed_leads_no_more(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await with_shards(stage)
        stage.will_fail(Deposed("term 1 is over"))

        with pytest.raises(NotLeading):
            await assign(stage.reigning)

        assert stage.reigning.over.is_set()
        assert not stage.reigning.is_valid

    on_stage(tmp_path, scenario)


def test_commands_are_decided_one_after_the_other(tmp_path: Path) -> None:
    """Each sees what the one before has stored: of two that want one domain, one is told no."""

    async def scenario(stage: Stage) -> None:
        await with_shards(stage)
        wants = [
            stage.reigning.one(lambda fleet: commands.assign_domain(fleet, EAST, A, NOW)),
            stage.reigning.one(lambda fleet: commands.assign_domain(fleet, EAST, B, NOW)),
        ]

        ended = await asyncio.gather(  # noqa: TID251 - both ends are looked at
            *wants, return_exceptions=True
        )

        assert sorted(type(each).__name__ for each in ended) == ["Fleet", "Taken"]
        assert stage.value("loads_total") == 1

    on_stage(tmp_path, scenario)


def test_a_term_that_a_shard_has_heard_raises_ours_above_it(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        assert stage.reigning.above(stage.reigning.fleet, stage.reigning.term) == Change()

        await stage.reigning.one(lambda fleet: stage.reigning.above(fleet, 900))

        assert stage.reigning.term == 901
        later = await stage.next_reign()
        assert later.term > 901

    on_stage(tmp_path, scenario)


def test_a_store_that_is_half_restored_is_not_led(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.leadership.commit(Change(puts={snapshots.RESTORING: b"{}"}))

        with pytest.raises(Rejected, match="restore of this store was begun and not ended"):
            await stage.next_reign()

    on_stage(tmp_path, scenario)
