"""What a cluster does when its shard speaks: what the user of this library writes."""

from typing import Protocol

from mainstay.model.frames import BootstrapAsked, CapacityHint, NodeState, ReclaimTold


class Handlers(Protocol):
    """Called from the event loop, many at a time. A call may take long: no other waits for it."""

    async def bootstrap(self, asked: BootstrapAsked) -> bytes:
        """What makes a machine join. Rejected: it cannot be had, with the reason.

        The same request may come again after a reconnect.
        """

    async def reclaim(self, told: ReclaimTold) -> int:
        """Begin to empty these nodes; how many were begun."""

    async def node_state(self, state: NodeState) -> None:
        """A machine stands so. Of each machine one call at a time, and always the newest."""

    async def hint(self, hint: CapacityHint) -> None:
        """So much more could be had for a kind of need. One call at a time for each."""
