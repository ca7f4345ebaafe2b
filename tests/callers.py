"""The API on a real database, with a key for every role and a client for each."""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from mainstay.runtime.clock import Clock, SystemClock
from mainstay.tenancy import api_keys, consume
from mainstay.tenancy.api_keys import NewKey, Role
from mainstay.tenancy.attempts import Who
from mainstay.tenancy.bell import Bell
from mainstay.tenancy.bus_metrics import ConsumerMetrics
from mainstay.tenancy.database.connect import Pool
from mainstay.tenancy.http.app import PREFIX, build
from mainstay.tenancy.http.caller import Parts
from mainstay.tenancy.http.limits import RateLimit
from mainstay.tenancy.http.tokens import Tokens
from mainstay.tenancy.notices import Notifier
from mainstay.tenancy.signing import Signer
from postgres import pool_of
from tenants import NEW, OTHER_PROJECT, PROJECT, furnish, rows

WHO: Final = Who(name="test", role="admin", correlation_id="cor_test")
_KEYS: Final = itertools.count(1)


@dataclass(frozen=True)
class Caller:
    """Somebody who calls with a key of theirs."""

    client: httpx.AsyncClient
    secret: str

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.client.get(PREFIX + path, params=query)

    async def post(
        self, path: str, body: Mapping[str, Any] | None = None, *, key: str = "", **headers: str
    ) -> httpx.Response:
        named = {"X-Idempotency-Key": key or f"k{next(_KEYS)}", **headers}
        return await self.client.post(PREFIX + path, json=body, headers=named)

    async def delete(self, path: str) -> httpx.Response:
        headers = {"X-Idempotency-Key": f"k{next(_KEYS)}"}
        return await self.client.delete(PREFIX + path, headers=headers)


@dataclass(frozen=True)
class Stage:
    """An API and those who call it."""

    pool: Pool
    app: Any
    tenant: Caller
    other: Caller
    """A tenant of another project."""

    member: Caller
    admin: Caller
    readonly: Caller

    def by(self, role: str) -> Caller:
        found = getattr(self, role)
        assert isinstance(found, Caller)
        return found

    async def notify(self) -> None:
        """Let the notifier consume everything that is in the outbox."""
        for row in await rows(self.pool, "select id from outbox order by position"):
            delivery = Delivered(row["id"])
            await consume.take(self.pool, Notifier(), delivery, consume.DEFAULT, ConsumerMetrics())


@dataclass(frozen=True)
class Delivered:
    """A message of which nobody needs to know how it ended."""

    event_id: str

    async def ack(self) -> None: ...

    async def nak(self, delay_s: float) -> None: ...

    async def dead(self, reason: str) -> None: ...


def on_stage(url: str, test: Callable[[Stage], Awaitable[None]], **changes: Any) -> None:
    """Run a test's own coroutine with an API and its callers."""

    async def inside() -> None:
        async with pool_of(url) as pool:
            await furnish(pool)
            async with staged(pool, **changes) as stage:
                await test(stage)

    asyncio.run(inside())


@asynccontextmanager
async def staged(
    pool: Pool,
    *,
    clock: Clock | None = None,
    per_s: float = 1e6,
    burst: int = 10**6,
    tokens: Tokens | None = None,
    bell: Bell | None = None,
) -> AsyncIterator[Stage]:
    clock = clock or SystemClock()
    folder = tempfile.mkdtemp(prefix="mainstay-signing-")
    parts = Parts(
        pool=pool,
        signer=Signer(Path(folder)),
        ids=NEW,
        bell=bell or Bell(),
        rate=RateLimit(clock, per_s=per_s, burst=burst),
        clock=clock,
        tokens=tokens,
    )
    app = build(parts)
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, folder)

        async def caller(role: Role, project: str | None = None) -> Caller:
            new = NewKey(role=role, project=project)
            _, secret = await api_keys.create(pool, NEW, new, WHO)
            return await called(stack, app, secret)

        yield Stage(
            pool=pool,
            app=app,
            tenant=await caller(Role.TENANT, PROJECT),
            other=await caller(Role.TENANT, OTHER_PROJECT),
            member=await caller(Role.MEMBER, PROJECT),
            admin=await caller(Role.ADMIN),
            readonly=await caller(Role.READONLY),
        )


async def called(stack: AsyncExitStack, app: Any, secret: str) -> Caller:
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://api.example",
        headers={"Authorization": f"Bearer {secret}"} if secret else {},
    )
    return Caller(await stack.enter_async_context(client), secret)
