"""What a shard answers when it is asked, and what it does when it is told.

Answers are about the last published plan, which nobody changes: they run beside the event loop and
never hold up a cycle. Only `ShardControls` touches the shard itself.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from mainstay.engine.doings import doings
from mainstay.engine.plan import Plan
from mainstay.model.action import ActionKind
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.group_views import GroupQuery, GroupRows
from mainstay.model.ids import ClusterId, MachineId, parse_cluster_id, parse_machine_id
from mainstay.model.machine import Machine
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
from mainstay.model.state import State
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
from mainstay.shard.answers.clusters import cluster_rows
from mainstay.shard.answers.explain import Given, explain
from mainstay.shard.answers.groups import group_rows
from mainstay.shard.answers.in_time import InTime
from mainstay.shard.answers.inspect import inspect
from mainstay.shard.answers.money import MoneyFacts, money_rows, whole
from mainstay.shard.answers.rows import (
    action_rows,
    first,
    machine_chunks,
    need_rows,
    paged,
    provider_row,
    selected,
    shortfall_row,
    spend_by_state,
)
from mainstay.shard.answers.whatif import what_if
from mainstay.shard.answers.when import Outlook
from mainstay.shard.controls import Control, ControlKind
from mainstay.shard.facts import ProviderFacts, Published, SessionFacts
from mainstay.shard.orders import Told

DEADLINE_S: Final = 20.0
"""How long a question may take that needs further decisions."""

NOT_TRIED: Final = "Which change would help was not found out in time."

AT_ONCE_MAX: Final = 2
"""So many of those run at a time; the others wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """How busy a shard is."""

    queued: int = 0
    in_flight: int = 0
    actions_per_minute: float = 0.0
    """Executed within the last minute."""


class Facts(Protocol):
    """A shard as its readers see it. Every value is frozen; nothing waits."""

    @property
    def shard_id(self) -> str:
        """Its name."""

    @property
    def epoch(self) -> int:
        """Which of its lives this is."""

    @property
    def published(self) -> Published | None:
        """What the last cycle left; None before the first."""

    def sessions(self) -> Sequence[SessionFacts]:
        """The connected clusters."""

    def providers(self) -> Sequence[ProviderFacts]:
        """Its providers."""

    def controls(self) -> Sequence[Control]:
        """The live controls in force."""

    def recent(self) -> Sequence[Told]:
        """What became of the last orders and when, the newest last."""

    def held_rollups(self) -> Mapping[ClusterId, int]:
        """Roll-ups in a row that were not believed, by cluster."""

    def not_acting(self) -> str:
        """Why it does not act; empty when it does."""

    def activity(self) -> Activity:
        """How busy it is."""

    def money(self) -> MoneyFacts:
        """What it costs and has cost."""

    def outlook(self) -> Outlook:
        """What it knows about time."""

    def enough_after(self, seconds: float) -> Callable[[], bool] | None:
        """Says when so many seconds have passed; None where nobody counts them."""


