"""A dashboard over sources that answer from memory, and somebody who asks it over ASGI."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import httpx

from mainstay.dashboard.access import Doorkeeper, Role
from mainstay.dashboard.app import Parts, build
from mainstay.dashboard.told import Answers
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
    asked: list[Any] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)

    def _stamp(self, query: object) -> v.Stamp:
        self.asked.append(query)
        if self.silent:
            raise Unavailable(f"shard {self.name} does not answer")
        return v.Stamp(shard=self.name, cycle=7, at_s=1.0)

    async def machines(self, query: v.MachineQuery) -> AsyncIterator[v.MachineRows]:
        stamp, n = self._stamp(query), self.name
        rows = tuple(
            v.MachineRow(id=f"{self.machine or n}-{place:05}", state=State.IDLE, cluster=n,
                         instance_type=n, zone=n, provider=n, capacity_type=n, need=n, action=n)
            for place in range(min(self.count, query.limit))
        )  # fmt: skip
        yield v.MachineRows(stamp=stamp, matched=self.count, rows=rows)

    async def needs(self, query: v.NeedQuery) -> v.NeedRows:
        stamp, n = self._stamp(query), self.name
        row = v.NeedRow(cluster=n, fingerprint=n, group=n, reason=n, asks_for=n, domain=n,
                        asked={n: n}, missing={n: n})  # fmt: skip
        return v.NeedRows(stamp=stamp, matched=1, rows=(row,))

    async def clusters(self, query: v.ClusterQuery) -> v.ClusterRows:
        stamp, n = self._stamp(query), self.name
        row = v.ClusterRow(cluster=n, connected=True, heard=True, machines={"Idle": 2})
        return v.ClusterRows(stamp=stamp, rows=(row,))

    async def actions(self, query: v.ActionQuery) -> v.ActionRows:
        stamp, n = self._stamp(query), self.name
        row = v.ActionRow(cycle=3, decided=3, kind=n, machine=n, cluster=n, need=n, reason=n,
                          disposition=n, outcome=n, detail=n)  # fmt: skip
        return v.ActionRows(stamp=stamp, matched=1, rows=(row,))

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


@dataclass(slots=True)
class FakeSources:
    found: dict[str, FakeShard]
    tenants: FakeTenancy | None = None

    def shards(self) -> Mapping[str, FakeShard]:
        return self.found

    def coordinator(self) -> None:
        return None

    def tenancy(self) -> FakeTenancy | None:
        return self.tenants


class Visitor:
    """A dashboard, and one who looks at it."""

    def __init__(self, *shards: FakeShard, tenants: FakeTenancy | None = None) -> None:
        self.clock = StepClock(1_000.0)
        self.door = Doorkeeper(TOKENS, self.clock, lasts_s=3_600)
        self.sources = FakeSources({shard.name: shard for shard in shards}, tenants)
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
