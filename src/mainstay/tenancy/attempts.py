"""A privileged change and its row of the audit are one transaction; a refusal gets a row, too."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from mainstay.model.errors import MainstayError
from mainstay.tenancy import audit
from mainstay.tenancy.audit import Attempt
from mainstay.tenancy.database.connect import Connection, Pool, transaction

NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Who asks, for the audit."""

    name: str
    role: str
    correlation_id: str

    def tries(
        self, action: str, target_type: str, target: str, metadata: Mapping[str, Any] = NOTHING
    ) -> Attempt:
        """To do this to that; never a secret in the metadata."""
        return Attempt(
            by=self.name,
            role=self.role,
            action=action,
            target=target,
            target_type=target_type,
            correlation_id=self.correlation_id,
            metadata=metadata,
        )


@asynccontextmanager
async def attempted(pool: Pool, attempt: Attempt) -> AsyncIterator[Connection]:
    """The transaction of a change, with its row of the audit."""
    try:
        async with transaction(pool) as tx:
            yield tx
            await audit.record(tx, attempt, done=True)
    except MainstayError as error:
        await audit.refused(pool, attempt, error)
        raise
