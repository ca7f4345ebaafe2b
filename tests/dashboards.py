"""A dashboard over sources that answer from memory, and somebody who asks it over ASGI."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import httpx

from mainstay.dashboard.access import Doorkeeper, Person, Role
from mainstay.dashboard.app import Parts, build
from mainstay.dashboard.ended import Ended
from mainstay.dashboard.history import History
from mainstay.dashboard.ports import TenancyCalls
from mainstay.dashboard.told import Answers
from mainstay.model import coordinator_views as c
from mainstay.model import group_views as g
from mainstay.model import money_views as m
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.errors import Rejected, Unavailable, Unknown
from mainstay.model.state import State
from mainstay.runtime.clock import StepClock

TOKENS = {Role.ADMIN: "token-of-an-admin", Role.READONLY: "token-of-a-reader"}
PEOPLE = (
    Person(Role.ADMIN, "alice", TOKENS[Role.ADMIN]),
    Person(Role.READONLY, "readonly", TOKENS[Role.READONLY]),
)


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
    at_s: float = 0.0
    """When its actions were; zero: it does not say."""

    racks_count: int = 2
    price: float = 0.0
    asked: list[Any] = field(default_factory=list)
    sent: int = 0
    """Rows that were told, of any kind."""

    told: list[Any] = field(default_factory=list)
    expected: q.Expected = q.NOTHING_EXPECTED
    document: str = "{}"
    zone: str = ""
    """The only one that it has; empty: it has all of them."""

    fixed: str = ""
    """Why its configuration pauses it; empty: it does not."""

    fenced: str = ""
    """Why its provider refuses it; empty: it does not."""

    def _stamp(self, query: object) -> v.Stamp:
        self.asked.append(query)
        if self.silent:
            raise Unavailable(f"shard {self.name} does not answer")
        return v.Stamp(shard=self.name, cycle=7, at_s=1.0)

    async def machines(self, query: v.MachineQuery) -> AsyncIterator[v.MachineRows]:
        stamp, n = self._stamp(query), self.name
        names = [f"{self.machine or n}-{place:05}" for place in range(self.count)]
        first = bisect_right(names, query.after) if query.after else 0
        meant = [name for name in names[first:] if not query.ids or name in query.ids]
        rows = tuple(
            v.MachineRow(id=name, state=State.IDLE, cluster=n, instance_type=n, zone=n,
                         provider=n, capacity_type=n, need=n, action=n,
                         price_per_hour=self.price)
            for name in meant[: query.limit]
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
        return v.ClusterRows(stamp=stamp, rows=(row,) if query.cluster in {"", n} else ())

    async def actions(self, query: v.ActionQuery) -> v.ActionRows:
        stamp, n = self._stamp(query), self.name
        first = int(query.after or 0)
        rows = tuple(
            v.ActionRow(cycle=3, decided=3, kind=n, machine=f"{n}-{place}", cluster=n, need=n,
                        need_cluster=n, at_s=self.at_s, reason=n, disposition=n, outcome=n,
                        detail=n, id=str(place))
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
        unmatched = tuple(each for each in query.lost_zones if self.zone not in {"", each})
        if unmatched and query == q.WhatIfQuery(lost_zones=unmatched):
            raise Unknown(f"no machine has {unmatched[0]}")
        return q.WhatIfAnswer(
            stamp=stamp, actions_before={"provision": 1}, actions_after={"provision": 4},
            cost_before=10.0, cost_after=12.5, unsatisfied=(change,), unsatisfied_count=1,
            drained=(n,), drained_count=1, unmatched=unmatched,
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
        fixed = v.ControlRow(kind="pause", reason=self.fixed, by="configuration", fixed=True)
        return v.ControlRows(stamp=stamp, rows=(fixed,) if self.fixed else (row,))

    async def summary(self, query: v.SummaryQuery) -> v.Summary:
        health, why = ("fenced", self.fenced) if self.fenced else (self.name, self.name)
        provider = v.ProviderRow(name=self.name, health=health, why=why)
        return v.Summary(
            stamp=self._stamp(query), machines={"Idle": self.count}, needs=4, unmet=1,
            spend_per_hour={"Idle": 2.5},
            not_acting="" if self.fixed or self.fenced else self.name, providers=(provider,),
            money=v.MoneyRow(spend_per_hour=10**9, idle_per_hour=25 * 10**7),
        )  # fmt: skip

    async def money(self, query: m.MoneyQuery) -> m.MoneyRows:
        named = [self.name, *([m.NOBODY] if query.by == "cluster" else [])]
        rows = tuple(
            v.MoneyRow(name=name, spend_per_hour=10**9, unclaimed_per_hour=10**8,
                       saving_per_hour=3 * 10**8)
            for name in named
        )  # fmt: skip
        return m.MoneyRows(stamp=self._stamp(query), rows=rows, on_demand={self.name: 10**9})

    async def explain(self, question: q.Question) -> q.Explanation:
        stamp, n = self._stamp(question), self.name
        if question.about is q.About.MACHINE and not question.name.startswith(n[:3]):
            raise Rejected("no such machine here")
        return q.Explanation(
            stamp=stamp, subject=n, sentences=(n,), document=self.document, expected=self.expected
        )

    async def set_control(self, request: q.SetControlRequest) -> v.ControlRow:
        self.told.append(request)
        return v.ControlRow(kind=request.kind)

    async def lift_control(self, request: q.LiftControlRequest) -> v.ControlRow:
        self.told.append(request)
        return v.ControlRow(kind=request.kind)

    async def retire(self, request: q.RetireRequest) -> q.Retired:
        self.told.append(request)
        return q.Retired(stamp=v.Stamp(shard=self.name), machine=request.machine, last_error="gone")


@dataclass(slots=True)
class FakeTenancy:
    """Answers by path; who has something done is told of `alc_1`, unless another is given."""

    answers: Mapping[str, Any]
    done: Mapping[str, Any] = field(default_factory=dict)
    posted: list[tuple[str, Any, str]] = field(default_factory=list)
    asked: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    silent: bool = False

    async def get(self, path: str, **query: object) -> Any:
        self.asked.append((path, query))
        if self.silent:
            raise Unavailable("no answer from the API of tenants")
        if path not in self.answers:
            raise Rejected(f"nothing at {path}")
        return self.answers[path]

    async def post(
        self, path: str, body: Mapping[str, Any], *, key: str, by: str, **query: object
    ) -> Any:
        assert by == "alice", "nobody else may change anything"
        self.posted.append((path, dict(body), key))
        return self.done.get(path, {"allocation_id": "alc_1"})


def an_allocation(identity: str, **changes: Any) -> dict[str, Any]:
    """As the API of tenants tells of one."""
    return {
        "allocation_id": identity, "project_id": "prj", "status": "active", "sku": "s", "gpus": 2,
        "region": "r", "capacity_shape": "gpu_slice", "node_id": "n",
        "price": {"gpu_hour_minor": 450, "currency": "USD"}, "created_at": "2026-01-01T00:00:00Z",
        "provisioning_started_at": None, "active_at": None, "releasing_at": None,
        "released_at": None, "failed_at": None, "release_failed_at": None,
        "release_attempt": 1, "cancel_requested": False,
        "failure": None, "correlation_id": "c", "requested_by": "me", "connection": {},
        "ssh_key_ids": [], "claims": [], "proof": None,
        **changes,
    }  # fmt: skip


def tenancy(**changes: Any) -> FakeTenancy:
    row = an_allocation("alc_1", **changes)
    return FakeTenancy({
        "/admin/allocations/alc_1": row,
        "/admin/allocations": {"items": [row], "next_cursor": None},
        "/allocations/alc_1/timeline": {"moments": []},
        "/allocations/alc_1/bill": {
            "allocation": "alc_1", "currency": "USD", "lines": [], "amount_minor": 0,
            "amount": "$0.00", "charged_to": None, "is_whole": False,
        },
    })  # fmt: skip


REQUEST: dict[str, Any] = {
    "request_id": "cap_1", "project_id": "prj", "state": "waiting", "sku": "s", "gpus": 8,
    "region": "r", "reason": "no room", "allocation_id": None, "correlation_id": "c",
    "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T01:00:00Z", "ended_at": None,
}  # fmt: skip
UNSPECIFIED: dict[str, Any] = {"when": "unspecified", "seconds": 0.0, "because": [], "after": None}


def waited_for(after: dict[str, Any] | None, **changes: Any) -> FakeTenancy:
    return FakeTenancy({
        "/admin/capacity-requests": {"items": [REQUEST], "waiting": 137},
        "/admin/capacity-requests/cap_1": {**REQUEST, **changes},
        "/capacity-requests/cap_1/expected": {**UNSPECIFIED, "after": after},
    }, {"/capacity-requests/cap_1/cancel": {**REQUEST, "state": "cancelled"}})  # fmt: skip


class FakeCoordinator:
    """Knows a little of everything."""

    def __init__(self) -> None:
        self.silent = False

    @property
    def _stamp(self) -> c.CoordinatorStamp:
        if self.silent:
            raise Unavailable("no coordinator that leads answers")
        return c.CoordinatorStamp(coordinator="c-1", term=2)

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
    tenants: TenancyCalls | None = None
    coordinating: FakeCoordinator | None = None

    def shards(self) -> Mapping[str, FakeShard]:
        return self.found

    def coordinator(self) -> FakeCoordinator | None:
        return self.coordinating

    def tenancy(self) -> TenancyCalls | None:
        return self.tenants

    def tenants_cluster(self) -> str:
        return "shard-a"


class Visitor:
    """A dashboard, and one who looks at it."""

    def __init__(
        self,
        *shards: FakeShard,
        tenants: TenancyCalls | None = None,
        coordinating: FakeCoordinator | None = None,
        secure: bool = False,
        deadline_s: float = 0.05,
    ) -> None:
        self.clock = StepClock(1_000.0)
        self.door = Doorkeeper(PEOPLE, self.clock, lasts_s=3_600, ended=Ended(None))
        found = {shard.name: shard for shard in shards}
        self.sources = FakeSources(found, tenants, coordinating)
        self.answers = Answers(self.clock, deadline_s=deadline_s)
        self.parts = Parts(sources=self.sources, answers=self.answers, door=self.door,
                           history=History(),
                           clock=self.clock, refresh_s=0.01, secure=secure)  # fmt: skip
        self.app = build(self.parts)
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
        return asyncio.run(self.asked("GET", path, None))

    def post(self, path: str, **fields: str) -> httpx.Response:
        return asyncio.run(self.asked("POST", path, fields))

    async def asked(self, method: str, path: str, fields: Any) -> httpx.Response:
        over = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(
            transport=over, base_url="http://here", cookies=self.cookies
        ) as client:
            return await client.request(method, path, data=fields)
