"""The questions of one page: all at once, each with its deadline, and what of it is old."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

from mainstay.dashboard.history import History
from mainstay.dashboard.paging import ASKED, Cursors
from mainstay.dashboard.ports import CoordinatorCalls, ShardCalls, Sources, TenancyCalls
from mainstay.dashboard.told import Answers, Patience, Told
from mainstay.model import coordinator_views as c
from mainstay.model import group_views as g
from mainstay.model import money_views as m
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.errors import MainstayError, Unavailable, Unknown

T = TypeVar("T")
QueryT = TypeVar("QueryT", bound=Hashable)

COORDINATOR: Final = "coordinator"
TENANCY: Final = "tenancy"
SHOWN_MAX: Final = 200
"""So many rows of a list that has no pages; its caption says how many there are."""

MOVES_SHOWN: Final = 50
SHORTFALLS_SHOWN: Final = 8

EXPLAINED: Final = Patience(deadline_s=20.0, fresh_s=30.0)
"""Of a need: it takes further decisions, so it may take longer, and is not asked for often."""

REPORTED: Final = Patience(deadline_s=5.0, fresh_s=2.0)
"""Of a machine or a cluster; or of a need, without trying what would help."""

SUPPOSED: Final = Patience(deadline_s=60.0, fresh_s=60.0)
"""A what-if decides twice."""

NO_COORDINATOR: Final = "no coordinator runs here: start one with `mainstay coordinator`"
NOBODY: Final = "nobody was asked: no shard runs here"
NO_TENANCY: Final = "no API of tenants runs here: start one with `mainstay api --all`"


DIVIDED: Final = Patience(deadline_s=20.0, fresh_s=15.0)
"""All that tenants have: many pages, so not asked for often."""

MACHINES_MAX: Final = 5_000
"""So many machines of tenants are looked at in each shard."""

PAGE: Final = 200
OVER_MAX: Final = 5_000
"""So many retired nodes, and allocations, are looked at; and all nodes in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What tenants have and had: all nodes in use, some retired ones, the newest allocations."""

    in_use: Sequence[Mapping[str, Any]]
    retired: Sequence[Mapping[str, Any]]
    allocations: Sequence[Mapping[str, Any]]
    cut_retired: bool
    """Whether there are more."""

    cut_allocations: bool

    @property
    def nodes(self) -> Sequence[Mapping[str, Any]]:
        """Each once; one that was retired between two questions is retired."""
        return tuple({node["id"]: node for node in (*self.in_use, *self.retired)}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinated:
    """What the coordinator knows of what is on its way from shard to shard."""

    moves: Told[c.MoveRows]
    instructions: Told[c.InstructionRows]
    conflicts: Told[c.ConflictRows]
    plan: Told[c.PlanRow]


class Asking:
    """One page's questions. What was told is remembered, so that the page can say what is old."""

    def __init__(self, sources: Sources, answers: Answers, history: History) -> None:
        self._sources, self._answers, self.history = sources, answers, history
        self.heard: list[Told[Any]] = []

    @property
    def names(self) -> tuple[str, ...]:
        """Of the shards that are known."""
        return tuple(sorted(self._sources.shards()))

    async def summaries(self) -> list[Told[v.Summary]]:
        """Each shard in a few numbers."""
        return await self._all("summary", lambda s: s.summary(v.SummaryQuery()))

    async def clusters(self, cluster: str = "", after: str = "") -> list[Told[v.ClusterRows]]:
        """A page of the clusters of each shard."""
        query = v.ClusterQuery(cluster=cluster, limit=ASKED, after=after)
        return await self._all(query, lambda s: s.clusters(query))

    async def needs(self, query: v.NeedQuery, after: Cursors) -> list[Told[v.NeedRows]]:
        """A page of needs of each shard, behind the place that was shown last of it."""
        assert query.limit > 0, "a page never asks for all needs"
        asked = {
            name: replace(query, after=int(after[name]))
            for name in self.names
            if after.get(name, "").isdecimal() and len(after[name]) < 10
        }
        return await self._each(lambda name: asked.get(name, query), lambda s, q_: s.needs(q_))

    async def shortfalls(self) -> list[Told[v.ShortfallRows]]:
        """What is missing most at each shard."""
        query = v.ShortfallQuery(limit=SHORTFALLS_SHOWN)
        return await self._all(query, lambda s: s.shortfalls(query))

    async def money(self, by: str) -> list[Told[m.MoneyRows]]:
        """What each shard costs, by `cluster`, `type` or `class`."""
        return await self._all(("money", by), lambda s: s.money(m.MoneyQuery(by=by)))

    async def actions(
        self, query: v.ActionQuery, after: Cursors = MappingProxyType({})
    ) -> list[Told[v.ActionRows]]:
        """A page of the last actions of each shard, older than what was shown last of it."""
        assert query.limit > 0, "a page never asks for all actions"
        return await self._each(
            lambda name: replace(query, after=after.get(name, "")),
            lambda s, asked: s.actions(asked),
        )

    async def groups(self, query: g.GroupQuery) -> list[Told[g.GroupRows]]:
        """Machines of each shard, counted by an attribute; so many values at most."""
        assert query.limit > 0, "a page never asks for all values"
        return await self._all(query, lambda s: s.groups(query))

    async def supposed(self, queries: Mapping[str, q.WhatIfQuery]) -> list[Told[q.WhatIfAnswer]]:
        """What would change at each of these shards, each asked something of its own."""
        shards = self._sources.shards()
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(
                    self._one(
                        name,
                        ("what if", repr(query)),  # its amounts have no hash
                        partial(shards[name].what_if, query),
                        SUPPOSED,
                    )
                )
                for name, query in queries.items()
                if name in shards
            ]
        return [task.result() for task in asked]

    async def controls(self) -> list[Told[v.ControlRows]]:
        """What restricts each shard."""
        return await self._all("controls", lambda s: s.controls(v.ControlQuery()))

    async def machines(self, query: v.MachineQuery) -> list[Told[v.MachineRows]]:
        """So many machines of each shard; the limit is never left open."""
        assert query.limit > 0, "a page never asks for all machines"
        key = ("machines", repr(query))  # its labels have no hash
        return await self._all(key, lambda s: _gathered(s, query))

    async def explained(self, question: q.Question, shard: str = "") -> list[Told[q.Explanation]]:
        """Why; by one shard, or by all of which some know nothing of it."""
        deep = question.about in {q.About.NEED, q.About.GANG} and not question.quick
        patience = EXPLAINED if deep else REPORTED
        return await self._all(
            question, lambda s: s.explain(question), only=shard, patience=patience
        )

    async def coordinator(
        self, key: Hashable, question: Callable[[CoordinatorCalls], Awaitable[T]]
    ) -> Told[T]:
        """One question to the coordinator."""

        async def ask() -> T:
            found = self._sources.coordinator()
            if found is None:
                raise Unavailable(NO_COORDINATOR)
            return await question(found)

        return await self._one(COORDINATOR, key, ask)

    async def registered(self) -> tuple[Told[c.ShardRows], Told[c.DomainRows]]:
        """Shards and domains, as the coordinator knows them."""
        domains, ask = c.DomainQuery(limit=SHOWN_MAX), self.coordinator
        async with asyncio.TaskGroup() as group:
            shards = group.create_task(ask("shards", lambda r: r.shards(c.ShardQuery())))
            held = group.create_task(ask("domains", lambda r: r.domains(domains)))
        return shards.result(), held.result()

    async def quotas(self) -> Told[c.QuotaRows]:
        """Who may hold how much."""
        return await self.coordinator("quotas", lambda r: r.quotas(c.QuotaQuery()))

    async def coordinated(self) -> Coordinated:
        """What goes from shard to shard."""
        moves, told = c.MoveQuery(limit=MOVES_SHOWN), c.InstructionQuery(limit=MOVES_SHOWN)
        async with asyncio.TaskGroup() as group:
            ask = self.coordinator
            moved = group.create_task(ask("moves", lambda r: r.moves(moves)))
            pending = group.create_task(ask("instructions", lambda r: r.instructions(told)))
            claims = group.create_task(ask("conflicts", lambda r: r.conflicts(c.ConflictQuery())))
            plan = group.create_task(ask("plan", lambda r: r.plan(c.PlanQuery())))
        return Coordinated(
            moves=moved.result(),
            instructions=pending.result(),
            conflicts=claims.result(),
            plan=plan.result(),
        )

    async def tenancy(self, path: str, **query: object) -> Told[Any]:
        """One question to the API of tenants."""

        async def ask() -> Any:
            return await self.tenants().get(path, **query)

        return await self._one(TENANCY, (path, tuple(sorted(query.items()))), ask)

    @property
    def tenants_cluster(self) -> str:
        """Which cluster tenants are to the shards."""
        return self._sources.tenants_cluster()

    async def tenant_machines(self) -> list[Told[v.MachineRows]]:
        """Those of tenants, with their prices."""
        query = v.MachineQuery(cluster=self.tenants_cluster, limit=MACHINES_MAX)
        key = ("machines of tenants", query.cluster)
        return await self._all(key, lambda s: _gathered(s, query), patience=DIVIDED)

    async def held(self) -> Told[Held]:
        """What is divided between tenants."""

        async def ask() -> Held:
            api = self.tenants()
            in_use, _ = await _pages(api, "/admin/nodes", _behind_last, None, outages=True)
            retired, cut_retired = await _pages(
                api, "/admin/nodes", _behind_last, OVER_MAX, retired_only=True, outages=True
            )
            rows, cut = await _pages(api, "/admin/allocations", _cursor, OVER_MAX)
            return Held(
                in_use=in_use,
                retired=retired,
                allocations=rows,
                cut_retired=cut_retired,
                cut_allocations=cut,
            )

        return await self._one(TENANCY, "held", ask, DIVIDED)

    def shard(self, name: str) -> ShardCalls:
        """The one that is to be told something."""
        found = self._sources.shards().get(name)
        if found is None:
            raise Unavailable(f"no shard {name[:80]} is known here")
        return found

    def tenants(self) -> TenancyCalls:
        """Who is to be told something of tenants."""
        found = self._sources.tenancy()
        if found is None:
            raise Unavailable(NO_TENANCY)
        return found

    def forget(self, source: str) -> None:
        """It was changed: the next page asks anew."""
        self._answers.forget(source)

    async def _each(
        self,
        query_of: Callable[[str], QueryT],
        question: Callable[[ShardCalls, QueryT], Awaitable[T]],
    ) -> list[Told[T]]:
        """A question of its own to each shard."""
        queries = [(name, s, query_of(name)) for name, s in sorted(self._sources.shards().items())]
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(self._one(name, query, partial(question, shard, query)))
                for name, shard, query in queries
            ]
        return [task.result() for task in asked]

    async def _all(
        self,
        key: Hashable,
        question: Callable[[ShardCalls], Awaitable[T]],
        *,
        only: str = "",
        patience: Patience | None = None,
    ) -> list[Told[T]]:
        shards = self._sources.shards()
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(self._one(name, key, _bound(question, shard), patience))
                for name, shard in sorted(shards.items())
                if only in {"", name}
            ]
        return [task.result() for task in asked]

    async def _one(
        self,
        source: str,
        key: Hashable,
        question: Callable[[], Awaitable[T]],
        patience: Patience | None = None,
    ) -> Told[T]:
        told = await self._answers.ask(source, key, question, patience)
        self.heard.append(told)
        return told


