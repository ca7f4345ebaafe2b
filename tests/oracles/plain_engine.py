"""The decision engine once more, slow and plain, written from docs/explanation/decision.md alone.

Whole records, lists in the order the page names, exact fractions. Nothing here is shared with the
real engine but the types of its inputs and of the answer. The words and section 1 are in
plain_demand, the domains of gangs in plain_gangs, the exchange in plain_exchange, the quota in
plain_quota, bars in plain_barred, section 5 in plain_told.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mainstay.engine.plan import Demand, Memory, Shortfall, Unsatisfied
from mainstay.engine.policy import Policy
from mainstay.model.action import Action, ActionKind
from mainstay.model.cost import UPPER_BOUND_DOLLARS
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need
from mainstay.model.profile import CapacityType
from mainstay.model.resources import Units
from mainstay.model.state import State
from oracles.plain_barred import barred_among
from oracles.plain_demand import (
    Book,
    Row,
    adds,
    assigned_ref,
    contributes,
    domain_of,
    fits,
    gather,
    hard_spread,
    keep_order,
    matches,
    walk_order,
    wanted,
)
from oracles.plain_exchange import exchange
from oracles.plain_gangs import choose_domain, is_own, judge
from oracles.plain_quota import Spent, spent_by
from oracles.plain_told import age_gangs, is_parked, tell_shortfalls, tell_unsatisfied


class Entry(NamedTuple):
    """A machine, since when it is idle, and the provider that reports it."""

    machine: Machine
    idle_since: float | None = None
    source: str = ""


GRACES: Final = ((900_000, 10), (500_000, 30), (100_000, 120))
LONGEST_GRACE_S: Final = 600


@dataclass(frozen=True)
class PlainPlan:
    """The same contents as the real plan."""

    actions: tuple[Action, ...]
    claimed: frozenset[MachineId]
    unsatisfied: tuple[Unsatisfied, ...]
    shortfalls: tuple[Shortfall, ...]
    memory: Memory
    notes: frozenset[str] = frozenset()
    """What happened on the way that the rest does not show; only the plain engine has any."""

    def claimed_ids(self) -> list[MachineId]:
        return sorted(self.claimed)


def plain_decide(
    machines: Mapping[MachineId, Entry], demand: Demand, memory: Memory, policy: Policy, now: float
) -> PlainPlan:
    book, rows = begin(machines, demand, memory, policy)
    cover(book, rows)
    if settled := exchange(book, rows):
        book, rows = begin(machines, demand, memory, policy)
        book.notes.add("exchanged")
        for place, credited in settled.items():
            settle(book, rows[place], credited)
        cover(book, rows)
    preempt(book, rows)
    deletes = [
        Action(ActionKind.DELETE, m.id, None, None)
        for m in book.unclaimed(book.in_state(State.IDLE))
        if is_expired(m, machines[m.id].idle_since, policy, now)
    ]
    shortfalls, shortfall_ages = tell_shortfalls(rows, memory)
    return PlainPlan(
        actions=(*book.acquired, *book.preempts, *reclaims(book), *deletes),
        claimed=frozenset(book.claims),
        unsatisfied=tuple(tell_unsatisfied(book, row) for row in rows if row.missing),
        shortfalls=shortfalls,
        memory=Memory(gang_ages=age_gangs(book, rows, memory), shortfall_ages=shortfall_ages),
        notes=frozenset(book.notes),
    )


def begin(
    machines: Mapping[MachineId, Entry], demand: Demand, memory: Memory, policy: Policy
) -> tuple[Book, list[Row]]:
    """Before anybody has claimed anything."""
    fleet = [machines[id_].machine for id_ in sorted(machines)]
    sources = {id_: entry.source for id_, entry in machines.items()}
    book = Book(fleet, demand.heard, spent_by(fleet, demand.quota, sources))
    book.barred = barred_among(fleet, sources, demand.barred)
    rows = walk_order(book, demand.needs)
    for row in rows:
        if row.is_gang:
            judge(book, row)
            age = memory.gang_ages.get(row.need.ref, 0)
            row.parked = row.hopeless or is_parked(age, policy)
    book.gangs = {row.need.ref for row in rows if row.is_gang}
    return book, rows


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
        if row.missing:
            protect(book, row)


def buckets(need: Need) -> tuple[int, int]:
    profile = need.profile
    return profile.interruption_penalty_bucket, profile.reclamation_penalty_bucket


def settle(book: Book, row: Row, machines: Sequence[Machine]) -> None:
    """These count for a need before anybody claims."""
    for machine in machines:
        more = adds(row, machine)
        left = {name: amount - more.get(name, 0) for name, amount in row.missing.items()}
        row.missing = wanted(left)
    row.credited = list(machines)
    book.claim(row, machines)


def credit(book: Book, row: Row) -> None:
    candidates, near = creditable(book, row), acquirable(book, row)
    if row.is_gang:
        choose_domain(row, candidates, near)
        candidates = [m for m in candidates if domain_of(row.need, m) == row.domain]
        candidates.sort(key=lambda m: not is_own(row, m))
    more, row.missing = gather(row, row.missing, candidates)
    row.credited += more
    book.claim(row, more)
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


def in_pools(book: Book, row: Row) -> list[Machine]:
    """What may be acquired, in acquisition order."""
    machines = book.unclaimed(book.in_state(State.IDLE, State.SPECULATIVE))
    return sorted(
        (m for m in machines if fits(row.need, m) and m.id not in book.barred),
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
    pool, spent = in_pools(book, row), book.spent.attempt()
    spread = hard_spread(row.need)
    if row.is_gang:
        near = [m for m in pool if domain_of(row.need, m) == row.domain and not row.parked]
        taken, missing = gather(row, row.missing, near, spent)
        kind = "gang"
    elif spread is not None:
        taken, missing = gather_spread(row, pool, spent, *spread)
        kind = "spread"
    else:
        taken, missing = gather(row, row.missing, pool, spent)
        kind = "plain"
    book.note_passed_over(row, spent, f"acquiring, {kind}")
    if row.is_gang and missing:
        return
    row.missing = missing
    book.spent = spent
    book.claim(row, taken)
    for machine in taken:
        idle = machine.state is State.IDLE
        action = ActionKind.BOOTSTRAP if idle else ActionKind.PROVISION
        book.acquired.append(Action(action, machine.id, row.need.cluster, row.need.ref))


def gather_spread(
    row: Row, pool: Sequence[Machine], spent: Spent, key: str, skew: int
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
            gone = [*taken, *spent.passed_over]
            left = [m for m in spreadable if m.state is state and m not in gone]
            open_ = [m for m in gatherable(row, missing, left) if counts[value_of(m)] < limit]
            if not open_:
                break
            head = min(open_, key=lambda m: (cost(row.need, m), value_of(m), m.id))
            more, missing = gather(row, missing, [head], spent)
            taken += more
    return taken, missing


def gatherable(row: Row, missing: Units, machines: Iterable[Machine]) -> list[Machine]:
    return [m for m in machines if contributes(row, missing, m)]


def protect(book: Book, row: Row) -> None:
    near = book.in_state(State.CONFIGURED, State.CONFIGURING, cluster=row.need.cluster)
    beyond = not any(fits(row.need, m) for m in book.fleet if m.state is not State.FAILED)
    own = [m for m in near if assigned_ref(m) == row.need.ref]
    kept = [m for m in own if beyond or (row.is_gang and matches(row.need, m))]
    book.claim(row, book.unclaimed(kept))


# 3. Preempt


def preempt(book: Book, rows: Sequence[Row]) -> None:
    for row in rows:
        row.unresolved = row.missing
        if row.missing and not row.parked and not (row.is_gang and row.domain is None):
            drain_for(book, row)


def drain_for(book: Book, row: Row) -> None:
    spent = book.spent.attempt()
    near = [m for m in in_pools(book, row) if domain_of(row.need, m) == row.domain]
    aside, missing = gather(row, row.missing, near if row.is_gang else [], spent)
    excess, missing = gather(row, missing, excess_for(book, row), spent)
    victims, missing = gather(row, missing, victims_for(book, row, excess), spent)
    book.note_passed_over(row, spent, f"preempting, {'gang' if row.is_gang else 'plain'}")
    if row.is_gang and missing:
        return
    row.unresolved = missing
    row.drains = bool(excess or victims)
    book.spent = spent
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
    hold = holds.get(machine.profile.capacity_type, 0.0)
    return bool(hold) and idle_since is not None and now - idle_since >= hold
