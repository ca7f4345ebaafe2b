"""Shares of an entitlement, whatever is lost, late or repeated and whoever crashes: together shards
never hold more than there is, and once it is quiet everybody has what there is for it.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinating import EAST, METAL, NOW, PROVIDERS, WEST, Desk, a_proposal
from mainstay.coordinator import commands, quotas, removal
from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    Grant,
    Handed,
    InstructAck,
    Instruction,
    Outcome,
    QuotaKind,
    QuotaLine,
    QuotaMoved,
    QuotaOf,
    ReportAck,
    ShardReport,
    Stray,
    TransferOwnership,
    UnassignDomain,
)
from mainstay.model.errors import Fenced, MainstayError, Rejected
from mainstay.model.ids import ClusterId, MachineId, ShardId
from outside import examples

OF: Final = QuotaOf(QuotaKind.PLACE, METAL)
NAMES: Final = tuple(map(ShardId, "abc"))
GIVES: Final = 2
"""So many machines a donor gives at once."""


@dataclass(slots=True)
class World:
    """The provider: which machines there are, and where they lie."""

    lies_in: dict[MachineId, Domain] = field(default_factory=dict)
    nobodys: set[MachineId] = field(default_factory=set)
    """Let go of: whoever gets their domain, or is told to take them, has them."""

    bound: set[MachineId] = field(default_factory=set)
    """They serve somebody: nobody lets go of them."""

    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def made(self, domain: Domain) -> MachineId:
        name = MachineId(f"m{next(self.numbers)}")
        self.lies_in[name] = domain
        return name

    def unmade(self, machine: MachineId) -> None:
        del self.lies_in[machine]
        self.bound.discard(machine)


@dataclass(frozen=True, slots=True)
class Holding:
    """A shard: what it holds and uses is on its disk or at its provider, the rest is not."""

    name: ShardId
    world: World
    domains: frozenset[Domain]
    held: int = 0
    wanted: int = 0
    epoch: int = 1
    number: int = 0
    machines: frozenset[MachineId] = frozenset()
    leaving: frozenset[MachineId] = frozenset()
    told: frozenset[MachineId] = frozenset()
    """Which of its strays were heard of in this life."""

    away: frozenset[MachineId] = frozenset()
    done: tuple[InstructAck, ...] = ()
    acks: tuple[InstructAck, ...] = ()

    @property
    def used(self) -> int:
        return len(self.machines)

    def report(self) -> ShardReport:
        lies_in = self.world.lies_in
        return ShardReport(
            shard=self.name,
            epoch=self.epoch,
            number=self.number,
            can_hand_over=True,
            providers=PROVIDERS,
            domains=tuple(sorted(self.domains)),
            strays=tuple(
                Stray(each, METAL, lies_in[each], leaving=each in self.leaving)
                for each in sorted(self.machines)
                if lies_in[each] not in self.domains
            ),
            away=tuple(Handed(each, METAL, lies_in[each]) for each in sorted(self.away)),
            acks=self.acks,
            quota=(QuotaLine(OF, max(self.held, self.used), self.used, self.wanted),),
        )

    def heard(self, answer: ReportAck) -> "Holding":
        after = next((self._granted(grant) for grant in answer.grants if grant.of == OF), self)
        after = replace(after, acks=(), told=self.leaving)
        for instruction in answer.instructions:
            after = after.carried_out(instruction)
        return after

    def _granted(self, grant: Grant) -> "Holding":
        if 0 <= grant.target < self.held:
            return replace(self, held=min(max(grant.target, self.used), self.held))
        return replace(self, held=max(grant.granted, self.held))

    def carried_out(self, told: Instruction) -> "Holding":
        known = [ack for ack in self.done if ack.instruction == told.id]
        if known:
            return replace(self, acks=(*self.acks, *known))
        after, given, moved = self._effect(told)
        quota = (QuotaMoved(OF, moved),) if moved else ()
        ack = InstructAck(instruction=told.id, outcome=Outcome.ACCEPTED, given=given, quota=quota)
        return replace(after, done=(*self.done, ack), acks=(*self.acks, ack))

    def _effect(self, told: Instruction) -> tuple["Holding", tuple[Handed, ...], int]:
        match told.payload:
            case TransferOwnership(machines=machines, wanted=None):
                return self._taken(machines), (), 0
            case TransferOwnership(wanted=wanted) if wanted is not None:
                gone = self._chosen(wanted.machines_max)
                after = self._without(gone)
                lies_in = self.world.lies_in
                kept = {each for each in gone if lies_in[each] in self.domains}
                given = tuple(Handed(each, METAL, lies_in[each]) for each in gone)
                return replace(after, away=after.away | kept), given, len(gone)
            case UnassignDomain(domain=domain):
                lies_in, bound = self.world.lies_in, self.world.bound
                mine = {each for each in self.machines if lies_in[each] == domain}
                self.world.nobodys |= mine - bound
                after = replace(self._without(mine - bound), domains=self.domains - {domain})
                away = frozenset(each for each in self.away if lies_in.get(each) != domain)
                leaving = self.leaving | (mine & bound)
                return replace(after, away=away, leaving=leaving), (), len(mine - bound)
            case AssignDomain(domain=domain, away=away):
                return self._assigned(domain, away), (), 0
            case _:
                raise AssertionError(told)

    def _chosen(self, most: int) -> list[MachineId]:
        free = self.machines - self.world.bound - self.leaving
        return sorted(free)[: min(most, GIVES)]

    def let_go(self) -> "Holding":
        """Of strays that were leaving and serve nobody any more. Nobody is told but by their
        absence.
        """
        free = self._free_to_go()
        self.world.nobodys |= free
        return replace(self._without(free), leaving=self.leaving - free)

    def half_let_go(self) -> "Holding":
        """It dies after it has lowered what it holds, and before it lets go of them."""
        return replace(self, held=max(self.held - len(self._free_to_go()), 0))

    def _free_to_go(self) -> frozenset[MachineId]:
        return (self.leaving & self.told & self.machines) - self.world.bound

    def half_done(self, answer: ReportAck) -> "Holding":
        """It dies after it has lowered what it holds, and before it lets go of anything."""
        held = self.held
        for told in answer.instructions:
            match told.payload:
                case TransferOwnership(wanted=wanted) if wanted is not None:
                    held = max(held - len(self._chosen(wanted.machines_max)), 0)
                case UnassignDomain(domain=domain):
                    lies_in = self.world.lies_in
                    mine = {each for each in self.machines if lies_in[each] == domain}
                    held = max(held - len(mine - self.world.bound), 0)
                case _:
                    pass
        return replace(self, held=held)

    def _without(self, gone: Collection[MachineId]) -> "Holding":
        left = self.machines - {*gone}
        return replace(self, machines=left, held=max(self.held - len(gone), 0))

    def _taken(self, machines: Collection[Handed]) -> "Holding":
        names = {each.machine for each in machines} & self.world.lies_in.keys()
        self.world.nobodys -= names
        return self._with(names, self.away - {each.machine for each in machines})

    def _assigned(self, domain: Domain, away: Collection[MachineId]) -> "Holding":
        lies_in, nobodys = self.world.lies_in, self.world.nobodys
        mine = {each for each in nobodys if lies_in[each] == domain} - {*away}
        nobodys -= mine
        stay = frozenset(each for each in self.leaving if lies_in.get(each) != domain)
        after = replace(self, domains=self.domains | {domain}, leaving=stay)
        kept = {each for each in self.away if lies_in.get(each) != domain}
        return after._with(mine, frozenset(kept | ({*away} & lies_in.keys())))

    def _with(self, machines: Collection[MachineId], away: frozenset[MachineId]) -> "Holding":
        return replace(self, machines=self.machines | {*machines}, away=away)


class Fleetwide:
    """Three shards, a leader, and reports that are still under way."""

    def __init__(self, entitled: int) -> None:
        self.desk = Desk()
        self.entitled = entitled
        self.world = World()
        owned = {"a": frozenset({EAST}), "b": frozenset({WEST}), "c": frozenset[Domain]()}
        self.shards = {name: Holding(name, self.world, owned[name]) for name in NAMES}
        self.late: list[ShardReport] = []
        self.moves = count()
        self.desk.do(commands.set_quota(self.desk.fleet, OF, entitled))

    def begin(self, start: tuple[int, int]) -> None:
        """`a` and `b` use so much, and `c` wants all that there is."""
        for name, amount in zip(NAMES, start, strict=False):
            self.wants(name, amount)
            self.report(name, 0)
            self.uses(name, amount)
            self.report(name, 0)
        self.wants(NAMES[2], self.entitled)
        self.report(NAMES[2], 0)

    def call(self, name: ShardId, *, answered: bool = True, arrives: bool = True) -> None:
        shard = self.shards[name] = replace(self.shards[name], number=self.shards[name].number + 1)
        if arrives:
            answer = self.desk.hear(shard.report())
            if answered:
                self.shards[name] = shard.heard(answer)

    def report(self, name: ShardId, _: int) -> None:
        self.call(name)

    def answer_lost(self, name: ShardId, _: int) -> None:
        self.call(name, answered=False)

    def delayed(self, name: ShardId, _: int) -> None:
        self.call(name, arrives=False)
        self.late.append(self.shards[name].report())

    def repeated(self, name: ShardId, _: int) -> None:
        before = self.shards[name]
        self.call(name)
        self.late.append(replace(before, number=self.shards[name].number).report())

    def arrives(self, _: ShardId, at: int) -> None:
        """Nobody waits for the answer any more."""
        if self.late:
            with contextlib.suppress(Rejected, Fenced):
                self.desk.hear(self.late.pop(at % len(self.late)))

    def crashes(self, name: ShardId, _: int) -> None:
        shard = self.shards[name]
        none = frozenset[MachineId]()
        self.shards[name] = replace(shard, epoch=shard.epoch + 1, number=0, acks=(), told=none)

    def dies_halfway(self, name: ShardId, amount: int) -> None:
        shard = self.shards[name] = replace(self.shards[name], number=self.shards[name].number + 1)
        self.shards[name] = shard.half_done(self.desk.hear(shard.report()))
        self.crashes(name, amount)

    def leader_crashes(self, _: ShardId, __: int) -> None:
        self.desk = self.desk.successor()

    def wants(self, name: ShardId, amount: int) -> None:
        self.shards[name] = replace(self.shards[name], wanted=amount)

    def uses(self, name: ShardId, amount: int) -> None:
        """Machines are made and deleted; it makes them only in a domain of its own."""
        shard = self.shards[name]
        wanted = max(min(amount, shard.held), min(amount, shard.used))
        machines = sorted(shard.machines)[:wanted]
        where = min(shard.domains, default=None)
        if where is not None:
            machines += [self.world.made(where) for _ in range(wanted - len(machines))]
        for each in shard.machines - {*machines}:
            self.world.unmade(each)
        self.shards[name] = replace(shard, machines=frozenset(machines))

    def returns(self, name: ShardId, amount: int) -> None:
        shard = self.shards[name]
        self.shards[name] = replace(shard, held=max(shard.used, shard.held - amount))

    def asks(self, name: ShardId, amount: int) -> None:
        """Machines of one shard for another."""
        other = [each for each in NAMES if each != name][amount % 2]
        proposal = a_proposal(donor=name, recipient=other)
        with contextlib.suppress(MainstayError):
            move = f"m{next(self.moves)}"
            self.desk.do(commands.begin_move(self.desk.fleet, proposal, move, NOW))

    def calls_off(self, _: ShardId, at: int) -> None:
        moves = sorted(self.desk.fleet.open_moves)
        if moves:
            with contextlib.suppress(MainstayError):
                self.desk.do(commands.cancel_move(self.desk.fleet, moves[at % len(moves)]))

    def hands_on(self, name: ShardId, amount: int) -> None:
        """A domain goes to this shard."""
        with contextlib.suppress(MainstayError):
            domain = (EAST, WEST)[amount % 2]
            self.desk.do(commands.move_domain(self.desk.fleet, domain, name, NOW))

    def serves(self, name: ShardId, amount: int) -> None:
        """So many of its machines are bound; those that no longer are and were leaving, go."""
        shard = self.shards[name]
        bound = frozenset(sorted(shard.machines)[:amount])
        self.world.bound -= shard.machines - bound
        self.world.bound |= bound

    def lets_go(self, name: ShardId, _: int) -> None:
        self.shards[name] = self.shards[name].let_go()

    def dies_letting_go(self, name: ShardId, amount: int) -> None:
        self.shards[name] = self.shards[name].half_let_go()
        self.crashes(name, amount)

    def takes_back(self, _: ShardId, amount: int) -> None:
        """A domain is nobody's."""
        domain = (EAST, WEST)[amount % 2]
        self.desk.do(commands.unassign_domain(self.desk.fleet, domain, NOW))

    def hands_out(self, name: ShardId, amount: int) -> None:
        """A domain of nobody's goes to this shard."""
        with contextlib.suppress(MainstayError):
            domain = (EAST, WEST)[amount % 2]
            self.desk.do(commands.assign_domain(self.desk.fleet, domain, name, NOW))

    def is_removed(self, name: ShardId, _: int) -> None:
        """It is gone for good, and its machines are not; another one has its name afterwards."""
        shard = self.shards[name]
        if name not in self.desk.fleet.shards:
            return
        self.desk.do(removal.remove_shard(self.desk.fleet, name, NOW))
        self.world.nobodys |= shard.machines
        self.late = [said for said in self.late if said.shard != name]
        fresh = Holding(name, self.world, frozenset(), epoch=shard.epoch + 1)
        self.shards[name] = fresh
        self.desk.seen.pop(name, None)

    def check(self) -> None:
        record = self.desk.fleet.quotas[OF]
        together = sum(max(each.held, each.used) for each in self.shards.values())
        nobodys = len(self.world.nobodys & self.world.lies_in.keys())
        assert together + nobodys <= self.entitled
        assert quotas.spoken_for(record) <= self.entitled
        for name, shard in self.shards.items():
            assert shard.held <= record.granted.get(name, 0)
        owned = [each for shard in self.shards.values() for each in shard.machines]
        assert len(owned) == len({*owned})
        assert not {*owned} & self.world.nobodys


