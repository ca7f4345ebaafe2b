"""The schema and the server it runs on."""

import psycopg

from postgres import database_url, server

__all__ = ["database_url", "server"]


def test_a_new_database_has_the_whole_schema(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        found = connection.execute("select count(*) from allocation_edges").fetchone()

    assert found == (7,)
