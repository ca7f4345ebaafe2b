"""What a shard owns, said plainly: sets, and one function for each thing that happens to them."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from mainstay.model.coordination import (
    AssignDomain,
    CrossShardDrain,
    Domain,
    Handed,
    InstructAck,
    Instruction,
    Outcome,
    ReassignSpeculative,
    Stray,
    TransferOwnership,
    UnassignDomain,
)
from mainstay.model.ids import MachineId

PROVIDER = "metal"


class World(NamedTuple):
    """Where machines lie, and which of them serve somebody."""

    lies_in: Mapping[MachineId, Domain]
    bound: frozenset[MachineId]


class Plain(NamedTuple):
    """What is on the disk of a shard."""

    domains: frozenset[Domain] | None = None
    here: frozenset[tuple[MachineId, bool]] = frozenset()
    """(machine, whether it is leaving)."""

    away: frozenset[MachineId] = frozenset()
    term: int = 0
    done: tuple[InstructAck, ...] = ()


def owns(owned: Plain, machine: MachineId, world: World) -> bool:
    if machine in dict(owned.here):
        return True
    return machine not in owned.away and _inside(owned, world.lies_in[machine])


def strays(owned: Plain, world: World) -> tuple[Stray, ...]:
    return tuple(
        Stray(machine, PROVIDER, world.lies_in[machine], leaving=leaving)
        for machine, leaving in sorted(owned.here)
    )


def away(owned: Plain, world: World) -> tuple[Handed, ...]:
    """What others have inside its domains."""
    return tuple(
        Handed(machine, PROVIDER, world.lies_in[machine])
        for machine in sorted(owned.away)
        if _inside(owned, world.lies_in[machine])
    )


def swept(owned: Plain, world: World) -> Plain:
    """Leaving strays that are free are let go of."""
    kept = {(name, leaving) for name, leaving in owned.here if not leaving or name in world.bound}
    return owned._replace(here=frozenset(kept))


def dropped(owned: Plain, machine: MachineId) -> Plain:
    """A stray that its provider no longer has."""
    return owned._replace(here=frozenset(each for each in owned.here if each[0] != machine))


def carry_out(
    owned: Plain,
    instruction: Instruction,
    world: World,
    *,
    refuses: Callable[[Instruction], bool] = lambda _: False,
) -> tuple[Plain, InstructAck]:
    """What is on the disk after it, and the answer; one that was done is only answered."""
    before = [ack for ack in owned.done if ack.instruction == instruction.id]
    if instruction.term < owned.term:
        return owned, _ack(instruction, Outcome.REJECTED_STALE)
    owned = owned._replace(term=instruction.term)
    if before:
        return owned, before[0]
    if refuses(instruction):
        return _finished(owned, _ack(instruction, Outcome.REJECTED_INVALID))
    return _finished(*_effect(owned, instruction, world))


def _effect(owned: Plain, told: Instruction, world: World) -> tuple[Plain, InstructAck]:
    match told.payload:
        case AssignDomain(domain=domain, away=away):
            return _assigned(owned, domain, away, world), _ack(told)
        case UnassignDomain(domain=domain):
            return _unassigned(owned, domain, world), _ack(told)
        case TransferOwnership(machines=machines, wanted=None):
            return _taken(owned, machines), _ack(told)
        case TransferOwnership() | ReassignSpeculative() | CrossShardDrain():
            after, given = _given(owned, world)
            return after, _ack(told, given=given)
        case _:
            return owned, _ack(told, Outcome.REJECTED_INVALID)


def _finished(owned: Plain, ack: InstructAck) -> tuple[Plain, InstructAck]:
    return owned._replace(done=(*owned.done, ack)), ack


def _ack(
    instruction: Instruction,
    outcome: Outcome = Outcome.ACCEPTED,
    given: tuple[Handed, ...] = (),
) -> InstructAck:
    return InstructAck(instruction=instruction.id, outcome=outcome, given=given)


def _inside(owned: Plain, domain: Domain) -> bool:
    return owned.domains is None or domain in owned.domains


def _assigned(owned: Plain, domain: Domain, away: Collection[MachineId], world: World) -> Plain:
    here = {each for each in owned.here if world.lies_in[each[0]] != domain}
    if owned.domains is None:
        here |= {
            (machine, True)
            for machine, where in world.lies_in.items()
            if where != domain and machine in world.bound and owns(owned, machine, world)
        }
    kept = {machine for machine in owned.away if world.lies_in[machine] != domain}
    domains = (owned.domains or frozenset()) | {domain}
    return owned._replace(domains=domains, here=frozenset(here), away=frozenset(kept | {*away}))


def _unassigned(owned: Plain, domain: Domain, world: World) -> Plain:
    if owned.domains is None or domain not in owned.domains:
        return owned
    kept = {
        (machine, True)
        for machine, where in world.lies_in.items()
        if where == domain and machine in world.bound and machine not in owned.away
    }
    away = frozenset(each for each in owned.away if world.lies_in[each] != domain)
    return owned._replace(domains=owned.domains - {domain}, here=owned.here | kept, away=away)


def _given(owned: Plain, world: World) -> tuple[Plain, tuple[Handed, ...]]:
    """The first free machine it has."""
    for machine, where in sorted(world.lies_in.items()):
        if machine in world.bound or not owns(owned, machine, world):
            continue
        away = owned.away | {machine} if _inside(owned, where) else owned.away
        after = dropped(owned, machine)._replace(away=away)
        return after, (Handed(machine, PROVIDER, where),)
    return owned, ()


def _taken(owned: Plain, machines: Collection[Handed]) -> Plain:
    for machine, _, domain in machines:
        owned = owned._replace(away=owned.away - {machine})
        if domain is not None and not _inside(owned, domain):
            owned = owned._replace(here=owned.here | {(machine, False)})
    return owned
