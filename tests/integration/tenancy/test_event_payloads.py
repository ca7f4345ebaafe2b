"""What is really written to the outbox is what the public document says."""

from event_stage import run
from mainstay.tenancy import events_doc
from mainstay.tenancy.bus import envelope_of
from mainstay.tenancy.database.connect import Pool
from mainstay.tenancy.release import force_release
from mainstay.tenancy.request import request
from mainstay.tenancy.states import EventType
from postgres import database_url, server
from tenants import (
    NEW,
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
        await force_release(pool, NEW, proved, by="usr_root")
        await prove(pool, proved)
        unproved = (await request(pool, NEW, order()))["id"]
        await begin(pool, unproved)
        await activate(pool, unproved)
        await force_release(pool, NEW, unproved, by="usr_root")
        await fail_release(pool, unproved)

        written = [envelope_of(row) for row in await rows(pool, "select * from outbox")]

        assert {event.event_type for event in written} == OF_ALLOCATIONS
        for event in written:
            events_doc.payload_type(event.event_type).validate_python(event.payload)

    run(database_url, test)
