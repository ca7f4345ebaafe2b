"""What is really written to the outbox is what the public document says."""

from typing import get_type_hints

from event_stage import run
from mainstay.bridge import taking
from mainstay.tenancy import events_doc
from mainstay.tenancy.billing.account import Credit, credit
from mainstay.tenancy.billing.episodes import look
from mainstay.tenancy.billing.options import BillingOptions
from mainstay.tenancy.bus import envelope_of
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.event_types import PAYLOADS
from mainstay.tenancy.release import force_release
from mainstay.tenancy.request import request
from mainstay.tenancy.states import EventType
from postgres import database_url, server
from tenants import (
    ACCOUNT,
    NEW,
    REGION,
    SLICE,
    activate,
    active,
    begin,
    fail,
    fail_release,
    furnish,
    node,
    order,
    prove,
    rows,
)

__all__ = ["database_url", "server"]

OF_ALLOCATIONS = {kind for kind in EventType if kind.startswith("provisioning.")} - {
    EventType.FORCE_RELEASE_REQUESTED
}


def test_every_event_of_an_allocation_has_the_payload_of_its_type(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        await furnish(pool)
        await node(pool)
        failing = (await request(pool, NEW, order()))["id"]
        await begin(pool, failing)
        await fail(pool, failing, clean=True)
        proved = (await active(pool))["id"]
        await warned(pool, proved)
        await force_release(pool, NEW, proved, by="usr_root")
        await prove(pool, proved)
        unproved = (await request(pool, NEW, order()))["id"]
        await begin(pool, unproved)
        await activate(pool, unproved)
        await force_release(pool, NEW, unproved, by="usr_root")
        await fail_release(pool, unproved)

        assert await checked(pool) == OF_ALLOCATIONS

    run(database_url, test)


def test_every_event_of_an_account_has_the_payload_of_its_type(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        await furnish(pool)
        await node(pool)
        holder = (await active(pool))["id"]
        money = Credit(account=ACCOUNT, amount_minor=10, key="pay_1", correlation_id="cor_1")
        async with transaction(pool) as tx:
            await credit(tx, NEW, money)
        for left in (10, 0):
            async with transaction(pool) as tx:
                await tx.execute(
                    """insert into ledger (account_id, amount_minor, currency, kind,
                                           allocation_id, dedupe_key)
                       select %(account)s, %(left)s - sum(amount_minor), 'USD', 'charge',
                              %(holder)s, %(left)s::text from ledger""",
                    {"account": ACCOUNT, "left": left, "holder": holder},
                )
                await look(tx, NEW, ACCOUNT, BillingOptions())

        found = await checked(pool)

        assert found - OF_ALLOCATIONS == set(EventType) - OF_ALLOCATIONS

    run(database_url, test)


async def warned(pool: Pool, allocation: str) -> None:
    """Its machine is taken, and its tenant is told."""
    async with transaction(pool) as tx:
        await tx.execute(
            """insert into node_kinds (kind, region, instance_types, sold_as, slots, gpus_total)
               values ('k', %s, '{big}', '{}' || array[%s], '[]', 8)""",
            [REGION, SLICE],
        )
        made = await tx.execute(
            """insert into bridge_nodes (cluster, machine, incarnation, node_id, kind, state,
                                         closed_at, reason)
               values ('t', 'm', 1, 'node-a', 'k', 'draining', clock_timestamp(), 'taken')
               returning *"""
        )
        life = await made.fetchone()
    assert life is not None
    assert await taking.warn(pool, NEW, life, allocation)
    assert not await taking.warn(pool, NEW, life, allocation), "once"


async def checked(pool: Pool) -> set[EventType]:
    """The types that were written, each with all its facts and no other."""
    written = [envelope_of(row) for row in await rows(pool, "select * from outbox")]
    for event in written:
        events_doc.payload_type(event.event_type).validate_python(event.payload)
        described = get_type_hints(PAYLOADS[event.event_type])
        assert event.payload.keys() == described.keys(), event.event_type
    return {event.event_type for event in written}
