"""When, by HTTP: told by how long others took, and by the need that a request waits behind."""

from typing import Any, Final

import pytest

from callers import Stage, on_stage
from mainstay.bridge.demand import needs
from mainstay.model.ids import ClusterId
from mainstay.tenancy import wanted_rows
from mainstay.tenancy.database.connect import transaction
from mainstay.tenancy.expected_rows import ANYBODY_MIN
from postgres import database_url, server
from tenants import OTHER_PROJECT, PROJECT, REGION, SLICE, active, fail_release, node, prove

__all__ = ["database_url", "server"]

ASKED: Final = {"sku": SLICE, "gpus": 1, "region": REGION}
BRIDGED: Final = (
    f"""insert into node_kinds (kind, region, instance_types, sold_as, slots, gpus_total)
        values ('eight', '{REGION}', '{{big}}', '{{{SLICE}}}', '[]', 8)""",
    "insert into bridges (cluster) values ('tenants')",
    """insert into bridge_nodes (cluster, machine, incarnation, node_id, kind, state, asked_at,
                                 opened_at)
       select 'tenants', id, 1, id, 'eight', 'open', clock_timestamp(),
              clock_timestamp() + interval '30 s' from nodes""",
)
"""A bridge that has brought every node there is, each in half a minute."""

JOINS: Final = """
    insert into bridge_nodes (cluster, machine, incarnation, node_id, kind, state, asked_at,
                              closed_at, retired_at, reason)
    select 'tenants', '{name}', 1, '{name}', 'eight', '{state}',
           clock_timestamp() - interval '{age_s} s', over, over, 'over'
    from (select case when '{state}' = 'retired' then clock_timestamp() end as over) life
"""
TOOK_AN_HOUR: Final = (
    "update allocations set active_at = created_at + interval '1 h' where active_at is not null"
)


async def done(stage: Stage, *statements: str) -> None:
    async with transaction(stage.pool) as tx:
        for statement in statements:
            await tx.execute(statement)


async def expected(stage: Stage, what: str) -> dict[str, Any]:
    answer = await stage.tenant.get(f"/{what}/expected")
    assert answer.status_code == 200
    return dict(answer.json())


