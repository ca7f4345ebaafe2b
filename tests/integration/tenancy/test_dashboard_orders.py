"""What people order on the dashboard, at the real API: a refusal is not one for ever."""

import re

from callers import Stage, on_stage
from dashboards import Visitor
from mainstay.dashboard.tenants import RemoteTenancy
from mainstay.processes.web import serving_app
from mainstay.tenancy import request
from postgres import database_url, server
from tenants import NEW, begin, fail, node, order, value

__all__ = ["database_url", "server"]


async def again(visitor: Visitor, path: str) -> str:
    """Somebody opens the page of an allocation and presses its button; where that leads."""
    shown = (await visitor.asked("GET", path, None)).text
    nonce = re.findall(r'name="nonce" value="(\w+)"', shown)
    assert len(nonce) == 1
    fields = {"csrf": visitor.csrf, "nonce": nonce[0]}
    return str((await visitor.asked("POST", f"{path}/retry", fields)).headers["location"])


def test_what_was_refused_for_want_of_room_is_had_when_there_is_room(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool, free=range(2))
        failed = (await request.request(stage.pool, NEW, order(2)))["id"]
        await begin(stage.pool, failed)
        await fail(stage.pool, failed, clean=False)
        async with serving_app(stage.app, "127.0.0.1:0", {}) as at:
            tenants = RemoteTenancy(f"http://{at}", stage.admin.secret)
            visitor = Visitor(tenants=tenants, deadline_s=30.0).sign_in()
            path = f"/allocations/{failed}"

            assert await again(visitor, path) == "/allocations"
            await node(stage.pool, "node-b")
            led_to = {await again(visitor, path) for _ in range(2)}

        assert len(led_to) == 2
        assert await value(stage.pool, "select count(*) from allocations") == 3

    on_stage(database_url, scenario)