F = Fleetwide
HAPPENINGS: Final = (
    F.report, F.report, F.report, F.answer_lost, F.delayed, F.repeated, F.arrives, F.arrives,
    F.crashes, F.leader_crashes, F.wants, F.wants, F.uses, F.uses, F.returns,
    F.asks, F.asks, F.calls_off, F.hands_on, F.hands_on, F.dies_halfway,
    F.serves, F.serves, F.lets_go, F.lets_go, F.dies_letting_go,
    F.takes_back, F.hands_out, F.hands_out, F.is_removed,
)  # fmt: skip

Happening = tuple[Callable[[Fleetwide, ShardId, int], None], ShardId, int]

_A, _B, _C = NAMES

STRAYS: Final[tuple[Happening, ...]] = (
    (F.serves, _A, 12), (F.hands_on, _B, 0), (F.report, _A, 0), (F.report, _A, 0),
    (F.report, _B, 0), (F.report, _B, 0), (F.report, _A, 0), (F.serves, _A, 1),
)  # fmt: skip
"""The east is `b`'s, and machines of it are still `a`'s, most of them free to go."""

LEFT: Final[tuple[Happening, ...]] = (
    (F.serves, _A, 12), (F.takes_back, _A, 0), (F.report, _A, 0), (F.report, _A, 0),
    (F.report, _A, 0), (F.serves, _A, 1),
)  # fmt: skip
"""The same, and the east is nobody's."""