def _behind_last(page: Mapping[str, Any]) -> tuple[str, str] | None:
    items = page["items"]
    return ("after", str(items[-1]["id"])) if len(items) == PAGE else None


def _cursor(page: Mapping[str, Any]) -> tuple[str, str] | None:
    return ("cursor", page["next_cursor"]) if page["next_cursor"] else None


async def _pages(
    api: TenancyCalls,
    path: str,
    onward: Callable[[Mapping[str, Any]], tuple[str, str] | None],
    rows_max: int | None,
    **query: object,
) -> tuple[list[Mapping[str, Any]], bool]:
    """So many rows of a list, None: all of them, and whether there are more."""
    rows: list[Mapping[str, Any]] = []
    behind: dict[str, str] = {}
    while True:
        page = await api.get(path, limit=PAGE, **query, **behind)
        if rows_max is not None and len(rows) >= rows_max:
            return rows, bool(page["items"])
        rows += page["items"]
        way = onward(page)
        if way is None:
            return rows, False
        behind = dict([way])


def _bound(
    question: Callable[[ShardCalls], Awaitable[T]], shard: ShardCalls
) -> Callable[[], Awaitable[T]]:
    return lambda: question(shard)


async def _gathered(shard: ShardCalls, query: v.MachineQuery) -> v.MachineRows:
    """The chunks of an answer as one."""
    rows: list[v.MachineRow] = []
    last: v.MachineRows | None = None
    async for last in shard.machines(query):
        rows.extend(last.rows)
    if last is None:
        raise Unavailable("the answer was empty")
    return v.MachineRows(stamp=last.stamp, matched=last.matched, rows=tuple(rows))


def stale(heard: Iterable[Told[Any]]) -> dict[str, Told[Any]]:
    """By source the oldest of what is old."""
    found: dict[str, Told[Any]] = {}
    for told in heard:
        if told.is_stale and (
            told.source not in found or told.since_s < found[told.source].since_s
        ):
            found[told.source] = told
    return found


def refusal(told: Iterable[Told[Any]]) -> MainstayError:
    """Why nobody knew: there is none like that, unless one that is silent may know of it."""
    asked = list(told)
    refused = [each.error for each in asked if each.refused]
    silent = [f"{each.source} does not answer: {each.error}" for each in asked if each.is_stale]
    if refused and not silent:
        return Unknown(refused[0])
    return Unavailable("; ".join([*refused[:1], *silent[:1]]) or NOBODY)


def freshest(told: Iterable[Told[T]]) -> list[Told[T]]:
    """Those that have told something, what is of now before what is old."""
    return sorted(
        (each for each in told if each.value is not None),
        key=lambda each: (each.is_stale, -each.at_s if each.is_stale else 0),
    )
