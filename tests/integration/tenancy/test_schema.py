"""The database refuses wrong states by itself: each of its rules is broken here in plain SQL."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import psycopg
import pytest

from bridge_schema_cases import BRIDGE_CASES, BRIDGE_WORLD
from mainstay.tenancy.database.embedded import Server
from mainstay.tenancy.placement.shape import CapacityShape
from mainstay.tenancy.states import (
    EDGES,
    LIVE_CLAIMS,
    NEXT,
    ClaimStatus,
    NodeStatus,
    OutboxStatus,
    SlotStatus,
    Status,
    TaskStatus,
)
from postgres import database_on, server
from schema_cases import CASES, UNBREAKABLE, WORLD, Case

__all__ = ["server"]

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def furnished(server: Server) -> Iterator[str]:
    with database_on(server) as url:
        with psycopg.connect(url) as connection:
            connection.execute(WORLD + BRIDGE_WORLD)
        yield url


@pytest.fixture
def world(furnished: str) -> Iterator[Connection]:
    """In a transaction that is undone, so that the tests can share a database."""
    with psycopg.connect(furnished) as connection:
        yield connection
        connection.rollback()


@pytest.mark.parametrize("case", [*CASES, *BRIDGE_CASES], ids=lambda case: case.sentence)
def test_the_database_refuses(case: Case, world: Connection) -> None:
    with pytest.raises(psycopg.Error) as refused:
        world.execute(case.sql)

    assert (case.says or f'"{case.rule}"') in str(refused.value)
    assert refused.value.sqlstate is not None
    assert refused.value.sqlstate.startswith("23"), "a refusal, not a slip of the statement"


def test_no_rule_of_the_schema_is_without_a_case(world: Connection) -> None:
    rules = world.execute(
        """select conname from pg_constraint
           where connamespace = 'public'::regnamespace
             and (contype in ('c', 'u') or contype = 'f' and cardinality(conkey) > 1)
           union
           select relname from pg_index join pg_class on pg_class.oid = indexrelid
           where relnamespace = 'public'::regnamespace and indisunique
             and not exists (select from pg_constraint where conindid = indexrelid)
           union
           select tgname from pg_trigger where not tgisinternal"""
    )

    assert {name for (name,) in rules} - UNBREAKABLE == {
        case.rule for case in (*CASES, *BRIDGE_CASES)
    }


def test_the_world_has_a_row_of_everything(world: Connection) -> None:
    tables = world.execute(
        """select relname from pg_class where relnamespace = 'public'::regnamespace
           and relkind = 'r' and relname <> 'alembic_version'"""
    ).fetchall()

    assert [
        name for (name,) in tables
        if world.execute(f"select from {name} limit 1").rowcount == 0
    ] == []  # fmt: skip


MAY_BE_MISSING = {
    "allocations": "active_at billing_closed_at cancel_requested_by failed_at failure_code "
    "failure_phase failure_reason image_slug proof provisioning_started_at release_failed_at "
    "release_initiator release_retried_at released_at releasing_at",
    "api_keys": "expires_at project_id revoked_at",
    "claims": "ended_at live_mode slot_id",
    "consumer_failures": "gave_up_at",
    "idempotency_keys": "response status_code",
    "late_results": "error_code handled_at",
    "ledger": "allocation_id corrects_id",
    "low_balance_episodes": "depleted_at ended_at pending_at warned_at",
    "node_tasks": "allocation_id claimed_by_fingerprint dispatched_at ended_at error_code "
    "error_detail result result_hash",
    "nodes": "cert_fingerprint cert_pending_fingerprint cert_previous_fingerprint "
    "enrol_expires_at enrol_token_hash last_seen_at",
    "node_outages": "ended_at",
    "notices": "allocation_id",
    "bridge_nodes": (
        "closed_at gone_at grace_ends_at opened_at preemptor_priority release_at retired_at"
    ),
    "capacity_requests": "allocation_id ended_at",
    "outbox": "ended_at last_error published_at",
    "skus": "image_slug",
    "usage_records": "ledger_id",
}


def test_nothing_may_be_missing_but_what_is_listed(world: Connection) -> None:
    found = world.execute(
        """select relname, string_agg(attname, ' ' order by attname)
           from pg_attribute join pg_class on attrelid = pg_class.oid
           where relnamespace = 'public'::regnamespace and relkind = 'r' and attnum > 0
             and not attisdropped and not attnotnull group by relname"""
    )

    assert dict(found.fetchall()) == MAY_BE_MISSING


POINTS_AT = {
    "allocation_ssh_keys": "allocation_id>allocations ssh_key_id>ssh_keys",
    "allocations": "account_id>accounts image_slug>os_images node_id>nodes project_id>projects "
    "region>regions sku>skus",
    "api_keys": "project_id>projects",
    "claims": "allocation_id>allocations node_id>nodes",
    "consumed": "event_id>outbox",
    "consumer_failures": "event_id>outbox",
    "late_results": "task_id>node_tasks",
    "ledger": "account_id>accounts allocation_id>allocations corrects_id>ledger",
    "low_balance_episodes": "account_id>accounts",
    "node_offers": "node_id>nodes sku>skus",
    "node_outages": "node_id>nodes",
    "node_tasks": "allocation_id>allocations node_id>nodes",
    "nodes": "region>regions sku>skus",
    "notices": "allocation_id>allocations event_id>outbox project_id>projects",
    "node_kinds": "region>regions",
    "bridge_nodes": "kind>node_kinds node_id>nodes",
    "bridge_warnings": "allocation_id>allocations node_id>nodes",
    "capacity_requests": "allocation_id>allocations project_id>projects region>regions sku>skus",
    "projects": "account_id>accounts",
    "skus": "image_slug>os_images",
    "slots": "node_id>nodes",
    "ssh_keys": "project_id>projects",
    "usage_records": "account_id>accounts allocation_id>allocations ledger_id>ledger",
}
"""Keys of one column; those of several have a case each."""


def test_every_row_stands_on_rows_that_are_there(world: Connection) -> None:
    found = world.execute(
        """select conrelid::regclass::text, string_agg(
               attname || '>' || confrelid::regclass, ' ' order by attname)
           from pg_constraint join pg_attribute on attrelid = conrelid and attnum = conkey[1]
           where contype = 'f' and cardinality(conkey) = 1
             and connamespace = 'public'::regnamespace group by 1"""
    )

    assert dict(found.fetchall()) == POINTS_AT


@pytest.mark.parametrize(
    ("table", "column"),
    [(t, pair.partition(">")[0]) for t, pairs in POINTS_AT.items() for pair in pairs.split()],
)
def test_a_row_that_stands_on_nothing_is_refused(
    table: str, column: str, world: Connection
) -> None:
    nobody = -1 if column in {"corrects_id", "ledger_id"} else "nobody"
    statement = f"""update {table} set {column} = %s
                    where ctid = (select max(ctid) from {table} where {column} is not null)"""
    world.execute(f"alter table {table} disable trigger user")

    with pytest.raises(psycopg.errors.ForeignKeyViolation) as refused:
        world.execute(statement, [nobody])

    assert str(refused.value.diag.constraint_name).startswith(f"{table}_")


@pytest.mark.parametrize("old", Status)
@pytest.mark.parametrize("new", Status)
def test_the_database_knows_the_edges_of_the_table_and_no_others(
    old: Status, new: Status, world: Connection
) -> None:
    found = world.execute("select id from allocations where status = %s", [old]).fetchone()
    assert found is not None
    step = f"update allocations set {STEPS[new]}, version = version + 1 where id = %s"

    if new in NEXT[old] or new is old:
        world.execute(step, found)
    else:
        with pytest.raises(psycopg.errors.CheckViolation, match=f"from {old} to {new}"):
            world.execute(step, found)


STEPS = {
    Status.REQUESTED: "status = 'requested'",
    Status.PROVISIONING: "status = 'provisioning'",
    Status.ACTIVE: "status = 'active', active_at = '2100-01-01'",
    Status.RELEASING: "status = 'releasing', releasing_at = '2100-01-02'",
    Status.RELEASED: "status = 'released', released_at = '2100-01-03', "
    """proof = '{"released": true, "wiped": true, "leases_released": true}'""",
    Status.FAILED: "status = 'failed', failed_at = '2100-01-03', failure_code = 'x'",
    Status.RELEASE_FAILED: "status = 'release_failed', release_failed_at = '2100-01-03'",
}


def test_both_tables_of_edges_say_the_same(world: Connection) -> None:
    found = world.execute("select old, new from allocation_edges").fetchall()

    assert set(found) == {(edge.old, edge.new) for edge in EDGES if edge.old is not None}


def test_each_edge_stamps_a_column_that_there_is(world: Connection) -> None:
    found = world.execute(
        """select column_name from information_schema.columns
           where table_name = 'allocations' and data_type = 'timestamp with time zone'"""
    ).fetchall()

    assert {edge.stamps for edge in EDGES} == {name for (name,) in found} - {"billing_closed_at"}


@pytest.mark.parametrize(
    ("table", "column", "statuses"),
    [
        ("allocations", "status", Status),
        ("slots", "status", SlotStatus),
        ("nodes", "status", NodeStatus),
        ("claims", "status", ClaimStatus),
        ("node_tasks", "status", TaskStatus),
        ("outbox", "status", OutboxStatus),
        ("skus", "capacity_shape", CapacityShape),
    ],
)
def test_code_and_schema_know_the_same_words(
    table: str, column: str, statuses: type[StrEnum], world: Connection
) -> None:
    found = world.execute(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = %s",
        [f"{table}_{column}_check"],
    ).fetchone()
    assert found is not None

    assert set(re.findall(r"'(\w+)'", str(found[0]))) == set(statuses)


def test_the_database_knows_which_claims_are_live(world: Connection) -> None:
    world.execute("alter table claims drop constraint claims_node_id_live_mode_fkey")
    world.execute("drop index claims_one_live_per_slot")
    found = world.execute(
        """insert into claims (allocation_id, kind, node_id, slot_id, status)
           select 'used', 'slot', 'm', 'm/0', unnest(%s::text[]) returning status, live_mode""",
        [list(ClaimStatus)],
    ).fetchall()

    assert {status for status, mode in found if mode == "slot"} == LIVE_CLAIMS
    assert {mode for _, mode in found} == {"slot", None}
