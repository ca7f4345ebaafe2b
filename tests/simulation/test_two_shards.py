"""Machines change hands between two whole shards over one provider, while both work and die."""

import asyncio
from pathlib import Path

import pytest

from outside import soak_factor
from two_shards import Entitlement, Fleet, Kill, fleet, three_zones, zone
from virtual_loop import run


async def a_domain_moves_under_load(made: Fleet) -> None:
    """Zone b goes from a to b: machines of it serve, and some are on their way."""
    made.a.ask_for(7)
    await asyncio.sleep(3)
    made.coordinator.move(zone("zone-b"), "b")
    await made.settle()
    made.b.ask_for(4)
    await asyncio.sleep(40)


def test_a_domain_moves_while_machines_of_it_serve_and_actions_are_in_flight(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with fleet(tmp_path) as made:
            await a_domain_moves_under_load(made)
            assert len(made.a.serving()) == 7
            assert len(made.b.serving()) == 4
            assert any("zone-b" in name for name in made.a.serving())
            assert made.a.drained == []
            await made.each_has_one_owner()

            made.a.ask_for(2)
            await asyncio.sleep(200)
            assert not any("zone-b" in name for name in made.a.ids())
            assert made.b.ids() >= {n for n in await made.all_machines() if "zone-b" in n}
            await made.each_has_one_owner()

    run(scenario())


def test_a_shard_gives_idle_machines_that_it_does_not_need(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with fleet(tmp_path, three_zones(slots=0)) as made:
            made.a.ask_for(4)
            made.b.ask_for(6)
            await asyncio.sleep(40)
            assert len(made.b.serving()) == 4
            made.coordinator.hand_over("a", "b", 3)
            await made.settle(40)
            assert len(made.coordinator.acks[0].given) == 3
            assert len(made.a.serving()) == 4
            assert len(made.b.serving()) == 6
            assert made.a.drained == []
            await made.each_has_one_owner()

    run(scenario())


def test_a_shard_gives_speculative_slots(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with fleet(tmp_path, three_zones(idle=1, slots=4)) as made:
            made.b.ask_for(7)
            await asyncio.sleep(100)
            made.coordinator.hand_over("a", "b", 2, speculative=True)
            await made.settle(100)
            assert len(made.coordinator.acks[0].given) == 2
            assert len(made.b.serving()) == 7
            await made.each_has_one_owner()

    run(scenario())


def test_a_shard_drains_what_matters_less_and_gives_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with fleet(tmp_path, three_zones(slots=0)) as made:
            made.a.priority = 10
            made.a.ask_for(8)
            made.b.ask_for(6)
            await asyncio.sleep(40)
            assert len(made.a.serving()) == 8
            made.coordinator.drain("a", "b", 2)
            await made.settle(40)
            assert len(made.a.drained) == 2
            assert made.a.cluster is not None
            assert {told.preemptor_priority for told in made.a.cluster.reclaims} == {1000}
            assert len(made.b.serving()) == 6
            assert len(made.a.serving()) == 6
            await made.each_has_one_owner()

    run(scenario())


async def everything(made: Fleet) -> None:
    """A domain moves there and back, machines that are idle or serve less are handed over."""
    await a_domain_moves_under_load(made)
    made.coordinator.hand_over("b", "a", 1)
    await made.settle()
    assert made.a.drained + made.b.drained == []
    made.b.priority = 10
    made.b.ask_for(5)
    made.a.ask_for(5)
    await asyncio.sleep(40)
    made.coordinator.drain("b", "a", 1)
    made.coordinator.move(zone("zone-b"), "a")
    await made.settle(40)


WRITES = {"a": 8, "b": 8}
"""How often each writes what it owns in all that."""

MOMENTS = [True] if soak_factor() == 1 else [True, False]
"""After a write, before the memory follows; in long runs before it, too."""

KILLS = [
    Kill(shard, write, after)
    for shard, writes in WRITES.items()
    for write in range(1, writes + 1)
    for after in MOMENTS
]


@pytest.mark.parametrize("kill", KILLS, ids=str)
def test_a_crash_at_any_write_loses_no_machine_and_doubles_none(tmp_path: Path, kill: Kill) -> None:
    async def scenario() -> None:
        async with fleet(tmp_path, three_zones(slots=0), kill=kill) as made:
            await everything(made)
            await made.each_has_one_owner()
            assert made.a.lives + made.b.lives == 3

    run(scenario())


ENTITLED = 10


async def both_are_hungry(made: Fleet) -> None:
    """Idle machines are given and a domain moves, and whoever lost them wants more at once."""
    made.coordinator.quota = Entitlement(ENTITLED, {"a": 7, "b": 3})
    await asyncio.sleep(12)
    made.a.ask_for(1)
    made.b.ask_for(4)
    await asyncio.sleep(60)
    made.coordinator.hand_over("a", "b", 1)
    await made.settle(5)
    made.b.ask_for(12)
    made.coordinator.move(zone("zone-b"), "b")
    await made.next_ack()
    made.a.ask_for(12)
    await made.settle(150)


def test_both_together_never_use_more_than_they_are_entitled_to(tmp_path: Path) -> None:
    """Quota goes with what goes, before it goes. It is looked at all the time."""

    async def scenario() -> None:
        async with fleet(tmp_path, three_zones(idle=3, slots=4)) as made:
            await both_are_hungry(made)
            moved = [bool(ack.given) for ack in made.coordinator.acks if ack.quota]
            assert moved == [True, False]
            assert len(made.a.serving()) + len(made.b.serving()) == ENTITLED
            assert made.coordinator.quota is not None
            assert sum(made.coordinator.quota.granted.values()) == ENTITLED
            await made.each_has_one_owner()

    run(scenario())


QUOTA_WRITES = [("a", "owned", 4), ("a", "quota", 3), ("b", "quota", 3)]

QUOTA_KILLS = [
    Kill(shard, write, after, file)
    for shard, file, writes in QUOTA_WRITES
    for write in range(1, writes + 1)
    for after in MOMENTS
]


@pytest.mark.parametrize("kill", QUOTA_KILLS, ids=str)
def test_nor_do_they_after_a_crash_at_any_write(tmp_path: Path, kill: Kill) -> None:
    async def scenario() -> None:
        async with fleet(tmp_path, three_zones(idle=3, slots=4), kill=kill) as made:
            await both_are_hungry(made)
            assert made.a.lives + made.b.lives == 3
            await made.each_has_one_owner()

    run(scenario())
