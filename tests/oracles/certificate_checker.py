"""The separate checker: what is wrong with a certificate, from docs/explanation/reasons.md alone.

Plain records, lists and exact numbers; it shares no code with those who explain. What it takes for
given is the plan: the needs, who claims what, the actions, what is told of the unsatisfied. That
the plan itself is right is shown elsewhere. Relaxations are decided again by the plain engine.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple

from mainstay.engine.certificate import (
    Change,
    Drop,
    Fewer,
    Filter,
    Group,
    HigherPriority,
    Holder,
    How,
    Miss,
    MoreQuota,
    NeedCertificate,
    Relaxation,
    SmallerUnit,
    SoftSpread,
    Step,
    Wait,
    Widen,
)
from mainstay.engine.plan import Demand, Memory, Unsatisfied
from mainstay.engine.policy import Policy
from mainstay.engine.quota import REGION_KEY, Quota
from mainstay.model.action import Action, ActionKind
from mainstay.model.assignment import NeedRef
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, NeedProfile, Operator, Requirement, WhenUnsatisfiable
from mainstay.model.resources import Units
from mainstay.model.state import State
from oracles.plain_engine import Entry, PlainPlan, plain_decide

NAMED: Final = 20
POOLS: Final = (State.IDLE, State.SPECULATIVE)
HARD: Final = WhenUnsatisfiable.DO_NOT_SCHEDULE
ACQUIRED: Final = (ActionKind.BOOTSTRAP, ActionKind.PROVISION)
ORDER: Final = (Wait, SoftSpread, Widen, SmallerUnit, Fewer, Drop, MoreQuota, HigherPriority)


@dataclass(frozen=True)
class Premises:
    """What a certificate is about."""

    entries: Mapping[MachineId, Entry]
    sources: Mapping[MachineId, str]
    demand: Demand
    policy: Policy
    needs: tuple[Need, ...]
    claims: Mapping[MachineId, int]
    actions: tuple[Action, ...]
    unsatisfied: tuple[Unsatisfied, ...]
    gang_ages: Mapping[NeedRef, int]

    @cached_property
    def machines(self) -> list[Machine]:
        return [self.entries[id_][0] for id_ in sorted(self.entries)]

    @cached_property
    def taken(self) -> dict[MachineId, NeedRef]:
        drains = (ActionKind.PREEMPT, ActionKind.RECLAIM)
        return {a.machine: a.need for a in self.actions if a.need and a.kind in drains}

    def action_of(self, machine: MachineId) -> ActionKind | None:
        return next((a.kind for a in self.actions if a.machine == machine), None)


class Redone(NamedTuple):
    """The plain plan under a change, and the rows that stand for the need in it."""

    plan: PlainPlan
    asked: tuple[Need, ...]
    rows: list[Need]


def is_true(certificate: NeedCertificate, premises: Premises) -> bool:
    """Whether there is no fault; stops at the first."""
    return all(holds for _, holds in Checker(certificate, premises).checks())


def faults(certificate: NeedCertificate, premises: Premises) -> list[str]:
    """The names of the fields that do not hold; none for a true certificate."""
    return [name for name, holds in Checker(certificate, premises).checks() if not holds]


class Checker:
    def __init__(self, certificate: NeedCertificate, premises: Premises) -> None:
        self.certificate = certificate
        self.premises = premises
        self.need = certificate.need
        self.taken = premises.taken
        self.passed: dict[tuple[Filter, Requirement | None, MachineId], bool] = {}

    def checks(self) -> Iterator[tuple[str, bool]]:
        told, certificate = self.told(), self.certificate
        missing = {} if told is None else dict(told.unresolved)
        yield "need", self.premises.needs[certificate.place] is self.need
        yield "gangs", certificate.gangs == tuple(gang.ref for gang in self.gangs)
        yield "verdict", certificate.verdict == (None if told is None else told.reason)
        yield "missing", certificate.missing == missing
        yield "domain", certificate.domain == self.domain(told)
        yield "serving", dict(certificate.serving) == self.serving()
        if not missing:
            rest = (certificate.funnel, certificate.holders, certificate.relaxations)
            yield "rest", rest == ((), (), ())
            yield "none", (certificate.blocking, certificate.emptied, certificate.nearest) == (
                None, None, None,
            )  # fmt: skip
            return
        steps = self.steps(told)
        yield "funnel", certificate.funnel == steps
        yield "blocking", certificate.blocking == self.first_short(steps, missing)
        yield (
            "emptied",
            certificate.emptied
            == next((n for n, step in enumerate(steps) if step.left == 0), None),
        )
        yield "holders", certificate.holders == self.holders(told)
        yield (
            "nearest",
            self.nearest(told)
            == (
                None if certificate.nearest is None else certificate.nearest.machine,
                () if certificate.nearest is None else certificate.nearest.misses,
            ),
        )
        for number, relaxation in enumerate(certificate.relaxations):
            yield f"relaxation {number}", self.holds(relaxation)
        yield "order", self.is_ordered()

    def told(self) -> Unsatisfied | None:
        """Identical rows are told from behind: the earlier one is served first."""
        place, left = self.certificate.place, list(self.premises.unsatisfied)
        for number in range(len(self.premises.needs) - 1, place - 1, -1):
            if left and left[-1].need is self.premises.needs[number]:
                found = left.pop()
                if number == place:
                    return found
        return None

    # Words

    @cached_property
    def gangs(self) -> list[Need]:
        sent = self.premises.demand.needs
        if any(need is self.need for need in sent):
            return []
        unit = amounts(self.need.min_unit)
        return [
            gang
            for gang in sent
            if not any(gang is need for need in self.premises.needs)
            and gang.cluster == self.need.cluster
            and amounts(gang.aggregate) == unit
            and stripped(gang.profile) == self.need.profile
        ]

    def domain(self, told: Unsatisfied | None) -> tuple[str, ...] | None:
        if told is None or told.domain is not None:
            return None if told is None else told.domain
        if not told.unresolved or not self.need.profile.same_keys:
            return None
        total = amounts(self.need.aggregate)
        domains: dict[tuple[str, ...], list[Machine]] = {}
        for machine in self.premises.machines:
            fits = covered(alloc(machine), self.need.min_unit)
            alive = machine.state is not State.FAILED
            if alive and fits and self.need.profile.matches(machine.profile):
                name = tuple(value or "" for value in domain_of(self.need, machine))
                domains.setdefault(name, []).append(machine)
        ranks = []
        for name, machines in domains.items():
            sums = {d: sum(alloc(m).get(d, 0) for m in machines) for d in total}
            shares = [min(Fraction(1), Fraction(sums[d], total[d])) for d in total]
            ranks.append((-sum(shares, Fraction(0)), -len(machines), name))
        return min(ranks)[2] if ranks else None

    def adds(self, machine: Machine) -> Units:
        have, unit = alloc(machine), amounts(self.need.min_unit)
        if not self.gangs or not unit:
            return have
        whole = min(have.get(name, 0) // amount for name, amount in unit.items())
        return {name: amount * whole for name, amount in unit.items()}

    def serves(self, machine: Machine) -> bool:
        mine = self.premises.claims.get(machine.id) == self.certificate.place
        return mine or self.taken.get(machine.id) == self.need.ref

    def serving(self) -> dict[How, Group]:
        ways: dict[How, list[MachineId]] = {}
        for machine in self.premises.machines:
            action = self.premises.action_of(machine.id)
            if self.premises.claims.get(machine.id) == self.certificate.place:
                ways.setdefault(self.way(machine, action), []).append(machine.id)
            if self.taken.get(machine.id) == self.need.ref:
                ways.setdefault(How(str(action)), []).append(machine.id)
        return {how: group(ids) for how, ids in ways.items()}

    def way(self, machine: Machine, action: ActionKind | None) -> How:
        if machine.state in POOLS:
            return How.ASIDE if action is None else How(str(action))
        return How.LOST if action is ActionKind.PREEMPT else How(str(machine.state).lower())

    def held(self, machine: Machine) -> tuple[NeedRef | None, int | None]:
        if machine.id in self.taken:
            ref = self.taken[machine.id]
            return ref, next(n.profile.priority for n in self.premises.needs if n.ref == ref)
        place = self.premises.claims.get(machine.id)
        claiming = None if place is None else self.premises.needs[place]
        priorities = [] if claiming is None else [claiming.profile.priority]
        if machine.state is State.CONFIGURED:
            priorities.append(machine.assignment.priority or 0)
        return None if claiming is None else claiming.ref, max(priorities, default=None)

    def used(self, region: tuple[str, str] | None) -> int:
        """Of the cluster's machines, or of those of a provider in a region; after the plan."""
        number = 0
        for machine in self.premises.machines:
            place = self.premises.claims.get(machine.id)
            claimed = None if place is None else self.premises.needs[place].cluster
            ref = self.taken.get(machine.id)
            if region is not None:
                slot = machine.state is State.SPECULATIVE and claimed is None
                number += self.region(machine) == region and not slot
            else:
                mine = self.need.cluster
                number += cluster_of(machine) == mine
                number += machine.state in POOLS and claimed == mine
                number += ref is not None and ref.cluster == mine != machine.cluster
        return number

    def region(self, machine: Machine) -> tuple[str, str]:
        return self.premises.sources[machine.id], machine.profile.attribute(REGION_KEY) or ""

    # The funnel

    def filters(self, told: Unsatisfied | None) -> list[tuple[Filter, Requirement | None]]:
        is_gang = bool(self.need.profile.same_keys)
        domain, planned = self.domain(told), None if told is None else told.domain
        has_spread = any(s.when_unsatisfiable is HARD for s in self.need.profile.spread)
        parked = told is not None and told.parked
        listed = [
            (Filter.FLEET, True), (Filter.SERVING, True), (Filter.REQUIREMENT, False),
            (Filter.MIN_UNIT, True), (Filter.ADDS, True), (Filter.DOMAIN, domain is not None),
            (Filter.STATE, True), (Filter.BARRED, any(map(self.is_barred, self.premises.machines))),
            (Filter.CLAIMED, True), (Filter.QUOTA, True),
            (Filter.SPREAD, has_spread and not is_gang),
            (Filter.PARKED, is_gang and (parked or planned is None)), (Filter.WHOLE, is_gang),
        ]  # fmt: skip
        found: list[tuple[Filter, Requirement | None]] = []
        for kind, there in listed:
            if kind is Filter.REQUIREMENT:
                found += [(kind, requirement) for requirement in self.need.profile.requirements]
            elif there:
                found.append((kind, None))
        return found

    def passes(self, kind: Filter, requirement: Requirement | None, machine: Machine) -> bool:
        key = (kind, requirement, machine.id)
        if key not in self.passed:
            self.passed[key] = self.passes_now(kind, requirement, machine)
        return self.passed[key]

    def passes_now(self, kind: Filter, requirement: Requirement | None, machine: Machine) -> bool:
        if kind is Filter.REQUIREMENT:
            assert requirement is not None
            return requirement.admits(machine.profile.attribute(requirement.key))
        rules: dict[Filter, Callable[[Machine], bool]] = {
            Filter.FLEET: lambda _: True,
            Filter.SERVING: lambda m: not self.serves(m),
            Filter.MIN_UNIT: lambda m: covered(alloc(m), self.need.min_unit),
            Filter.ADDS: lambda m: any(
                self.adds(m).get(name, 0) > 0 for name in self.certificate.missing
            ),
            Filter.DOMAIN: lambda m: domain_of(self.need, m) == self.certificate.domain,
            Filter.STATE: lambda m: m.state in {*POOLS, State.CONFIGURED},
            Filter.BARRED: lambda m: not self.is_barred(m),
            Filter.CLAIMED: self.is_open,
            Filter.QUOTA: lambda m: self.room(m) > 0,
            Filter.SPREAD: lambda m: m.state not in POOLS,
            Filter.PARKED: lambda _: False,
            Filter.WHOLE: lambda _: False,
        }
        return rules[kind](machine)

    def is_barred(self, machine: Machine) -> bool:
        barred = self.premises.demand.barred
        values = {(key, machine.profile.attribute(key)) for key, _ in barred.values}
        source = self.premises.sources[machine.id]
        named = source in barred.sources or machine.id in barred.machines
        profile = machine.profile
        sold = (source, profile.instance_type, profile.zone, profile.capacity_type)
        named |= machine.state is State.SPECULATIVE and sold in set(map(tuple, barred.offers))
        return machine.state in POOLS and (named or bool(values & barred.values))

    def is_open(self, machine: Machine) -> bool:
        unclaimed = machine.id not in self.premises.claims
        if machine.state is not State.CONFIGURED:
            return unclaimed
        excess = unclaimed and machine.cluster in self.premises.demand.heard
        priority = self.held(machine)[1]
        below = priority is not None and priority < self.need.profile.priority
        return machine.id not in self.taken and (excess or below)

    def room(self, machine: Machine) -> float:
        quota = self.premises.demand.quota
        rooms = [math.inf]
        if self.is_counted(machine):
            return math.inf
        if self.need.cluster in quota.machines:
            rooms.append(quota.machines[self.need.cluster] - self.used(None))
        region = self.region(machine)
        if machine.state is State.SPECULATIVE and region in quota.slots:
            rooms.append(quota.slots[region] - self.used(region))
        return max(0, min(rooms))

    def is_counted(self, machine: Machine) -> bool:
        return machine.state is State.CONFIGURED and machine.cluster == self.need.cluster

    def steps(self, told: Unsatisfied | None) -> tuple[Step, ...]:
        listed = self.filters(told)
        about_machines = [f for f in listed if f[0] not in {Filter.PARKED, Filter.WHOLE}]
        left, limited, steps = self.premises.machines, False, []
        for place, (kind, requirement) in enumerate(listed):
            left = [m for m in left if self.passes(kind, requirement, m)]
            limited = limited or kind is Filter.QUOTA
            others = about_machines[:place] + about_machines[place + 1 :]
            untold = {Filter.FLEET, Filter.SERVING, Filter.ADDS, Filter.PARKED, Filter.WHOLE}
            lifted = None if kind in untold else len(self.passing(others))
            capacity = {
                n: self.capacity(left, n, limited) for n in sorted(self.certificate.missing)
            }
            steps.append(Step(kind, requirement, len(left), capacity, lifted))
        return tuple(steps)

    def passing(self, listed: Sequence[tuple[Filter, Requirement | None]]) -> list[Machine]:
        return [m for m in self.premises.machines if all(self.passes(*f, m) for f in listed)]

    def capacity(self, machines: Sequence[Machine], name: str, limited: bool) -> int:
        amounts_ = {m.id: self.adds(m).get(name, 0) for m in machines}
        if not limited:
            return sum(amounts_.values())
        quota, chosen = self.premises.demand.quota, list[int]()
        used: Counter[tuple[str, str]] = Counter()
        others = [m for m in machines if not self.is_counted(m)]
        for machine in sorted(others, key=lambda m: -amounts_[m.id]):
            region = self.region(machine)
            if machine.state is State.SPECULATIVE and region in quota.slots:
                used[region] += 1
                if used[region] > self.room(machine):
                    continue
            chosen.append(amounts_[machine.id])
        held = quota.machines.get(self.need.cluster)
        room = None if held is None else max(0, held - self.used(None))
        counted = sum(amounts_[m.id] for m in machines if self.is_counted(m))
        return counted + sum(sorted(chosen, reverse=True)[:room])

    def first_short(self, steps: Sequence[Step], missing: Units) -> int | None:
        short = [n for n, step in enumerate(steps) if not covered(step.capacity, missing)]
        return short[0] if short else None

    def holders(self, told: Unsatisfied | None) -> tuple[Holder, ...]:
        listed = self.filters(told)
        at = listed.index((Filter.CLAIMED, None))
        stopped = [m for m in self.passing(listed[:at]) if not self.is_open(m)]
        counts = Counter(self.held(m) for m in stopped)
        found = [Holder(ref, p, n) for (ref, p), n in counts.items() if p is not None]
        found.sort(key=lambda h: (-h.count, -h.priority, name_of(h.need)))
        return tuple(found[:NAMED])

    def nearest(self, told: Unsatisfied | None) -> tuple[MachineId | None, tuple[Miss, ...]]:
        listed = [f for f in self.filters(told) if f[0] not in {Filter.PARKED, Filter.WHOLE}]
        ranks = []
        for machine in self.premises.machines:
            failed = [not self.passes(*f, machine) for f in listed]
            if any(failed) and not self.serves(machine):
                ranks.append((sum(failed), failed, machine.id))
        if not ranks:
            return None, ()
        _, failed, id_ = min(ranks)
        machine = self.premises.entries[id_][0]
        misses = [self.miss(n, *listed[n], machine) for n, fails in enumerate(failed) if fails]
        return id_, tuple(misses)

    def miss(
        self, number: int, kind: Filter, requirement: Requirement | None, machine: Machine
    ) -> Miss:
        has: tuple[str | None, ...] = ()
        if requirement is not None:
            has = (machine.profile.attribute(requirement.key),)
        elif kind is Filter.DOMAIN:
            has = tuple(machine.profile.attribute(key) for key in self.need.profile.same_keys)
        elif kind is Filter.STATE:
            has = (str(machine.state),)
        lacks = {}
        if kind is Filter.MIN_UNIT:
            have = alloc(machine)
            unit = amounts(self.need.min_unit)
            lacks = {n: a - have.get(n, 0) for n, a in unit.items() if a > have.get(n, 0)}
        held = self.held(machine) if kind is Filter.CLAIMED else (None, None)
        return Miss(number, tuple(value for value in has if value is not None), lacks, *held)

    # Relaxations

    def is_ordered(self) -> bool:
        told = self.certificate.relaxations
        keys = [(ORDER.index(type(r.change)), r.price_per_hour) for r in told]
        return keys == sorted(keys)

    def holds(self, relaxation: Relaxation) -> bool:
        change = relaxation.change
        if not self.is_legal(change):
            return False
        redone = self.redone(change)
        if not self.is_admitted(redone):
            return False
        plan = redone.plan
        refs = {ref_in(self.premises, row) for row in redone.rows}
        named = [a for a in plan.actions if a.need in refs]
        acquired = sorted(a.machine for a in named if a.kind in ACQUIRED)
        drained = sorted(a.machine for a in named if a.kind not in ACQUIRED)
        price = math.fsum(self.premises.entries[m][0].price_per_hour for m in acquired + drained)
        now = {u.need.ref for u in self.premises.unsatisfied if u.unresolved}
        displaced = {u.need.ref for u in plan.unsatisfied if u.unresolved} - now - refs
        return (
            relaxation.acquired == group(acquired)
            and relaxation.drained == group(drained)
            and relaxation.price_per_hour == price
            and relaxation.displaced == tuple(sorted(displaced, key=name_of)[:NAMED])
        )

    def is_legal(self, change: Change) -> bool:  # noqa: C901 - one case per kind of change
        """Whether it is a change of its kind, and what it says is refused is."""
        profile = self.need.profile
        match change:
            case Wait():
                return bool(profile.same_keys)
            case SoftSpread():
                return any(s.when_unsatisfiable is HARD for s in profile.spread)
            case SmallerUnit(min_unit):
                unit = amounts(self.need.min_unit)
                return dict(min_unit) != unit and covered(unit, min_unit)
            case Fewer(pieces, of, refused):
                is_range = of == self.pieces() and 0 < pieces < refused <= of
                return is_range and not self.admits(Fewer(refused, of, of))
            case HigherPriority(priority, refused):
                is_range = profile.priority <= refused < priority
                return is_range and not self.admits(HigherPriority(refused, refused))
            case MoreQuota():
                return self.is_more(change)
            case Widen(old, new):
                return self.asks(old) and is_wider(old, new)
            case Drop(requirement):
                return self.asks(requirement)

    def is_more(self, change: MoreQuota) -> bool:
        quota = self.premises.demand.quota
        limited = not change.machines or self.need.cluster in quota.machines
        more = [*change.slots.values(), *([change.machines] if change.machines else [])]
        known = change.slots.keys() <= quota.slots.keys()
        return limited and known and bool(more) and min(more) > 0

    def asks(self, requirement: Requirement) -> bool:
        """A folded row is changed in the gangs that it is made of."""
        rows = self.gangs or [self.need]
        return all(requirement in row.profile.requirements for row in rows)

    def pieces(self) -> int:
        if self.gangs:
            return len(self.gangs)
        total, unit = amounts(self.need.aggregate), amounts(self.need.min_unit)
        whole = [total[name] // amount for name, amount in unit.items() if name in total]
        return max(1, min(whole)) if whole else math.gcd(*total.values())

    def admits(self, change: Change) -> bool:
        return self.is_admitted(self.redone(change))

    def redone(self, change: Change) -> Redone:
        premises, demand = self.premises, self.premises.demand
        old = self.gangs or [self.need]
        new = self.changed(old, change)
        rows = []
        for need in demand.needs:
            at = next((n for n, one in enumerate(old) if one is need), None)
            if at is None:
                rows.append(need)
            elif at < len(new):
                rows.append(new[at])
        rows.sort(key=lambda n: (-n.profile.priority, n.arrival_nanos, n.cluster))
        quota = demand.quota
        if isinstance(change, MoreQuota):
            machines = {c: n + change.machines * (c == self.need.cluster)
                        for c, n in quota.machines.items()}  # fmt: skip
            slots = {place: n + change.slots.get(place, 0) for place, n in quota.slots.items()}
            quota = Quota(machines, slots)
        ages = {ref: age - 1 for ref, age in premises.gang_ages.items()}
        if isinstance(change, Wait):
            ages.pop(self.need.ref, None)
        asked = replace(demand, needs=tuple(rows), quota=quota)
        plan = plain_decide(premises.entries, asked, Memory(ages, {}), premises.policy, 0.0)
        return Redone(plan, asked.needs, new)

    def changed(self, old: list[Need], change: Change) -> list[Need]:
        if isinstance(change, Fewer):
            if self.gangs:
                return [replace(need) for need in old[: change.pieces]]
            total = self.need.aggregate
            part = {name: amount * change.pieces // change.of for name, amount in total.items()}
            return [replace(self.need, aggregate=part)]
        return [self.changed_row(need, change) for need in old]

    def changed_row(self, need: Need, change: Change) -> Need:
        profile, unit = need.profile, need.min_unit
        asked = list(profile.requirements)
        if isinstance(change, Widen):
            asked = [change.new if r == change.old else r for r in asked]
        elif isinstance(change, Drop):
            asked = [r for r in asked if r != change.requirement]
        elif isinstance(change, SmallerUnit):
            unit = change.min_unit
        spread = profile.spread
        if isinstance(change, SoftSpread):
            soft = WhenUnsatisfiable.SCHEDULE_ANYWAY
            spread = tuple(replace(s, when_unsatisfiable=soft) for s in spread)
        priority = change.priority if isinstance(change, HigherPriority) else profile.priority
        made = replace(profile, requirements=tuple(asked), spread=spread, priority=priority)
        return replace(need, profile=made, min_unit=unit)

    def is_admitted(self, redone: Redone) -> bool:
        short = [told.need for told in redone.plan.unsatisfied if told.unresolved]
        made = [need for need in short if not any(need is row for row in redone.asked)]
        for row in redone.rows:
            folds = made if is_foldable(self.premises, row) else []
            if any(need is row for need in short) or any(is_made_of(n, row) for n in folds):
                return False
        return True


# Plain words of docs/explanation/decision.md


def amounts(units: Units) -> dict[str, int]:
    return {name: amount for name, amount in units.items() if amount > 0}


def alloc(machine: Machine) -> Units:
    return (machine.allocatable or machine.profile.resources).units


def covered(have: Units, want: Units) -> bool:
    return all(have.get(name, 0) >= amount for name, amount in want.items())


def domain_of(need: Need, machine: Machine) -> tuple[str | None, ...]:
    return tuple(machine.profile.attribute(key) for key in need.profile.same_keys)


def stripped(profile: NeedProfile) -> NeedProfile:
    kept = [r for r in profile.requirements if r.operator is not Operator.SAME]
    return replace(profile, requirements=tuple(kept))


def cluster_of(machine: Machine) -> str | None:
    """The cluster whose quota a machine uses."""
    if machine.state in {State.CONFIGURED, State.CONFIGURING}:
        return machine.cluster
    awaited = machine.assignment.drained_for
    if machine.state is State.DRAINING and awaited is not None:
        return awaited.cluster
    return machine.assignment.cluster if machine.state is State.CREATING else None


def is_foldable(premises: Premises, need: Need) -> bool:
    bound = (State.CONFIGURED, State.CONFIGURING)
    return bool(need.profile.same_keys) and any(
        need.profile.matches(m.profile)
        and covered(alloc(m), amounts(need.aggregate))
        and (m.state in POOLS or (m.state in bound and m.cluster == need.cluster))
        for m in premises.machines
    )


def is_made_of(row: Need, gang: Need) -> bool:
    """Whether a row that nobody asked for is the fold of this gang."""
    return (
        row.cluster == gang.cluster
        and row.profile == stripped(gang.profile)
        and amounts(row.min_unit) == amounts(gang.aggregate)
    )


def ref_in(premises: Premises, need: Need) -> NeedRef:
    if is_foldable(premises, need):
        return NeedRef(need.cluster, stripped(need.profile).fingerprint, "")
    return need.ref


def is_wider(old: Requirement, new: Requirement) -> bool:
    same = (old.key, old.operator) == (new.key, new.operator)
    more, less = set(new.values), set(old.values)
    if old.operator is Operator.NOT_IN:
        more, less = less, more
    return same and more > less


def group(ids: Sequence[MachineId]) -> Group:
    return Group(len(ids), tuple(sorted(ids)[:NAMED]))


def name_of(ref: NeedRef | None) -> tuple[str, ...]:
    return () if ref is None else (ref.cluster, ref.fingerprint, ref.group)
