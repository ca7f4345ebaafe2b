"""Asking for capacity, as often as one likes: the same id is the same allocation."""

import psycopg

from mainstay.tenancy import request
from mainstay.tenancy.database.connect import Pool, Row, at_once
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.request import Order


async def requested(pool: Pool, ids: Ids, order: Order, *, is_first: bool = False) -> Row:
    """The allocation, made now, or by an earlier try that did not live to say so.

    `ids` gives the same id for the allocation whenever the same request is tried. The first try
    need not look for what others made.
    """
    identity = ids("alc")
    if not is_first and (row := await _made(pool, identity)) is not None:
        return row
    try:
        return await request.request(pool, ids, order)
    except psycopg.errors.UniqueViolation as error:
        if error.diag.constraint_name != "allocations_pkey":
            raise
        row = await _made(pool, identity)
        assert row is not None
        return row


async def _made(pool: Pool, identity: str) -> Row | None:
    found = await at_once(pool, "select * from allocations where id = %s", [identity])
    return found[0] if found else None
