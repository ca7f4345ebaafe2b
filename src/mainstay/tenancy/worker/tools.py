"""What every step is given, and how patient it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import psycopg

from mainstay.model.errors import Rejected, Unavailable
from mainstay.runtime.clock import Clock
from mainstay.tenancy.backoff import Backoff
from mainstay.tenancy.bell import Bell
from mainstay.tenancy.database.connect import Connection, Pool, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.signing import Signer
from mainstay.tenancy.worker.metrics import WorkerMetrics

STALL_S: Final = 5.0
"""No step leaves its transaction alone for so long."""

UNDONE_ATTEMPTS_MAX: Final = 9
RELEASE_ATTEMPTS_MAX: Final = 99
"""Numbers of tasks have so much room: see `steps`."""


async def end_if_we_stall(tx: Connection) -> None:
    """Let the server end this transaction if its process stands still: its locks hold up others.

    A process that is stopped, or a machine that is cut off, looks dead and is not; whoever takes
    over needs what it has locked.
    """
    await tx.execute(
        "select set_config('idle_in_transaction_session_timeout', %s, true)",
        [f"{STALL_S * 1000:.0f}"],
    )


@asynccontextmanager
async def short_transaction(pool: Pool) -> AsyncIterator[Connection]:
    """One transaction that no stalled process can keep open; Unavailable if this one did."""
    try:
        async with transaction(pool) as tx:
            await end_if_we_stall(tx)
            yield tx
    except psycopg.errors.IdleInTransactionSessionTimeout as error:
        raise Unavailable("this process stood still, and its transaction was ended") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often and how long something is tried."""

    task_s: float = 600.0
    """Before a task that has not ended is given up."""

    provision_attempts: int = 3
    provision_pauses_s: tuple[float, ...] = (5.0, 15.0)
    """After the first attempt, the second and so on; the last one stands for all that follow."""

    provision_s: float = 1200.0
    """From the beginning of the work; after it nothing new is tried."""

    release_attempts: int = 5
    release_pauses: Backoff = field(default_factory=lambda: Backoff(first_s=10.0, most_s=300.0))
    remains_attempts: int = 5

    def __post_init__(self) -> None:
        if not self.provision_pauses_s:
            raise Rejected("no pause after an attempt to provision: name at least one")
        if not 1 <= self.release_attempts <= RELEASE_ATTEMPTS_MAX:
            raise Rejected(f"release attempts: {self.release_attempts}, not 1 to 99")
        if not 1 <= self.remains_attempts <= UNDONE_ATTEMPTS_MAX:
            raise Rejected(f"attempts to clear remains: {self.remains_attempts}, not 1 to 9")
        if not 1 <= self.provision_attempts <= UNDONE_ATTEMPTS_MAX:
            raise Rejected(f"attempts to provision: {self.provision_attempts}, not 1 to 9")

    def provision_pause_s(self, attempt: int) -> float:
        """After so many attempts, from 1."""
        return self.provision_pauses_s[min(attempt, len(self.provision_pauses_s)) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Of one worker process."""

    pool: Pool
    ids: Ids
    signer: Signer
    clock: Clock
    bell: Bell = field(default_factory=Bell)
    patience: Patience = field(default_factory=Patience)
    metrics: WorkerMetrics = field(default_factory=WorkerMetrics)
