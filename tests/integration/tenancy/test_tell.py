"""What a transaction has to tell is told when it is committed, once, and never if it is not."""

import pytest
from psycopg.errors import CheckViolation

from mainstay.tenancy.database.connect import Pool, tell, transaction
from mainstay.tenancy.listen import Listener
from postgres import database_url, server  # noqa: F401 - fixtures
from tenants import run

CHANNEL = "mainstay_test"


async def said(listener: Listener) -> list[str]:
    """Everything that arrives until it is quiet."""
    heard: list[str] = []
    while more := await listener.heard(0.3):
        heard += more
    return heard


def test_each_thing_is_told_once_and_after_the_commit(database_url: str) -> None:  # noqa: F811
    async def scenario(pool: Pool) -> None:
        async with Listener(pool, CHANNEL) as listener:
            await listener.heard(0.0)
            async with transaction(pool) as tx:
                tell(tx, CHANNEL, "one")
                tell(tx, CHANNEL, "two")
                tell(tx, CHANNEL, "one")
                assert await said(listener) == []

            assert sorted(await said(listener)) == ["one", "two"]

    run(database_url, scenario)


@pytest.mark.parametrize("pipelined", [False, True])
def test_what_is_undone_is_not_told_nor_by_who_comes_next(
    database_url: str,  # noqa: F811
    pipelined: bool,
) -> None:
    async def undone(pool: Pool) -> None:
        async with transaction(pool, pipelined=pipelined) as tx:
            tell(tx, CHANNEL, "undone")
            raise ZeroDivisionError

    async def scenario(pool: Pool) -> None:
        async with Listener(pool, CHANNEL) as listener:
            await listener.heard(0.0)
            with pytest.raises(ZeroDivisionError):
                await undone(pool)
            async with transaction(pool, pipelined=pipelined) as tx:
                tell(tx, CHANNEL, "done")

            assert await said(listener) == ["done"]

    run(database_url, scenario, connections=1)


def test_a_pipelined_transaction_is_all_or_nothing(database_url: str) -> None:  # noqa: F811
    """Also when what fails is only noticed at the end, because nobody asked for its result."""

    async def wrong(pool: Pool) -> None:
        async with transaction(pool, pipelined=True) as tx:
            await tx.execute("insert into regions values ('region-2', '')")
            await tx.execute("insert into regions values ('NOT A CODE', '')")

    async def scenario(pool: Pool) -> None:
        with pytest.raises(CheckViolation, match="regions_code_check"):
            await wrong(pool)
        async with transaction(pool) as tx:
            found = await tx.execute("select code from regions")
            assert [row["code"] for row in await found.fetchall()] == ["region-1"]

    run(database_url, scenario, connections=1)