class Live(Facts, Protocol):
    """A shard that can also be told something."""

    async def set_control(
        self,
        kind: ControlKind,
        *,
        cluster: ClusterId | None,
        value: float,
        reason: str,
        by: str,
        lasts_s: float,
    ) -> Control:
        """Hold something back; kept when this returns."""

    async def lift_control(
        self, kind: ControlKind, *, cluster: ClusterId | None, reason: str, by: str
    ) -> Control:
        """Take a control back before its time; kept when this returns."""

    def retire(self, machine: MachineId, *, reason: str, by: str) -> Machine:
        """Give up the record of a Failed machine; as it was. Rejected in any other state."""


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
        rows = await self._aside(lambda: selected(plan.snapshot, query))
        chunks = machine_chunks(plan, paged(plan.snapshot, rows, query))
        while (chunk := await self._aside(lambda: next(chunks, None))) is not None:
            yield MachineRows(stamp=stamp, matched=len(rows), rows=chunk)

    async def needs(self, query: NeedQuery) -> NeedRows:
        """Demand, and what became of it."""
        published, stamp = self._shard.published, self._stamp()
        if published is None:
            return NeedRows(stamp=stamp)
        plan = published.plan
        matched, rows = await self._aside(lambda: need_rows(plan, query))
        return NeedRows(stamp=stamp, matched=matched, rows=rows)

    async def clusters(self, query: ClusterQuery) -> ClusterRows:
        """Who is served."""
        shard, stamp = self._shard, self._stamp()
        plan = None if shard.published is None else shard.published.plan
        sessions, held = tuple(shard.sessions()), dict(shard.held_rollups())
        rows = await self._aside(lambda: cluster_rows(plan, sessions, held))
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
        rows = tuple(map(control_row, self._shard.controls()))
        return ControlRows(stamp=self._stamp(), rows=rows)

    async def summary(self, query: SummaryQuery) -> Summary:  # noqa: ARG002
        """All of it in a few numbers."""
        return await self._aside(self._summed_up())

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

    def _summed_up(self) -> Callable[[], Summary]:
        """The summary, to be worked out beside the loop; what changes is read here and now."""
        shard, stamp, activity = self._shard, self._stamp(), self._shard.activity()
        published = shard.published
        providers = tuple(map(provider_row, sorted(shard.providers(), key=lambda p: p.name)))
        connected = len(shard.sessions())
        epoch, not_acting, controls = shard.epoch, shard.not_acting(), len(shard.controls())
        money = shard.money()
        held = sum(1 for count in shard.held_rollups().values() if count)

        def summed_up() -> Summary:
            plan = None if published is None else published.plan
            return Summary(
                stamp=stamp,
                epoch=epoch,
                not_acting=not_acting,
                machines={} if plan is None else _named(plan.snapshot.by_state),
                spend_per_hour={} if plan is None else spend_by_state(plan.snapshot),
                needs=0 if plan is None else len(plan.needs),
                unmet=0 if plan is None else len(plan.unsatisfied),
                parked=0 if plan is None else sum(told.parked for told in plan.unsatisfied),
                clusters=0 if plan is None else len({need.cluster for need in plan.needs}),
                connected=connected,
                seconds={} if published is None else dict(published.seconds),
                planned={} if plan is None else _named(doings(plan).counts()),
                queued=activity.queued,
                in_flight=activity.in_flight,
                actions_per_minute=activity.actions_per_minute,
                controls=controls,
                held_rollups=held,
                providers=providers,
                money=whole(money),
                money_since_s=money.since_s,
            )

        return summed_up


def _named(counts: Mapping[State, int] | Mapping[ActionKind, int]) -> dict[str, int]:
    return {str(each): count for each, count in counts.items()}


def stamp_of(shard: Facts) -> Stamp:
    """Whose answer it is, and which cycle it is about."""
    published = shard.published
    if published is None:
        return Stamp(shard=shard.shard_id)
    return Stamp(shard=shard.shard_id, cycle=published.cycle, at_s=published.at_s)


def control_row(control: Control) -> ControlRow:
    """One live control."""
    return ControlRow(
        kind=control.kind.value,
        cluster=control.cluster or "",
        value=control.value,
        reason=control.reason,
        by=control.by,
        set_at_s=control.set_at_s,
        expires_at_s=control.expires_at_s,
    )


class ShardControls:
    """`mainstay.model.questions.ShardControlCalls` over a live shard. Runs on its event loop."""

    def __init__(self, shard: Live) -> None:
        self._shard = shard

    async def set_control(self, request: SetControlRequest) -> ControlRow:
        """Restrict it."""
        control = await self._shard.set_control(
            _kind(request.kind),
            cluster=_cluster(request.cluster),
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


def _kind(text: str) -> ControlKind:
    if text not in list(ControlKind):
        raise Rejected(f"no such control: {text[:80]!r} (one of {', '.join(ControlKind)})")
    return ControlKind(text)


def _cluster(text: str) -> ClusterId | None:
    return parse_cluster_id(text) if text else None
