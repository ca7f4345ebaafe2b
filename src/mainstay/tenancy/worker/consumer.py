"""What the worker does about events: it begins the work, under an id made of the event's."""

from dataclasses import dataclass

from mainstay.tenancy.bus import Envelope
from mainstay.tenancy.database.connect import Connection
from mainstay.tenancy.states import EventType
from mainstay.tenancy.subscribers import WORKER, subjects_of
from mainstay.tenancy.worker import plans
from mainstay.tenancy.worker.port import Workflows
from mainstay.tenancy.worker.tools import end_if_we_stall


@dataclass(frozen=True, slots=True)
class WorkConsumer:
    """Starts one workflow per event.

    The engine notes the beginning before the event counts as consumed. A death in between brings
    the event again, and then there is work with its id already.
    """

    workflows: Workflows

    @property
    def name(self) -> str:
        """Of the table of subscribers."""
        return WORKER

    @property
    def subjects(self) -> frozenset[EventType]:
        """What is asked for, and what is given back."""
        return subjects_of(WORKER)

    async def handle(self, tx: Connection, event: Envelope) -> None:
        """Begin, and wait for nothing."""
        await end_if_we_stall(tx)
        allocation = str(event.payload["allocation_id"])
        workflow_id = f"provisioning-{event.event_id}"
        if event.event_type is EventType.REQUESTED:
            await self.workflows.start(workflow_id, plans.PROVISION, {"allocation": allocation})
        else:
            argument = {"allocation": allocation, "round": int(event.payload["attempt"])}
            await self.workflows.start(workflow_id, plans.RELEASE, argument)
