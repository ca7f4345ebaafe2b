"""Machines that nobody has, though a shard was told that others have them.

Parked ones are known: the owner of their domain would not take them back. Those adrift are not: all
that is left of them is that a shard says they are away. After a store was lost nobody can know
whether such a machine is nobody's, or its shard is only silent. So nothing is done about them until
a person says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mainstay.coordinator import commands, handover, keys
from mainstay.coordinator.claims import Intake
from mainstay.coordinator.fleet import Draft, Fleet, batched
from mainstay.coordinator.records import ConflictKind, DomainState, StrayState
from mainstay.coordinator.store import Change
from mainstay.model.coordination import Handed, ShardReport
from mainstay.model.errors import Taken, Unavailable, Unknown
from mainstay.model.ids import MachineId, ShardId

AWAY_MAX: Final = 10_000
"""Of one report; a shard that says as many may have more."""


def says_all(report: ShardReport) -> bool:
    """Whether all that is away is named."""
    return report.can_hand_over and len(report.away) < AWAY_MAX


def offered_again(intake: Intake) -> Iterator[Change]:
    """A shard with other providers than before may take what it would not. To be asked before they
    are recorded, so that a leader that dies in between is followed by one that asks too.
    """
    fleet, report = intake.fleet, intake.report
    standing = fleet.shards.get(report.shard)
    names = {line.name for line in report.providers}
    if standing is None or names == {*standing.providers}:
        return
    mine = [
        Handed(machine, fleet.strays[machine].provider, fleet.strays[machine].domain)
        for machine in _parked(fleet, report.shard)
        if fleet.strays[machine].provider in names
        and handover.heir(fleet, fleet.strays[machine]) == report.shard
    ]
    for few in batched(mine):
        draft = intake.begin()
        handover.offer(
            draft, few, by=handover.Giver(report.shard), to=report.shard, now_ns=intake.now_ns,
            why="its providers have changed",
        )  # fmt: skip
        yield draft.change()


def parked(intake: Intake) -> Iterator[Change]:
    """Those that it has by now, or that lie in its domains no longer, are parked no more."""
    fleet, report = intake.fleet, intake.report
    away = {handed.machine for handed in report.away}
    over: list[MachineId] = []
    stay: list[MachineId] = []
    for machine in _parked(fleet, report.shard):
        record = fleet.strays[machine]
        owner = handover.owner_of(fleet, record.domain)
        elsewhere = owner != report.shard and (owner, record.home) != (None, report.shard)
        has = says_all(report) and record.domain in report.domains and machine not in away
        (over if elsewhere or has else stay).append(machine)
    for few in batched(over):
        draft = intake.begin()
        for machine in few:
            draft.delete(keys.stray(machine))
        yield draft.change()
    left = [each for each in stay if handover.heir(fleet, fleet.strays[each]) == report.shard]
    if left:
        provider = fleet.strays[left[0]].provider
        what = f"{report.shard} would not take {_so_many(left)} of {provider}, and nobody has it"
        intake.differ(ConflictKind.PARKED, report.shard, report.shard, what)


def adrift(intake: Intake) -> None:
    """A conflict for what is away and nobody's. What it is giving just now it has yet to tell."""
    fleet, report = intake.fleet, intake.report
    pending = [record.move for _, record in fleet.pending(report.shard) if record.move]
    if any(handover.is_asked(fleet.moves[move]) for move in pending):
        return
    found = [handed.machine for handed in _adrift(fleet, report)]
    if found:
        what = f"others should have {_so_many(found)} of {report.shard}, and nobody does"
        intake.differ(ConflictKind.ADRIFT, report.shard, report.shard, what)


def unaware(intake: Intake) -> Iterator[Change]:
    """The owner of a domain that does not know that another shard has a machine of it is told: it
    may have the machine too.
    """
    fleet, report = intake.fleet, intake.report
    if not says_all(report):
        return
    away = {handed.machine for handed in report.away}
    again = set()
    for machine, record in sorted(fleet.strays.items()):
        domain = record.domain
        owner = fleet.domains.get(domain) if domain is not None else None
        if (
            domain is None
            or owner != commands.held(report.shard)
            or domain not in report.domains
            or record.shard == report.shard
            or record.state is StrayState.PARKED
            or machine in away
        ):
            continue
        again.add(domain)
        what = f"{record.shard} has it, and {report.shard} was not told that it is away"
        intake.differ(ConflictKind.STRAY, machine, record.shard, what)
    for domain in sorted(again):
        draft = intake.begin()
        commands.assign(draft, domain, report.shard, intake.now_ns)
        yield draft.change()


def return_machines(
    fleet: Fleet,
    shard: ShardId,
    machines: Sequence[MachineId],
    heard: Mapping[ShardId, ShardReport],
    now_ns: int,
) -> Iterator[Change]:
    """Let a shard have again what it was told is away: these machines, or all that nobody has.

    `heard` is the last report of each shard. Taken: a shard has a machine or says so; Unknown: the
    shard does not miss it; Unavailable: the shard has yet to say what it misses.
    """
    commands.known(fleet, shard)
    if shard not in heard:
        raise Unavailable(f"{shard} has not reported to this leader yet: ask again")
    missed = {each.machine: each for each in heard[shard].away}
    for machine in _parked(fleet, shard):
        record = fleet.strays[machine]
        missed[machine] = Handed(machine, record.provider, record.domain)
    listed = {
        stray.machine: name for name, report in sorted(heard.items()) for stray in report.strays
    }
    nobodys = {each.machine for each in _adrift(fleet, heard[shard])} | {*_parked(fleet, shard)}
    chosen = sorted({*machines} if machines else nobodys - listed.keys())
    for machine in chosen:
        known = fleet.strays.get(machine)
        if known is not None and known.state is not StrayState.PARKED:
            raise Taken(f"{known.shard} has {machine}, or was told to take it: nothing is returned")
        if machine in listed:
            raise Taken(f"{listed[machine]} says that it has {machine}: nothing is returned")
        if machine not in missed:
            raise Unknown(f"{shard} does not say that it is away: {machine}")
    for few in batched([missed[machine] for machine in chosen]):
        draft = Draft(fleet)
        handover.offer(
            draft,
            few,
            by=handover.Giver(shard),
            to=shard,
            now_ns=now_ns,
            why="returned by an administrator",
        )
        yield draft.change()


def _parked(fleet: Fleet, shard: ShardId) -> list[MachineId]:
    mine = fleet.strays_of(shard)
    return sorted(each for each in mine if fleet.strays[each].state is StrayState.PARKED)


def _adrift(fleet: Fleet, report: ShardReport) -> list[Handed]:
    """Of a domain that leaves, whoever gets it next has all that is no stray."""
    return [
        handed
        for handed in sorted(report.away)
        if handed.machine not in fleet.strays
        and (handed.domain is None or _is_held(fleet, handed, report.shard))
    ]


def _is_held(fleet: Fleet, handed: Handed, shard: ShardId) -> bool:
    record = fleet.domains.get(handed.domain) if handed.domain is not None else None
    return record is not None and (record.shard, record.state) == (shard, DomainState.HELD)


def _so_many(machines: Sequence[MachineId]) -> str:
    if len(machines) == 1:
        return f"the machine {machines[0]}"
    return f"{len(machines)} machines such as {machines[0]}"
