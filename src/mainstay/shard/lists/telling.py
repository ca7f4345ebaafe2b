"""What follows from a report for everybody else: clusters, the circuit breaker, the journal."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.runtime.clock import Clock
from mainstay.shard.events import Event
from mainstay.shard.ledger import Ledger
from mainstay.shard.moves import Moves
from mainstay.shard.ports import Failures, Journal

GONE: Final = "gone"
"""The last word to a cluster about a machine that its provider no longer has, or not for it."""

REPORTED: Final = "reported"
"""The reason of a failure that we learnt of by a report."""

ENDS: Final = frozenset({
    (State.CREATING, State.IDLE), (State.CONFIGURING, State.CONFIGURED),
    (State.DRAINING, State.IDLE), (State.DELETING, State.SPECULATIVE),
})  # fmt: skip
"""Steps that ended as they should."""


def _nobody(_: Machine | ClusterId) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What a reconciler writes into, and whom it tells."""

    inventory: Inventory
    ledger: Ledger
    moves: Moves
    journal: Journal
    failures: Failures
    clock: Clock
    configured: Callable[[Machine], None] = _nobody
    """Told of every machine that we see reach Configured."""

    tell_all: Callable[[ClusterId], None] = _nobody
    """Has a cluster told again how all its machines stand."""

    listed: Callable[[str], None] = lambda _: None
    """Told of every provider whose list was taken in."""


@dataclass(frozen=True, slots=True)
class Moved:
    """How a machine stood before a report moved it."""

    state: State
    cluster: ClusterId | None


class Telling:
    """Tells. Nothing here waits or writes to the inventory."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def moved(self, before: Moved, record: Machine, source: str) -> None:
        """A report took a machine along an edge, or to another cluster."""
        self._to_clusters(before.cluster, record)
        if record.state is before.state:
            return
        if record.state is State.FAILED:
            self._tell_failed(record, source)
            self._books.failures.failed(record, source)
        elif (before.state, record.state) in ENDS:
            self._books.failures.succeeded(record, source)
            if record.state is State.CONFIGURED:
                self._books.configured(record)

    def admitted_again(self, before: Machine, record: Machine, source: str) -> None:
        """A machine stands where no edge leads: its record was retired, this is the new one."""
        self._retired(before, source, to=str(record.state))
        self._books.journal.noticed(
            Event.MACHINE_ADMITTED_AGAIN,
            machine=record.id,
            provider=source,
            state=str(record.state),
            cluster=record.cluster or "",
        )
        has_left = before.cluster and not record.cluster and record.state is not State.FAILED
        self._to_clusters(before.cluster, _gone(before) if has_left else record)
        if record.state is State.FAILED:
            self._tell_failed(record, source)
            self._books.failures.lost(record, source)
        elif _has_left(before, record):
            self._books.failures.lost(before, source)

    def not_admitted_again(self, before: Machine, source: str, why: str) -> None:
        """The same, but what was reported cannot be taken in."""
        self._retired(before, source, to="nothing")
        self.lost(before, source, why)

    def lost(self, before: Machine, source: str, why: str) -> None:
        """A machine is gone from the inventory."""
        self._books.journal.noticed(
            Event.MACHINE_REMOVED,
            reason=why,
            machine=before.id,
            provider=source,
            state=str(before.state),
            cluster=before.cluster or "",
        )
        self._to_clusters(before.cluster, _gone(before))
        if before.state is State.CONFIGURED:
            self._books.failures.lost(before, source)

    def arrived(self, record: Machine) -> None:
        """A machine is new to us: its cluster may be connected already."""
        self._to_clusters(None, record)

    def _retired(self, before: Machine, source: str, *, to: str) -> None:
        self._books.journal.noticed(
            Event.MACHINE_RETIRED,
            reason="illegal_edge",
            machine=before.id,
            provider=source,
            edge=f"{before.state} -> {to}",
            cluster=before.cluster or "",
            last_error=before.last_error,
        )

    def _tell_failed(self, record: Machine, source: str) -> None:
        self._books.journal.noticed(
            Event.MACHINE_FAILED,
            reason=REPORTED,
            machine=record.id,
            provider=source,
            why=record.last_error,
        )

    def _to_clusters(self, before: ClusterId | None, record: Machine) -> None:
        """Whoever had it, and whoever has it. That it serves is told only to whom it serves."""
        tell = self._books.moves.tell
        if before and record.cluster and record.cluster != before:
            tell(before, _gone(record))
            tell(record.cluster, record)
        else:
            tell(before, record)


def _gone(record: Machine) -> Machine:
    """As the cluster that it left is told: any other state would promise it a machine."""
    return dataclasses.replace(record, state=State.FAILED, last_error=GONE)


def _has_left(before: Machine, record: Machine) -> bool:
    """Whether a machine that served a cluster no longer does, without having been drained."""
    serving = before.state is State.CONFIGURED
    return serving and (record.state, record.cluster) != (before.state, before.cluster)
