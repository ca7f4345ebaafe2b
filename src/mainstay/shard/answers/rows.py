"""Rows for people, made from the columns of a plan: no walk over machines that nobody asked for."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.actions import KINDS
from mainstay.engine.doings import doings
from mainstay.engine.lookup import told_at
from mainstay.engine.plan import Plan, Unsatisfied
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, CapacityType
from mainstay.model.resources import Units, from_units
from mainstay.model.state import State
from mainstay.model.texts import Rows
from mainstay.model.views import (
    ActionQuery,
    ActionRow,
    MachineQuery,
    MachineRow,
    NeedQuery,
    NeedRow,
    ProviderRow,
    ShortfallRow,
)
from mainstay.shard import shortfalls
from mainstay.shard.answers.holds import UNRESTRAINED, Restraints
from mainstay.shard.answers.progress import Advance
from mainstay.shard.facts import ProviderFacts
from mainstay.shard.orders import Disposed, Told

Mask = NDArray[np.bool_]
RowT = TypeVar("RowT")

CHUNK: Final = 1_000
"""So many machines go into one message."""


def first(rows: tuple[RowT, ...], limit: int) -> tuple[RowT, ...]:
    """So many of them; a limit of zero is none."""
    if limit < 0:
        raise Rejected(f"limit must not be negative: {limit} (0 is none)")
    return rows[:limit] if limit else rows


def selected(snapshot: Snapshot, query: MachineQuery) -> Rows:
    """The rows that a query means, in order of their ids; the limit is not looked at."""
    if query.limit < 0:
        raise Rejected(f"limit must not be negative: {query.limit} (0 is none)")
    chosen: Mask = snapshot.state != State.UNSPECIFIED
    if query.states:
        chosen &= np.isin(snapshot.state, [int(state) for state in query.states])
    if query.cluster:
        chosen &= of_cluster(snapshot, ClusterId(query.cluster))
    asked = [
        Requirement(key, Operator.IN, (value,))
        for key, value in (
            (INSTANCE_TYPE_KEY, query.instance_type),
            (ZONE_KEY, query.zone),
            (query.attribute, query.value),
            *query.labels.items(),
        )
        if key and value
    ]
    if asked:
        chosen &= snapshot.shapes.matching(asked)[snapshot.shape]
    if query.provider:
        named = np.array([name == query.provider for name in snapshot.sources], dtype=np.bool_)
        chosen &= named[snapshot.source]
    if query.capacity_types:
        asked_types = set(map(capacity_type, query.capacity_types))
        kinds = [shape.profile.capacity_type in asked_types for shape in snapshot.shapes.values]
        chosen &= np.array(kinds, dtype=np.bool_)[snapshot.shape]
    order = named_rows(snapshot, query.ids) if query.ids else snapshot.order.astype(np.intp)
    rows: Rows = order[chosen[order]]
    return rows


def named_rows(snapshot: Snapshot, names: Iterable[str]) -> Rows:
    """The rows of these ids in order; what is not there is left out."""
    order, ids = snapshot.order, snapshot.ids
    found = []
    for name in sorted(set(names)):
        at = bisect_left(order, name, key=lambda row: ids[int(row)])
        if at < len(order) and ids[int(order[at])] == name:
            found.append(int(order[at]))
    return np.array(found, dtype=np.intp)


def capacity_type(text: str) -> CapacityType:
    """A capacity type by the name people use: `spot`, `on_demand`, `OnDemand`."""
    wanted = text.lower().replace("-", "").replace("_", "")
    known = {kind.name.lower().replace("_", ""): kind for kind in CapacityType if kind}
    if wanted not in known:
        names = ", ".join(kind.name.lower() for kind in CapacityType if kind)
        raise Rejected(f"not a capacity type: {text[:80]!r} (one of {names})")
    return known[wanted]


def paged(snapshot: Snapshot, rows: Rows, query: MachineQuery) -> Rows:
    """Of what is selected, so many behind the id that was shown last."""
    ids = snapshot.ids
    first = bisect_right(rows, query.after, key=lambda row: ids[int(row)]) if query.after else 0
    return rows[first : first + query.limit] if query.limit else rows[first:]


def of_cluster(snapshot: Snapshot, cluster: ClusterId) -> Mask:
    """Which rows are bound to a cluster, or are being created for it."""
    named = np.array([name == cluster for name in snapshot.clusters], dtype=np.bool_)
    meant = np.array([held.cluster == cluster for held in snapshot.assignments.values], np.bool_)
    creating = snapshot.state == State.CREATING
    found: Mask = named[snapshot.cluster] | (creating & meant[snapshot.assignment])
    return found


def machine_chunks(plan: Plan, rows: Rows) -> Iterator[tuple[MachineRow, ...]]:
    """These machines, so many at a time; at least one chunk, which may be empty."""
    action_of = _action_of(plan)
    for start in range(0, max(len(rows), 1), CHUNK):
        yield tuple(_machine_rows(plan, rows[start : start + CHUNK], action_of))


def _action_of(plan: Plan) -> Mapping[int, str]:
    found = doings(plan)
    return {
        row: str(KINDS[kind])
        for row, kind in zip(found.row.tolist(), found.kind.tolist(), strict=True)
    }


def _machine_rows(plan: Plan, rows: Rows, action_of: Mapping[int, str]) -> Iterator[MachineRow]:
    snapshot, needs = plan.snapshot, plan.needs
    columns = zip(
        rows.tolist(),
        snapshot.machine_ids(rows),
        snapshot.state[rows].tolist(),
        snapshot.price_per_hour[rows].tolist(),
        snapshot.interruption_probability[rows].tolist(),
        snapshot.source[rows].tolist(),
        snapshot.idle_since[rows].tolist(),
        plan.owner[rows].tolist(),
        strict=True,
    )
    for row, name, state, price, probability, source, idle_since, owner in columns:
        profile = snapshot.profile_of(row)
        need = needs[owner] if owner >= 0 else None
        yield MachineRow(
            id=name,
            state=State(state),
            cluster=snapshot.cluster_of(row) or snapshot.assignment_of(row).cluster or "",
            instance_type=profile.instance_type,
            zone=profile.zone,
            capacity_type=str(profile.capacity_type),
            provider=snapshot.sources[source],
            price_per_hour=price,
            interruption_probability=probability,
            need="" if need is None else need.profile.fingerprint,
            group="" if need is None else need.group,
            action=action_of.get(row, ""),
            idle_since_s=0.0 if math.isnan(idle_since) else idle_since,
        )


def need_rows(
    plan: Plan, query: NeedQuery, restraints: Restraints = UNRESTRAINED
) -> tuple[int, tuple[NeedRow, ...]]:
    """How many needs are meant, and a page of them in the order in which they are served."""
    if query.limit < 0:
        raise Rejected(f"limit must not be negative: {query.limit} (0 is none)")
    told = told_at(plan)
    places = [
        place
        for place, need in enumerate(plan.needs)
        if _is_asked(need, query)
        and (not query.unmet or place in told)
        and (not query.reason or (place in told and told[place].reason.value == query.reason))
    ]
    advance = Advance(plan, restraints)
    behind = places[bisect_left(places, query.after) :] if query.after > 0 else places
    shown = behind[: query.limit] if query.limit else behind
    rows = (_need_row(plan, place, told.get(place), advance) for place in shown)
    return len(places), tuple(rows)


def _is_asked(need: Need, query: NeedQuery) -> bool:
    least = query.least_priority
    return (
        (not query.cluster or need.cluster == query.cluster)
        and need.profile.fingerprint.startswith(query.fingerprint)
        and query.group in {"", need.group}
        and (least is None or need.profile.priority >= least)
    )


def claims(plan: Plan) -> list[int]:
    """How many machines each need claims, by place."""
    owner = plan.owner[plan.owner >= 0]
    counted: list[int] = np.bincount(owner, minlength=len(plan.needs)).tolist()
    return counted


def _need_row(plan: Plan, place: int, told: Unsatisfied | None, advance: Advance) -> NeedRow:
    need, progress = plan.needs[place], advance.of_need(place)
    fingerprint = need.profile.fingerprint
    return NeedRow(
        cluster=need.cluster,
        fingerprint=fingerprint,
        group=need.group,
        priority=need.profile.priority,
        asked=quantities(need.aggregate),
        missing={} if told is None else quantities(told.unresolved or told.deficit),
        reason="" if told is None else told.reason.value,
        age=0 if told is None else plan.shortfall_ages.get(fingerprint, 0),
        machines=progress.machines,
        parked=told is not None and told.parked,
        domain="" if told is None else "/".join(told.domain or ()),
        asks_for=asks_for(need.profile),
        min_unit=quantities(need.min_unit),
        place=place + 1,
        progress=progress,
    )


def quantities(units: Units) -> dict[str, str]:
    """Amounts as Kubernetes writes them; what is zero is left out."""
    return {name: from_units(name, amount) for name, amount in sorted(units.items()) if amount}


_SIGNS: Final = {
    Operator.IN: "=", Operator.NOT_IN: "!=", Operator.GT: ">", Operator.LT: "<",
}  # fmt: skip


def asks_for(profile: NeedProfile) -> str:
    """What it asks of every machine, in one line."""
    parts = [requirement_text(each) for each in profile.requirements]
    parts += [f"spread over {each.topology_key}" for each in profile.spread]
    return ", ".join(parts) or "any machine"


def requirement_text(requirement: Requirement) -> str:
    """One requirement as people write it."""
    key, values = requirement.key, "|".join(requirement.values)
    match requirement.operator:
        case Operator.EXISTS:
            return key
        case Operator.DOES_NOT_EXIST:
            return f"no {key}"
        case Operator.SAME:
            return f"same {key}" + (f" ({values})" if values else "")
        case operator:
            return f"{key}{_SIGNS.get(operator, '?')}{values}"


def shortfall_row(row: shortfalls.ShortfallRow) -> ShortfallRow:
    """One kind of need that misses something."""
    return ShortfallRow(
        fingerprint=row.fingerprint,
        priority=row.priority,
        missing=quantities(row.deficit),
        age=row.age_cycles,
        band=row.band.value,
        needs=row.needs,
        clusters=row.clusters,
        clusters_in_all=row.clusters_in_all,
        reasons=tuple(reason.value for reason in row.reasons),
        asks_for=asks_for(row.profile),
    )


def action_rows(recent: Sequence[Told], query: ActionQuery) -> tuple[int, tuple[ActionRow, ...]]:
    """What became of the last actions, the newest first; `recent` has the newest last."""
    if query.limit < 0:
        raise Rejected(f"limit must not be negative: {query.limit} (0 is none)")
    meant = [each for each in reversed(recent) if _is_meant(each.disposed, query)]
    older = list(_older(meant, query.after)) if query.after else meant
    shown = older[: query.limit] if query.limit else older
    return len(meant), tuple(map(_action_row, shown))


def _older(newest_first: Sequence[Told], after: str) -> Iterator[Told]:
    """Behind the one that was shown last; if that is forgotten, so are all that are older."""
    rest = iter(newest_first)
    for each in rest:
        if _id(each.disposed) == after:
            break
    yield from rest


def _id(record: Disposed) -> str:
    order = record.order
    parts = (record.cycle, order.cycle, order.action.kind.value, record.disposition.value)
    return "-".join(map(str, (*parts, order.action.machine)))


def _is_meant(record: Disposed, query: ActionQuery) -> bool:
    action = record.order.action
    return (
        query.cluster in {"", action.cluster}
        and query.machine in {"", action.machine}
        and query.disposition in {"", record.disposition.value}
        and query.kind in {"", action.kind.value}
    )


def _action_row(told: Told) -> ActionRow:
    record = told.disposed
    order = record.order
    action = order.action
    return ActionRow(
        cycle=record.cycle,
        decided=order.cycle,
        kind=action.kind.value,
        machine=action.machine,
        cluster=action.cluster or "",
        need="" if action.need is None else action.need.fingerprint,
        group="" if action.need is None else action.need.group,
        provider=order.source,
        disposition=record.disposition.value,
        reason=record.reason,
        outcome="" if record.outcome is None else record.outcome.value,
        detail=record.detail,
        seconds=record.seconds,
        price_per_hour=order.price_per_hour,
        saved_per_hour=order.saved_per_hour,
        at_risk_dollars=order.at_risk_dollars if math.isfinite(order.at_risk_dollars) else 0.0,
        pinned=math.isinf(order.at_risk_dollars),
        id=_id(record),
        at_s=told.at_s,
        need_cluster="" if action.need is None else action.need.cluster,
    )


def provider_row(facts: ProviderFacts) -> ProviderRow:
    """One provider."""
    return ProviderRow(
        name=facts.name,
        health=facts.health.value,
        machines=facts.machines,
        why=facts.why,
        failures=facts.failures_in_a_row,
        listed_at_s=facts.listed_at_s,
        incremental=facts.incremental,
    )


def spend_by_state(snapshot: Snapshot) -> dict[str, float]:
    """Dollars per hour of all machines in each state; a quota slot costs nothing."""
    spent = np.bincount(snapshot.state, weights=snapshot.price_per_hour, minlength=len(State))
    return {
        str(state): float(spent[state])
        for state in snapshot.by_state
        if state is not State.SPECULATIVE
    }


def needs_of(plan: Plan, cluster: ClusterId) -> list[tuple[int, Need]]:
    """The needs of one cluster with their places."""
    return [(place, need) for place, need in enumerate(plan.needs) if need.cluster == cluster]
