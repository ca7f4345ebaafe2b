"""What is barred, by docs/explanation/decision.md, for the plain engine."""

from collections.abc import Iterable, Mapping

from mainstay.engine.barred import Barred
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.resources import covers
from mainstay.model.state import State
from oracles.plain_demand import Book, Row, contributes, domain_of, fits
from oracles.plain_gangs import together

POOLS = (State.IDLE, State.SPECULATIVE)


def is_barred(machine: Machine, source: str, barred: Barred) -> bool:
    """Whether it is free and something that must not be acquired names it."""
    if machine.state not in POOLS:
        return False
    by_value = any(machine.profile.attribute(key) == value for key, value in barred.values)
    profile = machine.profile
    sold_out = machine.state is State.SPECULATIVE and any(
        (offer.source, offer.instance_type, offer.zone, offer.capacity_type)
        == (source, profile.instance_type, profile.zone, profile.capacity_type)
        for offer in barred.offers
    )
    return sold_out or source in barred.sources or by_value or machine.id in barred.machines


def barred_among(
    fleet: Iterable[Machine], sources: Mapping[MachineId, str], barred: Barred
) -> set[MachineId]:
    return {m.id for m in fleet if is_barred(m, sources[m.id], barred)}


def is_locked_out(book: Book, row: Row) -> bool:
    """Of a need that misses something, once phase 2 is over."""
    kept_back = [m for m in book.fleet if m.id in book.barred and fits(row.need, m)]
    if not row.is_gang:
        return any(contributes(row, row.unresolved, m) for m in kept_back)
    free = book.unclaimed(book.in_state(*POOLS))
    claimed = [m for m in book.fleet if book.claims.get(m.id) is row]
    for domain in {domain_of(row.need, m) for m in kept_back}:
        near = [m for m in [*free, *claimed] if fits(row.need, m)]
        here = [m for m in near if domain_of(row.need, m) == domain]
        if covers(together(here), row.need.aggregate):
            return True
    return False
