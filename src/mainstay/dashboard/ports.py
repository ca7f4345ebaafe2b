"""Whom the pages ask, and how: given from outside, so that tests answer for themselves."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from mainstay.model import coordinator_views as c
from mainstay.model import group_views as g
from mainstay.model import money_views as m
from mainstay.model import questions as q
from mainstay.model import views as v


class ShardCalls(q.ShardControlCalls, Protocol):
    """One shard. Raises only MainstayError."""

    def machines(self, query: v.MachineQuery) -> AsyncIterator[v.MachineRows]:
        """Machines in order of their ids, in chunks."""

    async def needs(self, query: v.NeedQuery) -> v.NeedRows:
        """Demand, and what became of it."""

    async def clusters(self, query: v.ClusterQuery) -> v.ClusterRows:
        """Who is served."""

    async def actions(self, query: v.ActionQuery) -> v.ActionRows:
        """What was done and what was not."""

    async def shortfalls(self, query: v.ShortfallQuery) -> v.ShortfallRows:
        """What is missing."""

    async def providers(self, query: v.ProviderQuery) -> v.ProviderRows:
        """Through whom the shard acts."""

    async def controls(self, query: v.ControlQuery) -> v.ControlRows:
        """What restricts it."""

    async def summary(self, query: v.SummaryQuery) -> v.Summary:
        """All of it in a few numbers."""

    async def money(self, query: m.MoneyQuery) -> m.MoneyRows:
        """What it costs and has cost."""

    async def explain(self, question: q.Question) -> q.Explanation:
        """Why."""

    async def what_if(self, query: q.WhatIfQuery) -> q.WhatIfAnswer:
        """What would change if."""

    async def groups(self, query: g.GroupQuery) -> g.GroupRows:
        """Machines counted by the values of an attribute."""


class CoordinatorCalls(Protocol):
    """The coordinator that leads. Raises only MainstayError."""

    async def shards(self, query: c.ShardQuery) -> c.ShardRows:
        """Who reports."""

    async def domains(self, query: c.DomainQuery) -> c.DomainRows:
        """Who has which domain."""

    async def moves(self, query: c.MoveQuery) -> c.MoveRows:
        """Hand-overs."""

    async def conflicts(self, query: c.ConflictQuery) -> c.ConflictRows:
        """What two claim."""

    async def plan(self, query: c.PlanQuery) -> c.PlanRow:
        """What would be moved now."""

    async def quotas(self, query: c.QuotaQuery) -> c.QuotaRows:
        """Who may hold how much of what."""

    async def instructions(self, query: c.InstructionQuery) -> c.InstructionRows:
        """What shards were told and have not done."""


class TenancyCalls(Protocol):
    """The API of tenants. Raises only MainstayError."""

    async def get(self, path: str, **query: object) -> Any:
        """What is there."""

    async def post(
        self, path: str, body: Mapping[str, Any], *, key: str, by: str, **query: object
    ) -> Any:
        """Have something done, once for each key, in the name of `by`."""


class Sources(Protocol):
    """All that may be asked. One that has stopped stays, so that its numbers can grow old."""

    def shards(self) -> Mapping[str, ShardCalls]:
        """By name."""

    def coordinator(self) -> CoordinatorCalls | None:
        """None: nobody has told of one."""

    def tenancy(self) -> TenancyCalls | None:
        """None: nobody has told of one."""

    def tenants_cluster(self) -> str:
        """Which cluster tenants are to the shards."""
