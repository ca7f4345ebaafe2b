"""Section 5 of docs/explanation/decision.md, what is told, for the plain engine."""

from collections.abc import Sequence
from typing import Final

from mainstay.engine.plan import Memory, Shortfall, Unmet, Unsatisfied
from mainstay.engine.policy import Policy
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import Fingerprint
from mainstay.model.resources import add
from mainstay.model.state import State
from oracles.plain_barred import is_locked_out
from oracles.plain_demand import Book, Row, contributes, fits, hard_spread, wanted

SHORTFALLS_MAX: Final = 100


def tell_unsatisfied(book: Book, row: Row) -> Unsatisfied:
    return Unsatisfied(
        need=row.need,
        deficit=row.missing,
        domain=row.domain,
        satisfiable=row.satisfiable,
        parked=row.parked,
        unresolved=row.unresolved,
        reason=reason_of(book, row),
        ceiling=row.ceiling,
    )


def reason_of(book: Book, row: Row) -> Unmet:
    """The first that applies."""
    supply = [
        m
        for m in book.in_state(State.IDLE, State.SPECULATIVE, State.CONFIGURED)
        if fits(row.need, m)
        and book.claims.get(m.id) is not row
        and contributes(row, wanted(row.need.aggregate), m)
    ]
    left = [
        m
        for m in book.unclaimed(book.in_state(State.IDLE, State.SPECULATIVE))
        if fits(row.need, m) and contributes(row, row.unresolved, m)
    ]
    stuck = row.parked or row.domain is None or not row.satisfiable
    closed = hard_spread(row.need) is not None and bool(left)
    reasons = {
        Unmet.WAITING: not row.unresolved,
        Unmet.IMPOSSIBLE: row.hopeless,
        Unmet.QUOTA: row.passed_over,
        Unmet.BARRED: is_locked_out(book, row),
        Unmet.TOPOLOGY: stuck if row.is_gang else closed,
        Unmet.NO_SUPPLY: not supply,
        Unmet.PREEMPTION_EXHAUSTED: row.drains,
        Unmet.STARVED: True,
    }
    return next(reason for reason, applies in reasons.items() if applies)


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


def age_gangs(book: Book, rows: Sequence[Row], memory: Memory) -> dict[NeedRef, int]:
    short = [row for row in rows if row.is_gang and row.missing and not row.satisfiable]
    stuck = {row.need.ref for row in short if not is_locked_out(book, row)}
    return {ref: memory.gang_ages.get(ref, 0) + 1 for ref in stuck}


def is_parked(age: int, policy: Policy) -> bool:
    return age >= policy.park_after and age % policy.reprobe_every != 0
