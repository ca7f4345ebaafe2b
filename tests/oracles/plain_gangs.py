"""The domains of gangs as docs/explanation/decision.md ranks them, for the plain engine."""

from collections.abc import Sequence
from fractions import Fraction

from mainstay.engine.plan import Ceiling
from mainstay.model.machine import Machine
from mainstay.model.need import Need
from mainstay.model.resources import add, covers
from mainstay.model.state import State
from oracles.plain_demand import (
    Book,
    Domain,
    Row,
    alloc,
    assigned_ref,
    domain_of,
    fits,
    wanted,
)


def is_own(row: Row, machine: Machine) -> bool:
    """Of a creditable machine; one that is being created or drained is so for this gang."""
    in_flight = machine.state in {State.CREATING, State.DRAINING}
    return in_flight or assigned_ref(machine) == row.need.ref


Rank = tuple[bool, Fraction, Fraction, Fraction, int, Domain]


def choose_domain(row: Row, bound: Sequence[Machine], near: Sequence[Machine]) -> None:
    domains = {domain_of(row.need, m) for m in [*bound, *near]}
    ranks = [rank(row, domain, bound, near) for domain in domains]
    if ranks:
        unsatisfiable, *_, row.domain = min(ranks)
        row.satisfiable = not unsatisfiable


def rank(row: Row, domain: Domain, bound: Sequence[Machine], near: Sequence[Machine]) -> Rank:
    """The smallest is the best."""
    bound = [m for m in bound if domain_of(row.need, m) == domain]
    everything = [*bound, *(m for m in near if domain_of(row.need, m) == domain)]
    loads = shares(row.need, everything)
    is_sat = all(share >= 1 for share in loads)
    third = sum(loads, Fraction(0)) if is_sat else -coverage(row.need, everything)
    own = [m for m in bound if is_own(row, m)]
    cred = coverage(row.need, bound)
    return (not is_sat, -cred, -coverage(row.need, own), third, -len(everything), domain)


def shares(need: Need, machines: Sequence[Machine]) -> list[Fraction]:
    """Per wanted dimension, how many times over it is there."""
    return [
        Fraction(sum(alloc(m).get(name, 0) for m in machines), amount)
        for name, amount in wanted(need.aggregate).items()
    ]


def coverage(need: Need, machines: Sequence[Machine]) -> Fraction:
    return sum((min(Fraction(1), share) for share in shares(need, machines)), Fraction(0))


def judge(book: Book, row: Row) -> None:
    """Whether a gang is hopeless, and then its ceiling."""
    fitting = [m for m in book.fleet if m.state is not State.FAILED and fits(row.need, m)]
    by_domain: dict[Domain, list[Machine]] = {}
    for machine in fitting:
        by_domain.setdefault(domain_of(row.need, machine), []).append(machine)
    row.hopeless = not any(
        covers(together(machines), row.need.aggregate) for machines in by_domain.values()
    )
    ranks = [
        (-coverage(row.need, machines), -len(machines), domain)
        for domain, machines in by_domain.items()
    ]
    if row.hopeless and ranks:
        *_, best = min(ranks)
        row.ceiling = Ceiling(best, together(by_domain[best]))


def together(machines: Sequence[Machine]) -> dict[str, int]:
    total: dict[str, int] = {}
    for machine in machines:
        total = dict(add(total, alloc(machine)))
    return total
