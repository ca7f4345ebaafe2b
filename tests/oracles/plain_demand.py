"""The words of docs/explanation/decision.md and its section 1, for the plain engine."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from mainstay.engine.plan import Ceiling
from mainstay.model.action import Action
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, NeedProfile, Operator, WhenUnsatisfiable
from mainstay.model.resources import Units, covers, scale
from mainstay.model.state import State
from oracles.plain_quota import Spent

Domain = tuple[str, ...]


@dataclass
class Row:
    """One need as this cycle sees it, and what has become of it."""

    need: Need
    refs: frozenset[NeedRef]
    folded: bool = False
    parked: bool = False
    hopeless: bool = False
    ceiling: Ceiling | None = None
    passed_over: bool = False
    """Whether the quota forbade a machine that it would have taken."""

    drains: bool = False
    """Whether phase 2 took anything for it."""

    missing: dict[str, int] = field(default_factory=dict)
    unresolved: dict[str, int] = field(default_factory=dict)
    domain: Domain | None = None
    satisfiable: bool = False
    credited: list[Machine] = field(default_factory=list)

    @property
    def is_gang(self) -> bool:
        return bool(self.need.profile.same_keys)

    @property
    def priority(self) -> int:
        return self.need.profile.priority


@dataclass
class Book:
    """The machines in order of their ids, who has claimed them, and what is to be done."""

    fleet: list[Machine]
    heard: frozenset[ClusterId]
    spent: Spent
    gangs: set[NeedRef] = field(default_factory=set)
    claims: dict[MachineId, Row] = field(default_factory=dict)
    spoken_for: set[MachineId] = field(default_factory=set)
    barred: set[MachineId] = field(default_factory=set)
    acquired: list[Action] = field(default_factory=list)
    preempts: list[Action] = field(default_factory=list)
    excess: dict[MachineId, NeedRef] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)

    def in_state(self, *states: State, cluster: str | None = None) -> list[Machine]:
        machines = [m for m in self.fleet if m.state in states]
        return machines if cluster is None else [m for m in machines if m.cluster == cluster]

    def unclaimed(self, machines: Iterable[Machine]) -> list[Machine]:
        return [m for m in machines if m.id not in self.claims]

    def claim(self, row: Row, machines: Iterable[Machine]) -> None:
        for machine in machines:
            assert machine.id not in self.claims
            self.claims[machine.id] = row

    def note_passed_over(self, row: Row, spent: Spent, where: str) -> None:
        row.passed_over |= bool(spent.passed_over)
        for machine in spent.passed_over:
            self.notes.add(f"{machine.state} passed over in {where}")

    @property
    def drained(self) -> set[MachineId]:
        return {action.machine for action in self.preempts} | self.excess.keys()


# Words


def alloc(machine: Machine) -> Units:
    return machine.effective_allocatable.units


def matches(need: Need, machine: Machine) -> bool:
    return need.profile.matches(machine.profile)


def fits(need: Need, machine: Machine) -> bool:
    return matches(need, machine) and covers(alloc(machine), need.min_unit)


def domain_of(need: Need, machine: Machine) -> Domain:
    return tuple(machine.profile.attribute(key) or "" for key in need.profile.same_keys)


def wanted(units: Units) -> dict[str, int]:
    return {name: amount for name, amount in units.items() if amount > 0}


def adds(row: Row, machine: Machine) -> Units:
    have, unit = alloc(machine), wanted(row.need.min_unit)
    if not row.folded or not unit:
        return have
    return scale(unit, min(have.get(name, 0) // amount for name, amount in unit.items()))


def contributes(row: Row, missing: Units, machine: Machine) -> bool:
    return any(adds(row, machine).get(name, 0) > 0 for name in missing)


def gather(
    row: Row, missing: dict[str, int], machines: Iterable[Machine], spent: Spent | None = None
) -> tuple[list[Machine], dict[str, int]]:
    """Those taken, one after the other until nothing is missing, and what is missing then.

    What is acquired is spent; what the quota forbids is passed over.
    """
    taken = []
    for machine in machines:
        allowed = missing and contributes(row, missing, machine)
        if allowed and (spent is None or spent.spend(row.need.cluster, machine)):
            taken.append(machine)
            more = adds(row, machine)
            missing = wanted({name: missing[name] - more.get(name, 0) for name in missing})
    return taken, missing


def keep_order(machines: Iterable[Machine]) -> list[Machine]:
    return sorted(
        machines,
        key=lambda m: (
            m.price_per_hour,
            -(m.assignment.reclamation_penalty_dollars or 0.0),
            m.id,
        ),
    )


def assigned_ref(machine: Machine) -> NeedRef | None:
    assigned = machine.assignment
    if assigned.cluster is None or assigned.fingerprint is None:
        return None
    return NeedRef(assigned.cluster, assigned.fingerprint, assigned.group or "")


# 1. Demand as this cycle sees it


def walk_order(book: Book, needs: Sequence[Need]) -> list[Row]:
    passed: list[Row] = []
    folded: dict[tuple[str, str, tuple[tuple[str, int], ...]], list[Need]] = {}
    for need in needs:
        if need.profile.same_keys and is_foldable(book, need):
            amounts = tuple(sorted(wanted(need.aggregate).items()))
            key = (need.cluster, without_same(need.profile).fingerprint, amounts)
            folded.setdefault(key, []).append(need)
        else:
            passed.append(Row(need, refs_of(need), missing=wanted(need.aggregate)))
    rows = [*passed, *(folded_row(folded[key]) for key in sorted(folded))]
    return sorted(rows, key=lambda row: -row.priority)


def is_foldable(book: Book, need: Need) -> bool:
    own = book.in_state(State.CONFIGURED, State.CONFIGURING, cluster=need.cluster)
    anywhere = book.in_state(State.IDLE, State.SPECULATIVE)
    return any(matches(need, m) and covers(alloc(m), need.aggregate) for m in [*own, *anywhere])


def folded_row(gangs: Sequence[Need]) -> Row:
    one = gangs[0]
    arrivals = [gang.arrival_nanos for gang in gangs if gang.arrival_nanos]
    need = Need(
        cluster=one.cluster,
        profile=without_same(one.profile),
        aggregate=scale(one.aggregate, len(gangs)),
        min_unit=one.aggregate,
        arrival_nanos=min(arrivals, default=0),
        group="",
    )
    refs = frozenset({need.ref}).union(*(refs_of(gang) for gang in gangs))
    return Row(need, refs, folded=True, missing=wanted(need.aggregate))


def without_same(profile: NeedProfile) -> NeedProfile:
    kept = tuple(r for r in profile.requirements if r.operator is not Operator.SAME)
    return replace(profile, requirements=kept)


def refs_of(need: Need) -> frozenset[NeedRef]:
    if not need.profile.same_keys:
        return frozenset({need.ref})
    return frozenset({need.ref, NeedRef(need.cluster, without_same(need.profile).fingerprint, "")})


def hard_spread(need: Need) -> tuple[str, int] | None:
    for spread in sorted(need.profile.spread, key=lambda s: s.topology_key):
        if spread.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE:
            return spread.topology_key, max(1, spread.max_skew)
    return None
