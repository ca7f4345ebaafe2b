"""The schema is brought up by several at once, and a database that is gone is said in one line."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import nullcontext

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.tenancy.database.connect import Pool, check_version, pool_at, transaction
from mainstay.tenancy.database.embedded import Server
from mainstay.tenancy.database.migrate import migrate
from postgres import database_url, named, pool_of, server

__all__ = ["database_url", "server"]


@pytest.fixture
def empty_url(server: Server) -> Iterator[str]:
    """A database without the schema."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("create database bare")
        yield named(server.url, "bare")
        connection.execute("drop database bare with (force)")


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("select tablename from pg_tables where schemaname = 'public'")
        return {name for (name,) in found}


class TestMigrate:
    def test_a_new_database_has_the_whole_schema(self, empty_url: str, database_url: str) -> None:
        migrate(empty_url)

        assert tables(empty_url) == tables(database_url)
        assert len(tables(empty_url)) > 20

    def test_doing_it_twice_is_doing_it_once(self, database_url: str) -> None:
        with psycopg.connect(database_url) as connection:
            connection.execute("insert into regions values ('r', 'kept')")

        migrate(database_url)

        with psycopg.connect(database_url) as connection:
            assert connection.execute("select name from regions").fetchone() == ("kept",)

    def test_several_at_once_make_one_schema(self, empty_url: str, database_url: str) -> None:
        faults: list[BaseException] = []

        def bring_up() -> None:
            try:
                migrate(empty_url)
            except Exception as error:  # noqa: BLE001 - told by the test's own thread
                faults.append(error)

        threads = [threading.Thread(target=bring_up, daemon=True) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)

        assert not any(thread.is_alive() for thread in threads)
        assert faults == []
        assert tables(empty_url) == tables(database_url)

    def test_a_schema_that_cannot_be_made_leaves_nothing(self, empty_url: str) -> None:
        with psycopg.connect(empty_url) as connection:
            connection.execute("create table ledger (mine int)")

        with pytest.raises(Rejected, match='"ledger" already exists') as refused:
            migrate(empty_url)

        assert "\n" not in str(refused.value)
        assert tables(empty_url) <= {"ledger", "alembic_version"}

    def test_a_schema_newer_than_this_program_is_refused(self, database_url: str) -> None:
        with psycopg.connect(database_url) as connection:
            connection.execute("update alembic_version set version_num = '9999'")

        with pytest.raises(Rejected, match="9999") as refused:
            migrate(database_url)

        assert "\n" not in str(refused.value)

    def test_nobody_is_held_up_after_it(self, database_url: str) -> None:
        migrate(database_url)

        with psycopg.connect(database_url) as connection:
            held = connection.execute("select from pg_locks where locktype = 'advisory'")
            assert held.rowcount == 0

    def test_a_database_that_is_not_there_is_said_in_one_line(self, server: Server) -> None:
        with pytest.raises(Unavailable) as refused:
            migrate(named(server.url, "nowhere"))

        assert_one_line_without_secrets(refused.value, server.url)


def assert_one_line_without_secrets(error: MainstayError, url: str) -> None:
    password = url.partition("://")[2].partition(":")[2].partition("@")[0]
    assert "\n" not in str(error)
    assert len(password) > 20
    assert password not in str(error)


class TestConnect:
    def test_nobody_there_is_unavailable_in_one_line(self, server: Server) -> None:
        gone = f"postgresql://mainstay:{'x' * 32}@127.0.0.1:1/mainstay"

        async def inside() -> None:
            async with pool_at(gone, patience_s=0.5):
                pytest.fail("somebody answered")

        with pytest.raises(Unavailable, match="does not answer") as refused:
            asyncio.run(inside())
        assert_one_line_without_secrets(refused.value, gone)

    def test_a_server_that_goes_is_unavailable_and_one_that_comes_back_is_used_again(
        self, server: Server
    ) -> None:
        async def inside() -> None:
            async with pool_of(server.url, size_max=1) as pool:
                async with transaction(pool) as tx:
                    found = await (await tx.execute("select pg_backend_pid() as pid")).fetchone()
                assert found is not None
                with psycopg.connect(server.url, autocommit=True) as other:
                    other.execute("select pg_terminate_backend(%s, 5000)", [found["pid"]])
                with pytest.raises(Unavailable) as refused:
                    async with transaction(pool) as tx:
                        await tx.execute("select 1")
                assert_one_line_without_secrets(refused.value, server.url)
                async with transaction(pool) as tx:
                    assert await (await tx.execute("select 1 as one")).fetchone() == {"one": 1}

        asyncio.run(inside())

    @pytest.mark.parametrize(("version", "refused"), [(130022, True), (140000, False)])
    def test_a_server_older_than_14_is_refused(self, version: int, refused: bool) -> None:
        with pytest.raises(Rejected, match="14 or newer") if refused else nullcontext():
            check_version(version)

    def test_what_raises_is_undone_and_what_does_not_is_kept(self, database_url: str) -> None:
        async def add(pool: Pool, *codes: str) -> None:
            async with transaction(pool) as tx:
                for code in codes:
                    await tx.execute("insert into regions values (%s, '')", [code])

        async def inside() -> None:
            async with pool_of(database_url) as pool:
                await add(pool, "kept")
                with pytest.raises(psycopg.errors.UniqueViolation):
                    await add(pool, "undone", "kept")
                async with transaction(pool) as tx:
                    found = await (await tx.execute("select code from regions")).fetchall()
                    assert found == [{"code": "kept"}]
                    assert tx.info.transaction_status is TransactionStatus.INTRANS

        asyncio.run(inside())

    def test_a_refusal_of_the_schema_is_no_failure_of_the_server(self, database_url: str) -> None:
        async def inside() -> None:
            async with pool_of(database_url) as pool, transaction(pool) as tx:
                await tx.execute("insert into regions values ('No Such', '')")

        with pytest.raises(psycopg.errors.CheckViolation):
            asyncio.run(inside())
