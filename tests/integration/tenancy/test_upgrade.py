"""A database of an older revision, with rows in it, is brought up to date."""

from collections.abc import Iterator
from importlib import resources
from typing import Any

import psycopg
import pytest

from mainstay.tenancy.database.embedded import Server
from mainstay.tenancy.database.migrate import PACKAGE, migrate
from postgres import database_on, server

__all__ = ["server"]

BEFORE = ("0001_ground.sql", "0002_bridge.sql")


@pytest.fixture
def upgraded(server: Server) -> Iterator[psycopg.Connection[Any]]:
    """Slots that share an address, and a release that was told, from before."""
    with database_on(server) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema public cascade; create schema public")
        for name in BEFORE:
            connection.execute((resources.files(PACKAGE) / "sql" / name).read_bytes())
        connection.execute(WORLD_BEFORE)
        connection.execute("create table alembic_version (version_num varchar(32) primary key)")
        connection.execute("insert into alembic_version values ('0002')")
        migrate(url)
        yield connection


WORLD_BEFORE = """
    insert into regions values ('r', 'R');
    insert into skus (sku, capacity_shape, gpus_total, allowed_gpu_counts, gpu_hourly_price_minor)
        values ('slice', 'gpu_slice', 8, '{1}', 1);
    insert into nodes (id, region, sku, status, gpus_total)
        values ('here', 'r', 'slice', 'active', 8), ('away', 'r', 'slice', 'offline', 8);
    insert into slots (id, node_id, slot_index, status, private_ip)
        values ('a', 'here', 0, 'available', '10.0.0.1'), ('b', 'here', 1, 'available', '10.0.0.1'),
               ('c', 'away', 0, 'available', '10.0.0.1');
    insert into outbox (id, key, event_type, subject, envelope, correlation_id)
        values ('evt_one', 'alc', 'provisioning.releasing.requested', 's', '{}', 'cor'),
               ('evt_two', 'alc', 'provisioning.released', 's', '{}', 'cor');
"""


def test_slots_that_were_there_are_judged(upgraded: psycopg.Connection[Any]) -> None:
    found = upgraded.execute("select id, unready from slots order by id").fetchall()
    shared = "private_ip is not its own"
    assert found == [("a", shared), ("b", shared), ("c", "")]


def test_billing_is_not_told_of_releases_of_before(upgraded: psycopg.Connection[Any]) -> None:
    found = upgraded.execute("select consumer, event_id from consumed").fetchall()
    assert found == [("billing", "evt_one")]


def test_a_node_that_was_offline_is_not_paid_for(upgraded: psycopg.Connection[Any]) -> None:
    assert upgraded.execute("select node_id, ended_at from node_outages").fetchall() == [
        ("away", None)
    ]
