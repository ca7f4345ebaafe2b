"""The planner in a closed loop: three shards, demand that swings, reports that are a tick old.

One tick is one interval between reports. A shard serves its demand from its own machines and tells
what is missing and what is free; the plan is made from what was told a tick ago; a move takes two
ticks, and the donor gives only what is free when it is asked.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Final, NamedTuple

import pytest

from mainstay.coordinator.rebalance import Options, PastMove, Proposal, Standing, plan
from mainstay.model.ids import ShardId
from rebalancing import INTERVAL, free, shard, short

NAMES: Final = tuple(map(ShardId, "abc"))
CYCLES_PER_TICK: Final = 3
TICKS: Final = 240
OPTIONS: Final = Options()

Demand = Callable[[ShardId, int], int]
"""How many machines a shard needs at a tick."""


class Hop(NamedTuple):
    machine: int
    donor: ShardId
    recipient: ShardId
    tick: int


@dataclass
class Loop:
    """Machines are numbers."""

    machines: dict[ShardId, set[int]]
    demand: Demand
    tick: int = 0
    age: dict[ShardId, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    asked: list[Proposal] = field(default_factory=list)
    given: list[tuple[Proposal, frozenset[int]]] = field(default_factory=list)
    settled: list[PastMove] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    told: Standing = field(default_factory=lambda: Standing(now_ns=0))

    def missing(self, name: ShardId) -> int:
        return max(0, self.demand(name, self.tick) - len(self.machines[name]))

    def idle(self, name: ShardId) -> int:
        return max(0, len(self.machines[name]) - self.demand(name, self.tick))

    def run(self, ticks: int = TICKS) -> None:
        for _ in range(ticks):
            self.arrive()
            self.give()
            self.asked = list(plan(self.told, OPTIONS).proposals)
            self.told = self.report()
            self.tick += 1
            for name in NAMES:
                self.age[name] = self.age[name] + CYCLES_PER_TICK if self.missing(name) else 0

    def arrive(self) -> None:
        for proposal, machines in self.given:
            self.machines[proposal.recipient] |= machines
            self.settled.append(self.past(proposal, len(machines), open_=False))
            self.hops += [
                Hop(machine, proposal.donor, proposal.recipient, self.tick) for machine in machines
            ]
        self.given = []

    def give(self) -> None:
        for proposal in self.asked:
            mine = self.machines[proposal.donor]
            count = min(proposal.wanted.machines_max, self.idle(proposal.donor))
            machines = frozenset(sorted(mine)[:count])
            mine -= machines
            self.given.append((proposal, machines))

    def report(self) -> Standing:
        shards = {}
        for name in NAMES:
            rows = [free(self.idle(name))] if self.idle(name) else []
            wants = f"{self.missing(name)}xcpu:4"
            misses = [short(needs=wants, age=self.age[name])] if self.missing(name) else []
            shards[name] = shard(*rows, *misses)
        now = self.tick * INTERVAL
        moves = [
            *self.settled,
            *(self.past(proposal, len(machines)) for proposal, machines in self.given),
            *(self.past(proposal, proposal.wanted.machines_max) for proposal in self.asked),
        ]
        heard = {name: replace(each, reported_at_ns=now) for name, each in shards.items()}
        return Standing(now_ns=now, shards=heard, moves=tuple(moves))

    def past(self, proposal: Proposal, machines: int, *, open_: bool = True) -> PastMove:
        return PastMove(
            donor=proposal.donor, recipient=proposal.recipient, tier=proposal.tier,
            fingerprint=proposal.fingerprint, instance_types=proposal.instance_types,
            machines=machines, open=open_, settled_at_ns=self.tick * INTERVAL,
        )  # fmt: skip


def a_loop(demand: Demand, **machines: int) -> Loop:
    owned: dict[ShardId, set[int]] = {}
    for name in NAMES:
        first = sum(map(len, owned.values()))
        owned[name] = set(range(first, first + machines[name]))
    return Loop(machines=owned, demand=demand)


def steady(**needs: int) -> Demand:
    return lambda name, _: needs[name]


def turns(period: int) -> Demand:
    """The peak goes round, and stays at each shard for so many ticks."""
    return lambda name, tick: 30 if NAMES[tick // period % len(NAMES)] == name else 5


def at_random(seed: int) -> Demand:
    """Each shard's demand changes now and then, to anything."""
    chance = Random(seed)
    levels = {
        (name, tick): chance.choice([0, 5, 10, 20, 35])
        for name, tick in product(NAMES, range(TICKS // 10 + 1))
    }
    return lambda name, tick: levels[name, tick // 10]


def comings_back(hops: list[Hop]) -> list[int]:
    """After how many ticks a type moved the other way between two shards."""
    return [
        later.tick - hop.tick
        for hop, later in product(hops, hops)
        if (later.donor, later.recipient) == (hop.recipient, hop.donor) and later.tick >= hop.tick
    ]


@pytest.mark.parametrize("period", [3, 5, 9, 20, 60])
def test_demand_that_goes_round_makes_no_machine_go_to_and_fro(period: int) -> None:
    loop = a_loop(turns(period), a=15, b=15, c=15)

    loop.run()

    assert loop.hops
    assert min(comings_back(loop.hops), default=TICKS) >= OPTIONS.cool_down_intervals


@pytest.mark.parametrize("seed", range(5))
def test_nor_does_demand_at_random(seed: int) -> None:
    loop = a_loop(at_random(seed), a=20, b=20, c=20)

    loop.run()

    assert loop.hops
    assert min(comings_back(loop.hops), default=TICKS) >= OPTIONS.cool_down_intervals
    assert sorted(number for mine in loop.machines.values() for number in mine) + [
        number for _, machines in loop.given for number in sorted(machines)
    ] == sorted(range(60))


@pytest.mark.parametrize("seed", range(5))
def test_a_shortfall_that_lasts_is_met_when_there_is_capacity_elsewhere(seed: int) -> None:
    """Whatever happened before."""
    before, last = at_random(seed), steady(a=30, b=5, c=5)
    loop = a_loop(lambda name, tick: (before if tick < 100 else last)(name, tick), a=20, b=20, c=20)

    loop.run(140)

    assert loop.missing(NAMES[0]) == 0


def test_it_is_met_with_no_machine_more_than_was_missing_and_then_nothing_moves() -> None:
    loop = a_loop(steady(a=30, b=10, c=5), a=10, b=60, c=40)

    loop.run()

    assert loop.missing(NAMES[0]) == 0
    assert len(loop.hops) == 20


def test_where_there_is_no_capacity_nothing_moves_and_the_margin_stays() -> None:
    loop = a_loop(steady(a=30, b=10, c=5), a=10, b=11, c=5)

    loop.run()

    assert loop.hops == []


def test_a_peak_of_one_report_moves_nothing() -> None:
    loop = a_loop(lambda name, tick: 30 if name == "a" and tick % 4 == 0 else 5, a=10, b=40, c=40)

    loop.run()

    assert loop.hops == []
