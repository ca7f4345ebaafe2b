"""What a shard answers when it is asked, and what it does when it is told.

Answers are about the last published plan, which nobody changes: they run beside the event loop and
never hold up a cycle. Only `ShardControls` touches the shard itself.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from mainstay.engine.plan import Plan
from mainstay.model.errors import Rejected, Unavailable, Unknown
from mainstay.model.group_views import GroupQuery, GroupRows
from mainstay.model.ids import ClusterId, parse_cluster_id, parse_machine_id
from mainstay.model.money_views import MoneyQuery, MoneyRows
from mainstay.model.questions import (
    About,
    Explanation,
    Inspection,
    LiftControlRequest,
    Question,
    Retired,
    RetireRequest,
    SetControlRequest,
    WhatIfAnswer,
    WhatIfQuery,
)
from mainstay.model.views import (
    ActionQuery,
    ActionRows,
    ClusterQuery,
    ClusterRows,
    ControlQuery,
    ControlRow,
    ControlRows,
    MachineQuery,
    MachineRows,
    NeedQuery,
    NeedRows,
    ProviderQuery,
    ProviderRows,
    ShortfallQuery,
    ShortfallRows,
    Stamp,
    Summary,
    SummaryQuery,
)
from mainstay.runtime.aside import Aside
from mainstay.shard import shortfalls
from mainstay.shard.answers.clusters import cluster_rows, clusters_of
from mainstay.shard.answers.explain import Given, explain
from mainstay.shard.answers.groups import group_rows
from mainstay.shard.answers.in_time import InTime
from mainstay.shard.answers.inspect import inspect
from mainstay.shard.answers.money import money_rows
from mainstay.shard.answers.ports import Facts, Live
from mainstay.shard.answers.rows import (
    action_rows,
    first,
    machine_chunks,
    need_rows,
    paged,
    provider_row,
    selected,
    shortfall_row,
)
from mainstay.shard.answers.saying import saying
from mainstay.shard.answers.summary import control_row, control_rows, stamp_of, summed_up
from mainstay.shard.answers.whatif import what_if
from mainstay.shard.controls import ControlKind

DEADLINE_S: Final = 20.0
"""How long a question may take that needs further decisions."""

NAMED_MAX: Final = 10
"""So many clusters are named where one is meant that there is not."""

NOT_TRIED: Final = "Which change would help was not found out in time."

AT_ONCE_MAX: Final = 2
"""So many of those run at a time; the others wait."""


class ShardView:
    """`mainstay.model.questions.ShardViewCalls` over a live shard."""

    def __init__(self, shard: Facts, aside: Aside, *, deadline_s: float = DEADLINE_S) -> None:
        self._shard = shard
        self._aside = aside
        self._in_time = InTime(aside, deadline_s=deadline_s, at_once_max=AT_ONCE_MAX)

    async def machines(self, query: MachineQuery) -> AsyncIterator[MachineRows]:
        """Machines in order of their ids, in chunks; one chunk at least."""
        published, stamp = self._shard.published, self._stamp()
        if published is None:
            yield MachineRows(stamp=stamp)
            return
        plan = published.plan
        rows = await self._aside(lambda: saying(plan, selected(plan.snapshot, query), query.text))
        chunks = machine_chunks(plan, paged(plan.snapshot, rows, query))
        while (chunk := await self._aside(lambda: next(chunks, None))) is not None:
            yield MachineRows(stamp=stamp, matched=len(rows), rows=chunk)

    async def needs(self, query: NeedQuery) -> NeedRows:
        """Demand, and what became of it."""
        published, stamp = self._shard.published, self._stamp()
        if published is None:
            return NeedRows(stamp=stamp)
        plan = published.plan
        restraints = self._shard.restraints()
        matched, rows = await self._aside(lambda: need_rows(plan, query, restraints))
        return NeedRows(stamp=stamp, matched=matched, rows=rows)

    async def clusters(self, query: ClusterQuery) -> ClusterRows:
        """Who is served."""
        shard, stamp = self._shard, self._stamp()
        plan = None if shard.published is None else shard.published.plan
        sessions, held = tuple(shard.sessions()), dict(shard.held_rollups())
        restraints = shard.restraints()
        rows = await self._aside(lambda: cluster_rows(plan, sessions, held, restraints))
        meant = tuple(row for row in rows if query.cluster in {"", row.cluster})
        behind = tuple(row for row in meant if row.cluster > query.after)
        return ClusterRows(stamp=stamp, matched=len(meant), rows=first(behind, query.limit))

    async def actions(self, query: ActionQuery) -> ActionRows:
        """What was done and what was not."""
        matched, rows = action_rows(self._shard.recent(), query)
        return ActionRows(stamp=self._stamp(), matched=matched, rows=rows)

    async def shortfalls(self, query: ShortfallQuery) -> ShortfallRows:
        """What is missing."""
        published, stamp = self._shard.published, self._stamp()
        if published is None:
            return ShortfallRows(stamp=stamp)
        plan = published.plan
        rows = await self._aside(lambda: tuple(map(shortfall_row, shortfalls.rows(plan))))
        return ShortfallRows(stamp=stamp, matched=len(rows), rows=first(rows, query.limit))

    async def providers(self, query: ProviderQuery) -> ProviderRows:  # noqa: ARG002
        """Through whom the shard acts."""
        facts = sorted(self._shard.providers(), key=lambda each: each.name)
        return ProviderRows(stamp=self._stamp(), rows=tuple(map(provider_row, facts)))

    async def controls(self, query: ControlQuery) -> ControlRows:  # noqa: ARG002
        """What restricts it."""
        rows = control_rows(self._shard.restraints(), self._shard.controls())
        return ControlRows(stamp=self._stamp(), rows=rows)

    async def summary(self, query: SummaryQuery) -> Summary:  # noqa: ARG002
        """All of it in a few numbers."""
        return await self._aside(summed_up(self._shard, self._stamp()))

    async def money(self, query: MoneyQuery) -> MoneyRows:
        """What it costs and has cost."""
        facts, stamp = self._shard.money(), self._stamp()
        return await self._aside(lambda: money_rows(facts, query, stamp))

    async def explain(self, question: Question) -> Explanation:
        """Why. On the last plan; what takes too long is left out, and that is said."""
        plan, stamp = self._plan(), self._stamp()
        given = Given(self._shard.outlook(), self._shard.enough_after(question.patience_s))
        try:
            return await self._in_time(lambda: explain(plan, question, stamp, given))
        except Unavailable:
            if question.quick or question.about not in {About.NEED, About.GANG}:
                raise
        quick = replace(question, quick=True)
        told = await self._in_time(lambda: explain(plan, quick, stamp, given))
        return replace(told, sentences=(*told.sentences, NOT_TRIED))

    async def what_if(self, query: WhatIfQuery) -> WhatIfAnswer:
        """What would change if. On the last plan, within the deadline."""
        plan, stamp = self._plan(), self._stamp()
        return await self._in_time(lambda: what_if(plan, query, stamp))

    async def groups(self, query: GroupQuery) -> GroupRows:
        """Machines counted by the values of an attribute."""
        published, stamp = self._shard.published, self._stamp()
        if published is None:
            return GroupRows(stamp=stamp)
        snapshot = published.plan.snapshot
        matched, rows = await self._aside(lambda: group_rows(snapshot, query))
        return GroupRows(stamp=stamp, matched=matched, rows=rows)

    async def inspect(self, cluster: str, limit: int) -> Inspection:
        """Every need, as BigFleet's tools read it."""
        published = self._shard.published
        return await self._aside(lambda: inspect(published, cluster, limit))

    def _stamp(self) -> Stamp:
        return stamp_of(self._shard)

    def _plan(self) -> Plan:
        published = self._shard.published
        if published is None:
            raise Unavailable("the shard has not finished its first cycle")
        return published.plan


