"""What a cycle passes through, as one value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mainstay.engine.barred import NOTHING_BARRED, Barred
from mainstay.engine.hints import Hint
from mainstay.engine.quota import Quota
from mainstay.inventory.inventory import Inventory
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.shard.admitted import HeldAs
from mainstay.shard.controls import Controls
from mainstay.shard.demand import DemandBook
from mainstay.shard.executor import Executor
from mainstay.shard.hands.acting import Acting
from mainstay.shard.hands.backoff import BackOff
from mainstay.shard.hands.breaker import Breakers
from mainstay.shard.hands.overdue import Overdue
from mainstay.shard.hands.unanswered import Unanswered
from mainstay.shard.lists.awaited import Awaited
from mainstay.shard.ports import Journal
from mainstay.shard.reconcile import Reconciler
from mainstay.shard.steady import SteadyClock


class CycleJournal(Journal, Protocol):
    """Where a cycle tells what became of its plan."""

    def counted(self, counts: Mapping[HeldAs, int], *, cycle: int) -> None:
        """So many more orders were held back than are told one by one; said in every cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a cycle passes through."""

    inventory: Inventory
    reconciler: Reconciler
    awaited: Awaited
    demand: DemandBook
    controls: Controls
    acting: Acting
    backoff: BackOff
    breakers: Breakers
    unanswered: Unanswered
    overdue: Overdue
    executor: Executor
    publish: Callable[[tuple[Hint, ...]], None]
    """Tells clusters what else could be had."""

    quota: Callable[[], Quota]
    """The numbers held now."""

    journal: CycleJournal
    clock: Clock
    steady: SteadyClock
    """By which the inventory notes since when machines idle."""

    aside: Aside
    leaving: Callable[[], Barred] = lambda: NOTHING_BARRED
    """What is about to be another shard's."""
