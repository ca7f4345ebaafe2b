"""What billing does about events: look now instead of at the next pass.

An event says only which allocation or account to look at. What is charged follows from the rows, so
events that come late, twice or in another order lead to the same bill, and so does no event at all.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mainstay.tenancy.billing import episodes, tick
from mainstay.tenancy.billing.options import DEFAULT, BillingOptions
from mainstay.tenancy.bus import Envelope
from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.states import EventType
from mainstay.tenancy.subscribers import BILLING, subjects_of


def _nobody() -> None:
    """There is no biller in this process."""


@dataclass(frozen=True, slots=True)
class Billing:
    """Closes the account of what has ended, and looks at who pays for what has begun."""

    ids: Ids
    options: BillingOptions = DEFAULT
    wake: Callable[[], None] = _nobody
    """Called for every event: a biller in the same process need not wait for its next pass."""

    @property
    def name(self) -> str:
        """In the table of subscribers."""
        return BILLING

    @property
    def subjects(self) -> frozenset[EventType]:
        """By the table."""
        return subjects_of(BILLING)

    async def handle(self, tx: Connection, event: Envelope) -> None:
        """Charge the allocation as far as its row says; tell its payer what is to be told."""
        allocation = event.payload.get("allocation_id")
        if allocation is None:
            await episodes.look(tx, self.ids, event.payload["account_id"], self.options)
        else:
            row = await _locked(tx, allocation)
            await tick.charge(tx, self.ids, row, self.options)
            await episodes.look(tx, self.ids, row["account_id"], self.options)
        self.wake()


async def _locked(tx: Connection, allocation: str) -> Row:
    found = await tx.execute(
        "select * from allocations where id = %s for no key update", [allocation]
    )
    row = await found.fetchone()
    assert row is not None, f"the outbox tells of allocation {allocation}, which is not there"
    return row