class ShardControls:
    """`mainstay.model.questions.ShardControlCalls` over a live shard. Runs on its event loop."""

    def __init__(self, shard: Live) -> None:
        self._shard = shard

    async def set_control(self, request: SetControlRequest) -> ControlRow:
        """Restrict it. A cluster that nothing is known of is Unknown, unless it is meant to be."""
        kind, cluster = _kind(request.kind), _cluster(request.cluster)
        if cluster is not None and not request.even_if_unknown:
            self._check_known(cluster)
        control = await self._shard.set_control(
            kind,
            cluster=cluster,
            value=request.value,
            reason=request.reason,
            by=request.by,
            lasts_s=request.for_s,
        )
        return control_row(control)

    async def lift_control(self, request: LiftControlRequest) -> ControlRow:
        """Lift a restriction; the one that was in force."""
        control = await self._shard.lift_control(
            _kind(request.kind),
            cluster=_cluster(request.cluster),
            reason=request.reason,
            by=request.by,
        )
        return control_row(control)

    async def retire(self, request: RetireRequest) -> Retired:
        """Give up a Failed machine."""
        for name, text in ("reason", request.reason), ("name", request.by):
            if not text.strip():
                raise Rejected(f"retiring a machine needs a {name}: {text!r}")
        machine = parse_machine_id(request.machine)
        was = self._shard.retire(machine, reason=request.reason, by=request.by)
        return Retired(stamp=stamp_of(self._shard), machine=was.id, last_error=was.last_error)

    def _check_known(self, cluster: ClusterId) -> None:
        """A name that was mistyped would look like a control and hold nothing back."""
        published = self._shard.published
        if published is None:
            return
        known = clusters_of(published.plan) | {each.cluster for each in self._shard.sessions()}
        if cluster not in known:
            names = ", ".join(sorted(known)[:NAMED_MAX]) or "none"
            more = f" and {len(known) - NAMED_MAX} more" if len(known) > NAMED_MAX else ""
            raise Unknown(f"no cluster {cluster} is known here (known: {names}{more})")


def _kind(text: str) -> ControlKind:
    if text not in list(ControlKind):
        raise Rejected(f"no such control: {text[:80]!r} (one of {', '.join(ControlKind)})")
    return ControlKind(text)


def _cluster(text: str) -> ClusterId | None:
    return parse_cluster_id(text) if text else None
