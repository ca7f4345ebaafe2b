"""The decision engine once more, slow and plain, written from docs/explanation/decision.md alone.

Whole records, lists in the order the page names, exact fractions. Nothing here is shared with the
real engine but the types of the answer. The words and section 1 are in plain_demand.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from mainstay.engine.plan import Demand, Memory, Shortfall, Unsatisfied
from mainstay.engine.policy import Policy
from mainstay.model.action import Action, ActionKind
from mainstay.model.assignment import NeedRef
from mainstay.model.cost import UPPER_BOUND_DOLLARS
from mainstay.model.ids import Fingerprint, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, WhenUnsatisfiable
from mainstay.model.profile import CapacityType
from mainstay.model.resources import Units, add
from mainstay.model.state import State
from oracles.plain_demand import (
    Book,
    Domain,
    Row,
    alloc,
    assigned_ref,
    contributes,
    domain_of,
    fits,
    gather,
    keep_order,
    matches,
    walk_order,
    wanted,
)

Entry = tuple[Machine, float | None]
"""A machine, and since when it is idle."""

GRACES: Final = ((900_000, 10), (500_000, 30), (100_000, 120))
LONGEST_GRACE_S: Final = 600
SHORTFALLS_MAX: Final = 100


@dataclass(frozen=True)
class PlainPlan:
    """The same contents as the real plan."""

    actions: tuple[Action, ...]
    claimed: frozenset[MachineId]
    unsatisfied: tuple[Unsatisfied, ...]
    shortfalls: tuple[Shortfall, ...]
    memory: Memory

    def claimed_ids(self) -> list[MachineId]:
        return sorted(self.claimed)


def plain_decide(
    machines: Mapping[MachineId, Entry], demand: Demand, memory: Memory, policy: Policy, now: float
) -> PlainPlan:
    book = Book([machines[id_][0] for id_ in sorted(machines)], demand.heard)
    rows = walk_order(book, demand.needs)
    for row in rows:
        row.parked = row.is_gang and is_parked(memory.gang_ages.get(row.need.ref, 0), policy)
    book.gangs = {row.need.ref for row in rows if row.is_gang}
    cover(book, rows)
    preempt(book, rows)
    deletes = [
        Action(ActionKind.DELETE, m.id, None, None)
        for m in book.unclaimed(book.in_state(State.IDLE))
        if is_expired(m, machines[m.id][1], policy, now)
    ]
    shortfalls, shortfall_ages = tell_shortfalls(rows, memory)
    return PlainPlan(
        actions=(*book.acquired, *book.preempts, *reclaims(book), *deletes),
        claimed=frozenset(book.claims),
        unsatisfied=tuple(tell_unsatisfied(row) for row in rows if row.missing),
        shortfalls=shortfalls,
        memory=Memory(gang_ages=age_gangs(rows, memory), shortfall_ages=shortfall_ages),
    )


# 2. Cover


def cover(book: Book, rows: Sequence[Row]) -> None:
    for priority in sorted({row.priority for row in rows}, reverse=True):
        level = [row for row in rows if row.priority == priority]
        book.spoken_for.clear()
        for row in level:
            credit(book, row)
        credit_surplus(book, level)
        for row in sorted(level, key=lambda row: buckets(row.need), reverse=True):
            if row.missing:
                acquire(book, row)
    for row in rows:
        if row.is_gang and row.missing:
            protect(book, row)


def buckets(need: Need) -> tuple[int, int]:
    profile = need.profile
    return profile.interruption_penalty_bucket, profile.reclamation_penalty_bucket


def credit(book: Book, row: Row) -> None:
    candidates, near = creditable(book, row), acquirable(book, row)
    if row.is_gang:
        choose_domain(row, candidates, near)
        candidates = [m for m in candidates if domain_of(row.need, m) == row.domain]
        candidates.sort(key=lambda m: not is_own(row, m))
    row.credited, row.missing = gather(row, row.missing, candidates)
    book.claim(row, row.credited)
    if row.satisfiable:
        reach = [m for m in near if domain_of(row.need, m) == row.domain]
        book.spoken_for.update(m.id for m in gather(row, row.missing, reach)[0])


def credit_surplus(book: Book, level: Sequence[Row]) -> None:
    """What complete gangs have left over is open to the plain needs that are short."""
    gangs = {row.need.ref for row in level if row.is_gang}
    complete = gangs - {row.need.ref for row in level if row.is_gang and row.missing}
    book.gangs -= complete
    for row in level:
        if complete and not row.is_gang and row.missing:
            more, row.missing = gather(row, row.missing, creditable(book, row))
            row.credited += more
            book.claim(row, more)


def acquirable(book: Book, row: Row) -> list[Machine]:
    """What a gang may hope for."""
    return [m for m in in_pools(book, row) if not row.parked and m.id not in book.spoken_for]


def creditable(book: Book, row: Row) -> list[Machine]:
    others = book.gangs - {row.need.ref}
    bound = {
        state: [
            m
            for m in keep_order(book.in_state(state, cluster=row.need.cluster))
            if assigned_ref(m) not in others
        ]
        for state in (State.CONFIGURED, State.CONFIGURING)
    }
    kinds = [
        *bound[State.CONFIGURED],
        *bound[State.CONFIGURING],
        *(m for m in book.in_state(State.CREATING) if assigned_ref(m) in row.refs),
        *(m for m in book.in_state(State.DRAINING) if m.assignment.drained_for in row.refs),
    ]
    return [m for m in book.unclaimed(kinds) if fits(row.need, m)]


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


def in_pools(book: Book, row: Row) -> list[Machine]:
    """What may be acquired, in acquisition order."""
    machines = book.unclaimed(book.in_state(State.IDLE, State.SPECULATIVE))
    return sorted(
        (m for m in machines if fits(row.need, m)),
        key=lambda m: (m.state is State.SPECULATIVE, cost(row.need, m), m.id),
    )


def cost(need: Need, machine: Machine) -> float:
    """What its pool is ordered by: the price, of a slot the effective cost."""
    chance = machine.interruption_probability
    if machine.state is State.IDLE or chance == 0.0:
        return machine.price_per_hour
    penalty = UPPER_BOUND_DOLLARS[need.profile.interruption_penalty_bucket]
    return machine.price_per_hour + chance * penalty


def acquire(book: Book, row: Row) -> None:
    pool = in_pools(book, row)
    spread = hard_spread(row.need)
    if row.is_gang:
        near = [m for m in pool if domain_of(row.need, m) == row.domain]
        taken, missing = ([], row.missing) if row.parked else gather(row, row.missing, near)
        if missing:
            return
    elif spread is not None:
        taken, missing = gather_spread(row, pool, *spread)
    else:
        taken, missing = gather(row, row.missing, pool)
    row.missing = missing
    book.claim(row, taken)
    for machine in taken:
        idle = machine.state is State.IDLE
        kind = ActionKind.BOOTSTRAP if idle else ActionKind.PROVISION
        book.acquired.append(Action(kind, machine.id, row.need.cluster, row.need.ref))


def hard_spread(need: Need) -> tuple[str, int] | None:
    for spread in sorted(need.profile.spread, key=lambda s: s.topology_key):
        if spread.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE:
            return spread.topology_key, max(1, spread.max_skew)
    return None


def gather_spread(
    row: Row, pool: Sequence[Machine], key: str, skew: int
) -> tuple[list[Machine], dict[str, int]]:
    def value_of(machine: Machine) -> str:
        return machine.profile.attribute(key) or ""

    missing, taken = row.missing, list[Machine]()
    spreadable = [m for m in pool if m.profile.attribute(key) is not None]
    counted = [m for m in row.credited if m.profile.attribute(key) is not None]
    values = {value_of(m) for m in [*counted, *gatherable(row, missing, spreadable)]}
    for state in (State.IDLE, State.SPECULATIVE):
        while True:
            counts = Counter(value_of(m) for m in [*counted, *taken])
            limit = min((counts[value] for value in values), default=0) + skew
            left = [m for m in spreadable if m.state is state and m not in taken]
            open_ = [m for m in gatherable(row, missing, left) if counts[value_of(m)] < limit]
            if not open_:
                break
            head = min(open_, key=lambda m: (cost(row.need, m), value_of(m), m.id))
            _, missing = gather(row, missing, [head])
            taken.append(head)
    return taken, missing


def gatherable(row: Row, missing: Units, machines: Iterable[Machine]) -> list[Machine]:
    return [m for m in machines if contributes(row, missing, m)]


def protect(book: Book, row: Row) -> None:
    near = book.in_state(State.CONFIGURED, State.CONFIGURING, cluster=row.need.cluster)
    own = [m for m in near if assigned_ref(m) == row.need.ref and matches(row.need, m)]
    book.claim(row, book.unclaimed(own))


# 3. Preempt


def preempt(book: Book, rows: Sequence[Row]) -> None:
    for row in rows:
        row.unresolved = row.missing
        if row.missing and not row.parked and not (row.is_gang and row.domain is None):
            drain_for(book, row)


def drain_for(book: Book, row: Row) -> None:
    near = [m for m in in_pools(book, row) if domain_of(row.need, m) == row.domain]
    aside, missing = gather(row, row.missing, near if row.is_gang else [])
    excess, missing = gather(row, missing, excess_for(book, row))
    victims, missing = gather(row, missing, victims_for(book, row, excess))
    if row.is_gang and missing:
        return
    row.unresolved = missing
    book.claim(row, aside)
    book.excess |= {m.id: row.need.ref for m in excess}
    for victim in victims:
        grace = grace_s(row.priority - priority_of(book, victim))
        book.preempts.append(
            Action(ActionKind.PREEMPT, victim.id, victim.cluster, row.need.ref, grace)
        )


def drainable(book: Book, row: Row) -> list[Machine]:
    return [
        m
        for m in book.in_state(State.CONFIGURED)
        if m.id not in book.drained
        and fits(row.need, m)
        and (not row.is_gang or domain_of(row.need, m) == row.domain)
    ]


def excess_for(book: Book, row: Row) -> list[Machine]:
    unclaimed = [m for m in book.unclaimed(drainable(book, row)) if m.cluster in book.heard]
    return sorted(unclaimed, key=lambda m: (m.price_per_hour, m.id))


def victims_for(book: Book, row: Row, excess: Sequence[Machine]) -> list[Machine]:
    others = [m for m in drainable(book, row) if m not in excess]
    return sorted(
        (m for m in others if priority_of(book, m) < row.priority),
        key=lambda m: (-score(row.priority - priority_of(book, m), m), m.id),
    )


def priority_of(book: Book, victim: Machine) -> int:
    assigned = victim.assignment.priority or 0
    claimant = book.claims.get(victim.id)
    return assigned if claimant is None else max(assigned, claimant.priority)


def score(gap: int, victim: Machine) -> float:
    """In double precision and in this order: that is part of the rule."""
    assigned = victim.assignment
    interruption = max(0.01, assigned.interruption_penalty_dollars or 0.0)
    reclamation = max(0.01, assigned.reclamation_penalty_dollars or 0.0)
    return float(gap) + 0.1 / 30 + (0.1 / interruption + 0.1 / reclamation)


def grace_s(gap: int) -> int:
    return next((seconds for over, seconds in GRACES if gap > over), LONGEST_GRACE_S)


# 4. Release


def reclaims(book: Book) -> list[Action]:
    preempted = {action.machine for action in book.preempts}
    unclaimed = book.unclaimed(book.in_state(State.CONFIGURED))
    shed = [m for m in unclaimed if m.id not in preempted and m.cluster in book.heard]
    found = []
    for cluster in sorted({m.cluster for m in shed if m.cluster}):
        for m in reversed(keep_order(m for m in shed if m.cluster == cluster)):
            need = book.excess.get(m.id)
            found.append(Action(ActionKind.RECLAIM, m.id, cluster, need, LONGEST_GRACE_S))
    return found


def is_expired(machine: Machine, idle_since: float | None, policy: Policy, now: float) -> bool:
    holds = {
        CapacityType.ON_DEMAND: policy.hold_on_demand_s,
        CapacityType.SPOT: policy.hold_spot_s,
    }
    hold = holds.get(machine.profile.capacity_type)
    return hold is not None and idle_since is not None and now - idle_since >= hold


# 5. What is told


def tell_unsatisfied(row: Row) -> Unsatisfied:
    return Unsatisfied(
        need=row.need,
        deficit=row.missing,
        domain=row.domain,
        satisfiable=row.satisfiable,
        parked=row.parked,
        unresolved=row.unresolved,
    )


def tell_shortfalls(
    rows: Sequence[Row], memory: Memory
) -> tuple[tuple[Shortfall, ...], dict[Fingerprint, int]]:
    told: dict[Fingerprint, Shortfall] = {}
    for row in rows:
        if row.unresolved:
            fingerprint = row.need.profile.fingerprint
            age = memory.shortfall_ages.get(fingerprint, 0) + 1
            seen = told.get(fingerprint)
            deficit = add(seen.deficit, row.unresolved) if seen else row.unresolved
            told[fingerprint] = Shortfall(fingerprint, row.priority, deficit, age)
    ordered = sorted(told.values(), key=lambda s: (-s.priority, -s.age, s.fingerprint))
    return tuple(ordered[:SHORTFALLS_MAX]), {f: shortfall.age for f, shortfall in told.items()}


def age_gangs(rows: Sequence[Row], memory: Memory) -> dict[NeedRef, int]:
    stuck = {row.need.ref for row in rows if row.is_gang and row.missing and not row.satisfiable}
    return {ref: memory.gang_ages.get(ref, 0) + 1 for ref in stuck}


def is_parked(age: int, policy: Policy) -> bool:
    return age >= policy.park_after and age % policy.reprobe_every != 0