GONE: Final[tuple[Happening, ...]] = ((F.is_removed, _A, 0), (F.report, _C, 0))
INHERITED: Final[tuple[Happening, ...]] = (*GONE, (F.hands_out, _C, 0), *[(F.report, _C, 0)] * 3)

HASTY: Final[tuple[Happening, ...]] = (
    (F.serves, _A, 12), (F.hands_on, _B, 0), (F.report, _A, 0), (F.serves, _A, 0),
    (F.lets_go, _A, 0), (F.report, _A, 0), (F.report, _C, 0), *[(F.report, _B, 0)] * 3,
)  # fmt: skip
"""What was kept is free before anybody has heard that it was kept."""

LET_GO: Final[tuple[Happening, ...]] = (
    (F.lets_go, _A, 0), (F.report, _A, 0), (F.report, _C, 0),
)  # fmt: skip

BEFORE: Final = (
    (), STRAYS, (*STRAYS, *LET_GO), LEFT, (*LEFT, *LET_GO), GONE, INHERITED, HASTY,
)  # fmt: skip

happenings = st.lists(
    st.tuples(st.sampled_from(HAPPENINGS), st.sampled_from(NAMES), st.integers(0, 12)), max_size=40
)


def fair(entitled: int, shards: list[Holding]) -> dict[ShardId, int]:
    """One by one, always to whom has least."""
    share = {shard.name: shard.used for shard in shards}
    most = {shard.name: max(shard.used, shard.wanted) for shard in shards}
    while sum(share.values()) < entitled:
        hungry = [name for name in share if share[name] < most[name]]
        if not hungry:
            break
        share[min(hungry, key=lambda name: (share[name], name))] += 1
    return share


@settings(max_examples=examples(150))
@given(st.integers(0, 12), st.tuples(*[st.integers(0, 6)] * 2), st.sampled_from(BEFORE), happenings)
def test_together_they_never_hold_more_and_when_it_is_quiet_each_has_its_share(
    entitled: int,
    start: tuple[int, int],
    first: tuple[Happening, ...],
    happened: list[Happening],
) -> None:
    fleet = Fleetwide(entitled)
    fleet.begin(start)

    for happens, name, amount in (*first, *happened):
        happens(fleet, name, amount)
        fleet.check()

    for _ in range(8):
        for name in NAMES:
            fleet.report(name, 0)
            fleet.check()
    waiting = fleet.desk.fleet.quotas[OF].waiting
    shares = fair(entitled - sum(waiting.values()), [*fleet.shards.values()])
    for name, share in shares.items():
        assert fleet.shards[name].held >= share


def test_the_line_of_a_cluster_that_no_shard_has_concerns_nobody() -> None:
    fleet = Fleetwide(5)
    answer = fleet.desk.report(NAMES[0], clusters=(ClusterId("other"),), providers=())

    assert answer.grants == ()
