"""A provider moves a machine from one domain into another, between two whole shards.

Both report to the real coordinator. Nobody can ask before the first list that says so: for a while
both may have the machine. What serves is not touched, and in the end it has one owner.
"""

import asyncio
from pathlib import Path

from mainstay.coordinator import commands
from mainstay.coordinator.records import ConflictKind
from mainstay.model.ids import MachineId
from mainstay.model.state import State
from reporting_pair import ROUND_S, Pair, calls, ids, play
from two_shards import OF_SIM


def test_a_machine_that_serves_stays_with_its_shard_and_goes_to_the_other_when_it_is_free(
    tmp_path: Path,
) -> None:
    async def scenario(both: Pair) -> None:
        both.of_a.ask_for(6)
        await asyncio.sleep(60)
        [name, *_] = sorted(each.id for each in both.a.machines(State.CONFIGURED))
        before = calls(both.a, name), calls(both.b, name)

        await both.relabel(name, "zone-c")
        await asyncio.sleep(ROUND_S)
        assert name in ids(both.a)
        assert name not in ids(both.b)
        assert ConflictKind.STRAY in both.leader.told
        assert both.doubled_s < ROUND_S
        assert both.leader.desk.fleet.strays[MachineId(name)].shard == "a"
        assert (calls(both.a, name), calls(both.b, name)) == before

        both.of_a.ask_for(0)
        await asyncio.sleep(2_000)
        assert name not in ids(both.a)
        assert name in ids(both.b)
        assert dict(both.leader.desk.fleet.strays) == {}

    play(tmp_path, scenario)


def test_one_that_is_free_ends_with_the_owner_of_its_new_domain(tmp_path: Path) -> None:
    async def scenario(both: Pair) -> None:
        [name, *_] = sorted(ids(both.a))

        await both.relabel(name, "zone-c")
        await asyncio.sleep(2 * ROUND_S)
        assert name not in ids(both.a)
        assert name in ids(both.b)
        both.of_b.ask_for(4)
        await asyncio.sleep(60)
        assert name in {each.id for each in both.b.machines(State.CONFIGURED)}
        assert calls(both.a, name) == 0

    play(tmp_path, scenario)


def test_its_quota_goes_with_it(tmp_path: Path) -> None:
    async def scenario(both: Pair) -> None:
        desk = both.leader.desk
        desk.do(commands.set_quota(desk.fleet, OF_SIM, 9))
        await asyncio.sleep(ROUND_S)
        assert dict(desk.fleet.quotas[OF_SIM].granted) == {"a": 6, "b": 3}
        [name, *_] = sorted(ids(both.a))

        await both.relabel(name, "zone-c")
        await asyncio.sleep(3 * ROUND_S)
        assert dict(desk.fleet.quotas[OF_SIM].granted) == {"a": 5, "b": 4}

    play(tmp_path, scenario)


def test_one_whose_label_comes_back_is_its_shards_again(tmp_path: Path) -> None:
    async def scenario(both: Pair) -> None:
        both.of_a.ask_for(6)
        await asyncio.sleep(60)
        [name, *_] = sorted(ids(both.a))

        await both.relabel(name, "zone-c")
        await asyncio.sleep(ROUND_S)
        await both.relabel(name, "zone-a")
        await asyncio.sleep(ROUND_S)
        assert name in ids(both.a)
        both.of_a.ask_for(0)
        await asyncio.sleep(2_000)
        assert name in ids(both.a)
        assert name not in ids(both.b)
        assert dict(both.leader.desk.fleet.strays) == {}

    play(tmp_path, scenario)
