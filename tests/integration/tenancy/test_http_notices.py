"""Notices: written once by the notifier, read by a cursor that misses nothing, told at once."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest

from callers import Stage, on_stage, staged
from mainstay.tenancy import notices, outbox
from mainstay.tenancy.bell import listening
from mainstay.tenancy.bus import envelope_of
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.http import live
from mainstay.tenancy.http.caller import Parts
from mainstay.tenancy.notices import Notifier
from mainstay.tenancy.states import EventType
from postgres import database_url, pool_of, server
from tenants import ACCOUNT, NEW, OTHER_PROJECT, PROJECT, active, furnish, node, rows, run

__all__ = ["database_url", "server"]


async def happened(pool: Pool, kind: EventType = EventType.LOW_BALANCE, **payload: Any) -> Row:
    async with transaction(pool) as tx:
        event = outbox.Event(event_type=kind, key="k", correlation_id="c", payload=payload)
        identity = await outbox.append(tx, NEW, event)
    [row] = await rows(pool, "select * from outbox where id = %s", [identity])
    return row


async def consumed(pool: Pool, row: Row) -> None:
    async with transaction(pool) as tx:
        await Notifier().handle(tx, envelope_of(row))


def test_a_tenant_reads_what_happened_to_its_allocations_from_a_cursor_on(
    database_url: str,
) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        held = (await active(stage.pool))["id"]
        await stage.notify()
        await stage.notify()  # a second delivery tells nothing twice

        first = (await stage.tenant.get("/notices", limit=1)).json()
        rest = (await stage.tenant.get("/notices", after=first["next_cursor"])).json()

        told = [*first["items"], *rest["items"]]
        assert [notice["event_type"] for notice in told] == [
            "provisioning.requested", "provisioning.active",
        ]  # fmt: skip
        assert {notice["allocation_id"] for notice in told} == {held}
        end = (await stage.tenant.get("/notices", after=rest["next_cursor"])).json()
        assert end == {"items": [], "next_cursor": rest["next_cursor"]}

    on_stage(database_url, scenario)


def test_another_project_hears_nothing_of_it_but_of_its_account_everybody_does(
    database_url: str,
) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        await active(stage.pool)
        await happened(stage.pool, account_id=ACCOUNT)
        await stage.notify()

        mine = (await stage.tenant.get("/notices")).json()["items"]
        theirs = (await stage.other.get("/notices")).json()["items"]

        assert len(mine) == 3
        assert [notice["event_type"] for notice in theirs] == ["billing.low_balance_warning"]

    on_stage(database_url, scenario)


def test_a_cursor_never_passes_a_notice_that_is_not_committed_yet(database_url: str) -> None:
    """Or a reader who has seen the later one would never see the earlier."""

    async def scenario(pool: Pool) -> None:
        first, second = [await happened(pool, project_id=PROJECT) for _ in range(2)]
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            async with transaction(pool) as tx:
                await Notifier().handle(tx, envelope_of(first))
                begun.set()
                await may_end.wait()

        async with asyncio.TaskGroup() as group:
            group.create_task(slow())
            await begun.wait()
            later = group.create_task(consumed(pool, second))
            await asyncio.sleep(0.3)
            assert not later.done()
            assert await notices.since(pool, PROJECT, after=0) == []
            await consumed(pool, await happened(pool, project_id=OTHER_PROJECT))  # nobody waits
            may_end.set()

        seen = await notices.since(pool, PROJECT, after=0)
        assert [row["event_id"] for row in seen] == [first["id"], second["id"]]

    run(database_url, scenario)


def test_two_accounts_worth_of_projects_are_locked_in_one_order(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        events = [await happened(pool, account_id=ACCOUNT) for _ in range(20)]

        async with asyncio.TaskGroup() as group:
            for row in events:
                group.create_task(consumed(pool, row))

        for project in (PROJECT, OTHER_PROJECT):
            assert len(await notices.since(pool, project, after=0)) == 20

    run(database_url, scenario)


async def told(stage: Stage, after: int = 0) -> AsyncGenerator[dict[str, str], None]:
    """The fields of one server-sent event after the other."""
    parts = stage.app.state.parts
    assert isinstance(parts, Parts)
    async with aclosing(cast("Any", live._told(parts, PROJECT, after, None))) as stream:
        async for text in stream:
            lines = (line.partition(": ") for line in text.splitlines() if line)
            yield {name: rest for name, _, rest in lines}


def test_a_stream_tells_what_was_and_what_comes_and_goes_on_where_it_broke_off(
    database_url: str,
) -> None:
    async def inside() -> None:
        async with pool_of(database_url) as pool, listening(database_url) as bell:
            await furnish(pool)
            async with staged(pool, bell=bell) as stage, aclosing(told(stage)) as stream:
                before = await happened(pool, project_id=PROJECT)
                await consumed(pool, before)
                assert await anext(stream) == {"retry": "1000"}
                first = await anext(stream)

                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0.2)
                later = await happened(pool, project_id=PROJECT)
                await consumed(pool, later)
                async with asyncio.timeout(3):
                    second = await waiting

                assert [first["event"], second["event"]] == 2 * ["billing.low_balance_warning"]
                assert json.loads(first["data"])["event_id"] == before["id"]
                assert json.loads(second["data"])["event_id"] == later["id"]
                async with aclosing(told(stage, after=int(first["id"]))) as again:
                    await anext(again)
                    assert (await anext(again))["id"] == second["id"]

    asyncio.run(inside())


def test_last_event_id_wins_over_the_query_and_the_stream_is_one_of_events(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "STREAM_S", 0.5)

    async def scenario(stage: Stage) -> None:
        for _ in range(2):
            await consumed(stage.pool, await happened(stage.pool, project_id=PROJECT))
        first, second = await notices.since(stage.pool, PROJECT, after=0)

        answer = await stage.tenant.client.get(
            "/api/v1/notices/stream",
            params={"after": 0},
            headers={"Last-Event-ID": str(first["position"])},
        )

        assert answer.headers["content-type"].startswith("text/event-stream")
        assert f"id: {second['position']}\n" in answer.text
        assert f"id: {first['position']}\n" not in answer.text

    on_stage(database_url, scenario)
