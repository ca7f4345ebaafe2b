"""What carrying out an action takes: handed to every flow as one value."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.runtime.clock import Clock
from mainstay.shard.hands.acting import Acting
from mainstay.shard.hands.backoff import BackOff
from mainstay.shard.hands.calling import Caller
from mainstay.shard.hands.unanswered import Unanswered
from mainstay.shard.ledger import Ledger
from mainstay.shard.moves import Moves
from mainstay.shard.orders import Order
from mainstay.shard.ports import Clusters, Failures, Journal
from mainstay.shard.restrictions import Stance

DEFAULT_GRACE_S = 30
"""As Kubernetes grants a workload when nobody says otherwise."""


async def _at_once(_: float) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Everything a flow touches."""

    inventory: Inventory
    ledger: Ledger
    moves: Moves
    clusters: Clusters
    callers: Mapping[str, Caller]
    """By the name of the provider."""

    journal: Journal
    failures: Failures
    clock: Clock
    backoff: BackOff
    acting: Acting
    unanswered: Unanswered
    configured: Callable[[Machine], None]
    """Told of every machine that we see reach Configured."""

    sold_out: Callable[[Machine, str], None] = lambda _, __: None
    """Told of every machine that its provider, named by source, has no capacity for."""

    stance: Callable[[Order], Stance] = lambda _: Stance.ACT
    """How far an order may go now: a pause that comes after the plan holds it back all the same."""

    is_kept: Callable[[str], bool] = lambda _: True
    """Whether it is on disk that this provider was listed, so that a later life waits for it."""

    owe: Callable[[MachineId, str], None] = lambda _, __: None
    """Has a machine asked for by itself, of its provider, as soon as it is out of our hands."""

    off_work: Callable[[str], AbstractContextManager[Callable[[float], Awaitable[None]]]] = (
        lambda _: nullcontext(_at_once)
    )
    """Inside its block an order through this provider waits for others and needs no worker; what it
    gives waits for one again, so many seconds at most.
    """

    default_grace_s: int = DEFAULT_GRACE_S
    """For workloads whose cluster could not be told."""

    def caller(self, order: Order) -> Caller:
        """The provider of an order, called for it: a control counts before each attempt."""
        caller = self.callers[order.source]
        return dataclasses.replace(caller, may=lambda: self.stance(order) is Stance.ACT)