def test_an_allocation_on_its_way_takes_as_long_as_the_last_of_its_kind(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        first = (await stage.tenant.post("/allocations", ASKED)).json()["allocation_id"]
        unknown = await expected(stage, f"allocations/{first}")
        held = await active(stage.pool)
        await done(
            stage,
            "alter table allocations disable trigger user",
            TOOK_AN_HOUR,
        )

        known = await expected(stage, f"allocations/{first}")

        assert (unknown["when"], known["when"]) == ("unknown", "about")
        assert 3_500 < known["seconds"] <= 3_600
        (why,) = known["because"]
        assert why.endswith("s already, and 1 of the last 1 took longer: 3,600 s to be active")
        assert (await expected(stage, f"allocations/{held['id']}"))["when"] == "unspecified"
        await stage.tenant.post(f"/allocations/{first}/release")
        assert (await expected(stage, f"allocations/{first}"))["when"] == "unspecified"

    on_stage(database_url, scenario)


def test_a_clean_up_that_failed_is_never_over_by_itself(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        held = (await active(stage.pool))["id"]
        await stage.tenant.post(f"/allocations/{held}/release")
        releasing = await expected(stage, f"allocations/{held}")
        await fail_release(stage.pool, held)

        failed = await expected(stage, f"allocations/{held}")

        assert (releasing["when"], failed["when"]) == ("unknown", "never")

    on_stage(database_url, scenario)


def test_a_clean_up_that_was_begun_again_is_told_from_then_on(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        before, held = (await active(stage.pool))["id"], (await active(stage.pool))["id"]
        for each in (before, held):
            await stage.tenant.post(f"/allocations/{each}/release")
            await fail_release(stage.pool, each)
            await stage.tenant.post(f"/allocations/{each}/release")
        await prove(stage.pool, before)
        await done(
            stage,
            "alter table allocations disable trigger user",
            "update allocations set created_at = created_at - interval '4 h',"
            " active_at = active_at - interval '4 h', releasing_at = releasing_at"
            " - case when released_at is null then interval '1 h' else interval '3 h' end",
            "update allocations set released_at = release_retried_at + interval '5 min'"
            " where released_at is not null",
        )

        told = await expected(stage, f"allocations/{held}")

        assert told["when"] == "about"
        assert 240 < told["seconds"] <= 300

    on_stage(database_url, scenario)


def test_others_are_told_of_only_where_they_are_enough_to_hide_one(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        for _ in range(ANYBODY_MIN - 1):
            await active(stage.pool, project=OTHER_PROJECT)
        mine = (await stage.tenant.post("/allocations", ASKED)).json()["allocation_id"]
        await done(stage, "alter table allocations disable trigger user", TOOK_AN_HOUR)
        few = await expected(stage, f"allocations/{mine}")
        await active(stage.pool, project=OTHER_PROJECT)
        await done(stage, TOOK_AN_HOUR)

        enough = await expected(stage, f"allocations/{mine}")

        assert (few["when"], enough["when"]) == ("unknown", "about")
        assert 3_500 < enough["seconds"] <= 3_600

    on_stage(database_url, scenario)


@pytest.mark.parametrize(("age_s", "left"), [(10, True), (60, False)])
def test_of_a_node_that_joins_now_it_is_told_for_how_long_and_what_is_left(
    database_url: str, age_s: int, left: bool
) -> None:
    """Beside the others: what they took stays as it is. One whose life is over counts no more."""

    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        await done(stage, *BRIDGED)
        await active(stage.pool, 8)
        made = (await stage.tenant.post("/capacity-requests", ASKED)).json()["request_id"]
        for name, state in (("node-b", "joining"), ("node-c", "joining"), ("node-d", "retired")):
            await node(stage.pool, name, free=())
            younger_s = {"node-b": 100, "node-c": 0, "node-d": -5}[name]
            await done(stage, JOINS.format(name=name, state=state, age_s=age_s + younger_s))

        after = (await expected(stage, f"capacity-requests/{made}"))["after"]

        assert 29 < after["joining_s"] < 31
        assert age_s <= after["age_s"] < age_s + 5
        if left:
            assert abs(after["joining_s"] - after["age_s"] - after["left_s"]) < 0.01
        else:
            assert after["left_s"] is None

    on_stage(database_url, scenario)


def test_a_request_names_the_need_that_the_bridge_asks_for(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        await node(stage.pool)
        await done(stage, *BRIDGED)
        await active(stage.pool, 8)
        made = (await stage.tenant.post("/capacity-requests", ASKED)).json()["request_id"]
        async with transaction(stage.pool) as tx:
            kinds = [wanted_rows.kind_of(row) for row in await wanted_rows.kinds(tx)]
            waiting = await wanted_rows.waiting(tx)
        (need,) = needs(ClusterId("tenants"), kinds, [], waiting)

        told = await expected(stage, f"capacity-requests/{made}")

        after = told["after"]
        assert (after["cluster"], after["need"]) == ("tenants", need.profile.fingerprint)
        assert 29 < after["joining_s"] < 31
        assert (after["age_s"], after["left_s"]) == (0.0, after["joining_s"])
        for project, found in ((PROJECT, [made]), (OTHER_PROJECT, []), (None, [made])):
            named = {} if project is None else {"project_id": project}
            listed = await stage.readonly.get("/admin/capacity-requests", state="waiting", **named)
            assert [row["request_id"] for row in listed.json()["items"]] == found
            assert listed.json()["waiting"] == len(found)
        shown = await stage.readonly.get(f"/admin/capacity-requests/{made}")
        assert shown.json()["project_id"] == PROJECT
        await done(stage, "update bridges set seen_at = '2020-01-01'")
        silent = await expected(stage, f"capacity-requests/{made}")
        assert (silent["when"], silent["after"]) == ("never", None)
        await stage.tenant.post(f"/capacity-requests/{made}/cancel")
        ended = await expected(stage, f"capacity-requests/{made}")
        assert (ended["when"], ended["after"]) == ("unspecified", None)
        hidden = await stage.readonly.get(
            f"/capacity-requests/{made}/expected", project_id=OTHER_PROJECT
        )
        assert hidden.status_code == 404

    on_stage(database_url, scenario)
