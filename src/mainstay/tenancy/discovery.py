"""Ask a node's agent what hardware it sees; what it says is advice until a person approves it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from mainstay.model.errors import Rejected, Unavailable
from mainstay.tenancy import nodes, tasks
from mainstay.tenancy.attempts import Who
from mainstay.tenancy.bell import Bell
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.nodes import FoundSlot
from mainstay.tenancy.signing import Signer
from mainstay.tenancy.states import TaskStatus
from mainstay.tenancy.tasks import Task
from mainstay.tenancy.work import TaskType

PATIENCE_S: Final = 20.0
SLOTS_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Discovery:
    """What it takes to ask."""

    pool: Pool
    ids: Ids
    signer: Signer
    bell: Bell

    async def of(self, node: str, who: Who) -> list[Row]:
        """The node's slots with those it has just found; Unavailable when it does not answer."""
        await nodes.show(self.pool, node)
        async with transaction(self.pool) as tx:
            task = await tasks.enqueue(
                tx,
                self.ids,
                self.signer,
                Task(
                    node=node,
                    allocation=None,
                    type=TaskType.TOPOLOGY_DISCOVER,
                    attempt=await _next(tx, node),
                    expires_in_s=PATIENCE_S,
                    correlation_id=who.correlation_id,
                ),
            )
        ended = await tasks.outcome(self.pool, task, wait_s=PATIENCE_S, bell=self.bell)
        if ended is None or ended["status"] != TaskStatus.COMPLETED:
            raise Unavailable(f"node {node} did not look at its hardware: is its agent running?")
        return await nodes.take_in(self.pool, node, found_slots(ended["result"]), who)


async def _next(tx: Any, node: str) -> int:
    found = await tx.execute(
        """select coalesce(max(attempt), 0) + 1 as attempt from node_tasks
           where node_id = %s and task_type = %s""",
        [node, str(TaskType.TOPOLOGY_DISCOVER)],
    )
    row = await found.fetchone()
    return int(row["attempt"])


def found_slots(result: Mapping[str, Any] | None) -> tuple[FoundSlot, ...]:
    """The slots in an agent's answer; one that cannot be read refuses all of them."""
    said = (result or {}).get("slots")
    if not isinstance(said, list) or len(said) > SLOTS_MAX:
        raise Rejected("the agent named no slots, or too many")
    return tuple(_slot(slot) for slot in said)


def _slot(said: object) -> FoundSlot:
    known = {field.name: field.type for field in fields(FoundSlot)}
    if not isinstance(said, dict) or not isinstance(said.get("slot_index"), int):
        raise Rejected(f"the agent named a slot without its index: {str(said)[:80]}")
    given = {name: value for name, value in said.items() if name in known}
    for name, value in given.items():
        if type(value) is not known[name] or "\x00" in str(value):
            raise Rejected(f"the agent named a slot with a wrong {name}: {str(value)[:80]!r}")
    return FoundSlot(**given)
