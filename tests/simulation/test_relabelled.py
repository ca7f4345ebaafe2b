"""A provider moves a machine from one domain into another, between two whole shards.

Both report to the real coordinator. Nobody can ask before the first list that says so: for a while
both may have the machine. What serves is not touched, and in the end it has one owner.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mainstay.coordinator import commands
from mainstay.coordinator.records import ConflictKind
from mainstay.model.batch import MachineBatch
from mainstay.model.calls import GetRequest, ListRequest
from mainstay.model.ids import MachineId
from mainstay.model.state import State
from mainstay.shard.outcomes import Outcome
from reporting_pair import ROUND_S, Pair, calls, ids, play
from shard_over_sim import SimLink
from two_shards import OF_SIM
from whole_shard import Whole


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


@dataclass
class Lists:
    """What a provider tells a shard, which may be held up."""

    link: SimLink
    may_come: asyncio.Event = field(default_factory=asyncio.Event)

    def hold(self) -> None:
        listing = self.link.listing

        async def late(request: ListRequest) -> MachineBatch:
            await self.may_come.wait()
            return await listing(request)

        self.link.listing = late  # type: ignore[method-assign]


@pytest.mark.parametrize("late", ["a", "b"])
def test_one_that_is_free_and_wanted_by_both_serves_one_of_them(tmp_path: Path, late: str) -> None:
    """Shard a has not heard of the new label yet. The call of one of them travels a while."""

    async def scenario(both: Pair) -> None:
        both.of_b.ask_for(3)
        await asyncio.sleep(60)
        lists = Lists(both.a.links["sim"])
        lists.hold()
        name = MachineId(min(ids(both.a)))
        await both.relabel(name, "zone-c")
        await until(lambda: name in ids(both.b))
        sides = {"a": (both.a, both.of_a, 6), "b": (both.b, both.of_b, 4)}
        loser, its_cluster, its_machines = sides.pop(late)
        [(winner, cluster, machines)] = sides.values()

        loser.links["sim"].travel_s[name] = 2.0
        its_cluster.ask_for(its_machines)
        await until(lambda: calls(loser, name) > 0)
        cluster.ask_for(machines)
        served: set[str | None] = set()
        for _ in range(4 * 120):
            await asyncio.sleep(0.25)
            served.add((await both.sim.provider.get(GetRequest(machine=name))).cluster)

        assert served - {None} == {cluster.name}
        assert (calls(winner, name), calls(loser, name)) == (1, 1)
        assert outcomes(winner, name) == [Outcome.ACCEPTED]
        assert outcomes(loser, name) == [Outcome.REFUSED_ACK]

        lists.may_come.set()
        await asyncio.sleep(2 * ROUND_S)
        assert ConflictKind.STRAY in both.leader.told
        assert cluster.states()[name] is State.CONFIGURED
        assert its_cluster.states().get(name) is not State.CONFIGURED
        both.of_a.ask_for(0)
        both.of_b.ask_for(0)
        await asyncio.sleep(2_000)
        assert name not in ids(both.a)
        assert name in ids(both.b)
        assert dict(both.leader.desk.fleet.strays) == {}

    play(tmp_path, scenario)


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(4_000):
        if is_so():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("never")


def outcomes(whole: Whole, machine: str) -> list[Outcome | None]:
    """What became of what a shard did with a machine."""
    return [
        told.outcome for told in whole.journal.records() if told.order.action.machine == machine
    ]
