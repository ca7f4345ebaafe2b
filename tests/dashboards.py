"""A dashboard over sources that answer from memory, and somebody who asks it over ASGI."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import httpx

from mainstay.dashboard.access import Doorkeeper, Role
from mainstay.dashboard.app import Parts, build
from mainstay.dashboard.told import Answers
from mainstay.model import coordinator_views as c
from mainstay.model import group_views as g
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.state import State
from mainstay.runtime.clock import StepClock

TOKENS = {Role.ADMIN: "admin-token", Role.READONLY: "readonly-token"}


@dataclass(slots=True)
class FakeShard:
    """Answers with what it was given; every name in it is `name`."""

    name: str
    count: int = 3
    machine: str = ""
    """How ids of machines begin; else as the shard."""

    silent: bool = False
    needs_count: int = 1
    actions_count: int = 1
    racks_count: int = 2
    asked: list[Any] = field(default_factory=list)
    sent: int = 0
    """Rows that were told, of any kind."""

    told: list[Any] = field(default_factory=list)

    def _stamp(self, query: object) -> v.Stamp:
        self.asked.append(query)
        if self.silent:
            raise Unavailable(f"shard {self.name} does not answer")
        return v.Stamp(shard=self.name, cycle=7, at_s=1.0)

    async def machines(self, query: v.MachineQuery) -> AsyncIterator[v.MachineRows]:
        stamp, n = self._stamp(query), self.name
        first = 0
        if query.after:
            name, _, place = query.after.rpartition("-")
            of_ours = int(place) + 1 if name == (self.machine or n) else 0
            first = self.count if name > (self.machine or n) else of_ours
        rows = tuple(
            v.MachineRow(id=f"{self.machine or n}-{place:05}", state=State.IDLE, cluster=n,
                         instance_type=n, zone=n, provider=n, capacity_type=n, need=n, action=n)
            for place in range(first, min(self.count, first + query.limit))
        )  # fmt: skip
        self.sent += len(rows)
        yield v.MachineRows(stamp=stamp, matched=self.count, rows=rows)

    async def needs(self, query: v.NeedQuery) -> v.NeedRows:
        stamp, n = self._stamp(query), self.name
        rows = tuple(
            v.NeedRow(cluster=n, fingerprint=n, group=f"{n}-{place}", reason=n, asks_for=n,
                      domain=n, priority=self.needs_count - place, place=place,
                      asked={n: n}, missing={n: n})
            for place in range(query.after + 1, self.needs_count + 1)
        )[: query.limit]  # fmt: skip
        self.sent += len(rows)
        return v.NeedRows(stamp=stamp, matched=self.needs_count, rows=rows)

    async def clusters(self, query: v.ClusterQuery) -> v.ClusterRows:
        stamp, n = self._stamp(query), self.name
        row = v.ClusterRow(cluster=n, connected=True, heard=True, machines={"Idle": 2})
        return v.ClusterRows(stamp=stamp, rows=(row,))

    async def actions(self, query: v.ActionQuery) -> v.ActionRows:
        stamp, n = self._stamp(query), self.name
        first = int(query.after or 0)
        rows = tuple(
            v.ActionRow(cycle=3, decided=3, kind=n, machine=f"{n}-{place}", cluster=n, need=n,
                        reason=n, disposition=n, outcome=n, detail=n, id=str(place))
            for place in range(first + 1, self.actions_count + 1)
        )[: query.limit]  # fmt: skip
        self.sent += len(rows)
        return v.ActionRows(stamp=stamp, matched=self.actions_count, rows=rows)

    async def groups(self, query: g.GroupQuery) -> g.GroupRows:
        stamp, n = self._stamp(query), self.name
        values = [f"{self.machine or n}-r{place:05}" for place in range(self.racks_count)]
        meant = [each for each in values if query.value in {"", each}]
        rows = tuple(
            g.GroupRow(value=each, machines={"Idle": 2, "Configured": 3}, spend_per_hour=1.5)
            for each in meant if each > query.after
        )[: query.limit]  # fmt: skip
        self.sent += len(rows)
        return g.GroupRows(stamp=stamp, matched=len(meant), rows=rows)

    async def what_if(self, query: q.WhatIfQuery) -> q.WhatIfAnswer:
        stamp, n = self._stamp(query), self.name
        change = q.NeedChange(cluster=n, fingerprint=n, group=n, before={n: n}, after={n: n})
        return q.WhatIfAnswer(
            stamp=stamp, actions_before={"provision": 1}, actions_after={"provision": 4},
            cost_before=10.0, cost_after=12.5, unsatisfied=(change,), unsatisfied_count=1,
            drained=(n,), drained_count=1,
        )  # fmt: skip

    async def shortfalls(self, query: v.ShortfallQuery) -> v.ShortfallRows:
        stamp, n = self._stamp(query), self.name
        row = v.ShortfallRow(fingerprint=n, clusters=(n,), reasons=(n,), missing={n: n})
        return v.ShortfallRows(stamp=stamp, rows=(row,))

    async def providers(self, query: v.ProviderQuery) -> v.ProviderRows:
        return v.ProviderRows(stamp=self._stamp(query))

    async def controls(self, query: v.ControlQuery) -> v.ControlRows:
        stamp, n = self._stamp(query), self.name
        row = v.ControlRow(kind="pause", cluster=n, reason=n, by=n, set_at_s=1, expires_at_s=9e9)
        return v.ControlRows(stamp=stamp, rows=(row,))

    async def summary(self, query: v.SummaryQuery) -> v.Summary:
        provider = v.ProviderRow(name=self.name, health=self.name, why=self.name)
        return v.Summary(
            stamp=self._stamp(query), machines={"Idle": self.count}, needs=4, unmet=1,
            spend_per_hour={"Idle": 2.5}, not_acting=self.name, providers=(provider,),
            money=v.MoneyRow(spend_per_hour=10**9, idle_per_hour=25 * 10**7),
        )  # fmt: skip

    async def money(self, query: v.MoneyQuery) -> v.MoneyRows:
        row = v.MoneyRow(name=self.name, spend_per_hour=10**9)
        return v.MoneyRows(stamp=self._stamp(query), rows=(row,))

    async def explain(self, question: q.Question) -> q.Explanation:
        stamp, n = self._stamp(question), self.name
        if question.about is q.About.MACHINE and not question.name.startswith(n[:3]):
            raise Rejected("no such machine here")
        return q.Explanation(stamp=stamp, subject=n, sentences=(n,), document="{}")

    async def set_control(self, request: q.SetControlRequest) -> v.ControlRow:
        self.told.append(request)
        return v.ControlRow(kind=request.kind)

    async def lift_control(self, request: q.LiftControlRequest) -> v.ControlRow:
        self.told.append(request)
        return v.ControlRow(kind=request.kind)

    async def retire(self, request: q.RetireRequest) -> q.Retired:
        raise AssertionError(f"no page retires a machine: {request}")


@dataclass(slots=True)
class FakeTenancy:
    """Answers by path."""

    answers: Mapping[str, Any]
    posted: list[tuple[str, Any, str]] = field(default_factory=list)

    async def get(self, path: str, **query: object) -> Any:
        if path not in self.answers:
            raise Rejected(f"nothing at {path}")
        return self.answers[path]

    async def post(self, path: str, body: Mapping[str, Any], *, key: str, **query: object) -> Any:
        self.posted.append((path, dict(body), key))
        return {"allocation_id": "alc_1"}


class FakeCoordinator:
    """Knows a little of everything."""

    def __init__(self) -> None:
        self._stamp = c.CoordinatorStamp(coordinator="c-1", term=2)

    async def shards(self, query: c.ShardQuery) -> c.ShardRows:
        return c.ShardRows(stamp=self._stamp, rows=(c.ShardRow(id="shard-a", free=4),))

    async def domains(self, query: c.DomainQuery) -> c.DomainRows:
        row = c.DomainRow(key="zone", value="z1", shard="shard-a", state="held")
        return c.DomainRows(stamp=self._stamp, matched=1, rows=(row,))

    async def moves(self, query: c.MoveQuery) -> c.MoveRows:
        row = c.MoveRow(id="mv-1", donor="shard-a", recipient="shard-b", state="offered",
                        wanted="2 x h200", machines=("m-1", "m-2"), why="short")  # fmt: skip
        return c.MoveRows(stamp=self._stamp, matched=1, rows=(row,))

    async def instructions(self, query: c.InstructionQuery) -> c.InstructionRows:
        row = c.InstructionRow(shard="shard-b", sequence=9, id="i-9", kind="TransferOwnership",
                               what="take 2 machines", move="mv-1", attempts=3,
                               last_outcome="retry", last_reason="busy")  # fmt: skip
        return c.InstructionRows(stamp=self._stamp, matched=1, rows=(row,))

    async def conflicts(self, query: c.ConflictQuery) -> c.ConflictRows:
        return c.ConflictRows(stamp=self._stamp)

    async def plan(self, query: c.PlanQuery) -> c.PlanRow:
        return c.PlanRow(stamp=self._stamp)

    async def quotas(self, query: c.QuotaQuery) -> c.QuotaRows:
        shares = (c.QuotaShare(shard="shard-a", granted=60, held=55, used=50, wanted=70),)
        row = c.QuotaRow(kind="cluster", name="blue", entitled=100, granted=60, shares=shares)
        return c.QuotaRows(stamp=self._stamp, rows=(row,))


@dataclass(slots=True)
class FakeSources:
    found: dict[str, FakeShard]
    tenants: FakeTenancy | None = None
    coordinating: FakeCoordinator | None = None

    def shards(self) -> Mapping[str, FakeShard]:
        return self.found

    def coordinator(self) -> FakeCoordinator | None:
        return self.coordinating

    def tenancy(self) -> FakeTenancy | None:
        return self.tenants


class Visitor:
    """A dashboard, and one who looks at it."""

    def __init__(
        self,
        *shards: FakeShard,
        tenants: FakeTenancy | None = None,
        coordinating: FakeCoordinator | None = None,
    ) -> None:
        self.clock = StepClock(1_000.0)
        self.door = Doorkeeper(TOKENS, self.clock, lasts_s=3_600)
        found = {shard.name: shard for shard in shards}
        self.sources = FakeSources(found, tenants, coordinating)
        self.answers = Answers(self.clock, deadline_s=0.05)
        self.app = build(
            Parts(sources=self.sources, answers=self.answers, door=self.door, clock=self.clock,
                  refresh_s=0.01)
        )  # fmt: skip
        self.cookies: dict[str, str] = {}

    def sign_in(self, role: Role = Role.ADMIN) -> "Visitor":
        cookie = cast("str", self.door.admit(TOKENS[role]))
        self.cookies["mainstay_dashboard"] = cookie
        return self

    @property
    def csrf(self) -> str:
        session = self.door.known(self.cookies["mainstay_dashboard"])
        assert session is not None
        return session.csrf

    def get(self, path: str) -> httpx.Response:
        return asyncio.run(self._asked("GET", path, None))

    def post(self, path: str, **fields: str) -> httpx.Response:
        return asyncio.run(self._asked("POST", path, fields))

    async def _asked(self, method: str, path: str, fields: Any) -> httpx.Response:
        over = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(
            transport=over, base_url="http://here", cookies=self.cookies
        ) as client:
            return await client.request(method, path, data=fields)
