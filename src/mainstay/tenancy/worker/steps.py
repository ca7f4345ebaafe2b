"""The steps of the worker: each one short transaction, or one wait with none open.

A step may be run again after a death, when what it did is done already: it then finds that, does
nothing more and says the same. It never trusts what was true when the work began: it locks the row
and looks.
"""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mainstay.runtime.log import logger
from mainstay.tenancy import briefing, cleanup, settle, tasks
from mainstay.tenancy.backoff import Backoff
from mainstay.tenancy.consume import told
from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.states import Actor, Status, TaskStatus
from mainstay.tenancy.tasks import Task
from mainstay.tenancy.transition import locked
from mainstay.tenancy.worker import verdict
from mainstay.tenancy.worker.port import Facts, Steps
from mainstay.tenancy.worker.tools import Tools, short_transaction

LOOK_S: Final = 30.0
"""One wait for a task; the next one follows at once."""

STUMBLING: Final = Backoff(first_s=0.2, most_s=60.0)
"""A step that stumbles is taken again and again: giving it up would strand an allocation."""


class Next(StrEnum):
    """What a step says is to come."""

    ON = "on"
    """The next step of the plan."""

    DONE = "done"
    AGAIN = "again"
    """Another attempt, after a pause of `pause_s`."""

    UNDO = "undo"
    """Clean up on the host, then another attempt."""

    REMAINS = "remains"
    """Something stands on the host that nobody is to have."""


async def begin(tools: Tools, allocation: str) -> Facts:
    """A2. What was cancelled before goes on to A4 at once: `requested` has no other way out."""
    async with short_transaction(tools.pool) as tx:
        row = await locked(tx, allocation)
        if row["status"] == Status.REQUESTED:
            row = await settle.begun(tx, tools.ids, row)
    return _says(Next.ON if row["status"] == Status.PROVISIONING else Next.DONE, row)


async def give(tools: Tools, allocation: str, attempt: int) -> Facts:
    """Queue the work for the node's agent, unless somebody has given it up meanwhile.

    Nothing stands on the host here: this is the first attempt, or the one before left nothing.
    """
    async with short_transaction(tools.pool) as tx:
        row = await locked(tx, allocation)
        order = _Order(giving=True, number=attempt)
        if row["status"] != Status.PROVISIONING:
            return _says(Next.DONE, row)
        if row["cancel_requested_by"] is not None and not await _is_sent(tx, tools, row, order):
            row = await settle.failed(
                tx,
                tools.ids,
                row,
                code=settle.CANCELLED,
                phase="begin" if attempt == 1 else "retry",
                reason=f"cancelled by {row['cancel_requested_by']} before the node was told",
                clean=True,
                actor=Actor.WORKER,
            )
            return _says(Next.DONE, row)
        return _says(Next.ON, row, task=await _sent(tx, tools, row, order))


async def wait(tools: Tools, task: str) -> Facts:
    """Until the task has ended, however it did; one that nobody ends expires."""
    while True:
        row = await tasks.outcome(
            tools.pool, task, wait_s=LOOK_S, bell=tools.bell, clock=tools.clock
        )
        if row is not None:
            return {"next": Next.ON, "status": row["status"]}


async def conclude(tools: Tools, allocation: str, task: str, attempt: int) -> Facts:
    """A3, A4, or another attempt; if the allocation is over already, what was made must go."""
    async with short_transaction(tools.pool) as tx:
        row = await locked(tx, allocation)
        ended = await _task(tx, task)
        if row["status"] != Status.PROVISIONING:
            return await _too_late(tx, row, ended)
        found = verdict.of_given(ended)
        if isinstance(found, verdict.Ready):
            moved = await settle.activated(tx, tools.ids, row, found.connection)
            return _says(Next.DONE, moved)
        if found.retryable and await _may_try_again(tx, tools, row, attempt):
            next_ = Next.UNDO if found.touched else Next.AGAIN
            return _says(next_, row, pause_s=tools.patience.provision_pause_s(attempt))
        row = await _failed(tx, tools, row, found)
        return await _too_late(tx, row, ended)


async def undo(tools: Tools, allocation: str, attempt: int) -> Facts:
    """Ask the node to take down whatever a failed attempt left."""
    async with short_transaction(tools.pool) as tx:
        row = await locked(tx, allocation)
        if row["status"] != Status.PROVISIONING:
            return _says(Next.DONE, row)
        order = _Order(giving=False, number=_undo_number(attempt))
        return _says(Next.ON, row, task=await _sent(tx, tools, row, order))


async def undone(tools: Tools, allocation: str, task: str, given: str, attempt: int) -> Facts:
    """Another attempt if the host is proved clean; A4 with blocked slots if it is not."""
    async with short_transaction(tools.pool) as tx:
        row = await locked(tx, allocation)
        if row["status"] != Status.PROVISIONING:
            return _says(Next.DONE, row)
        if verdict.of_taken_back(await _task(tx, task)).is_proved:
            pause_s = tools.patience.provision_pause_s(attempt)
            return _says(Next.AGAIN, row, pause_s=pause_s)
        found = verdict.of_given(await _task(tx, given))
        assert isinstance(found, verdict.Failed)
        return _says(Next.DONE, await _failed(tx, tools, row, found, left_clean=False))


async def take_back(tools: Tools, allocation: str, round_: int, attempt: int) -> Facts:
    """Ask the node to clean up, in the round of releasing that this work is for."""
    async with short_transaction(tools.pool) as tx:
        row = await locked(tx, allocation)
        if not _is_in_round(row, round_):
            return _says(Next.DONE, row)
        order = _Order(giving=False, number=_release_number(round_, attempt))
        return _says(Next.ON, row, task=await _sent(tx, tools, row, order))


async def conclude_release(
    tools: Tools, allocation: str, task: str, round_: int, attempt: int
) -> Facts:
    """A6 with the whole proof; without it another attempt, and A7 when all are used up."""
    async with short_transaction(tools.pool) as tx:
        row = await locked(tx, allocation)
        if not _is_in_round(row, round_):
            return _says(Next.DONE, row)
        found = verdict.of_taken_back(await _task(tx, task))
        if found.is_proved and found.proof is not None:
            return _says(Next.DONE, await settle.released(tx, tools.ids, row, found.proof))
        if attempt < tools.patience.release_attempts:
            pause_s = tools.patience.release_pauses.pause_s(attempt)
            return _says(Next.AGAIN, row, pause_s=pause_s)
        moved = await settle.release_failed(tx, tools.ids, row, found.reason, found.proof)
        return _says(Next.DONE, moved)


async def clear(tools: Tools, allocation: str, given: int, attempt: int) -> Facts:
    """Ask the node to take down a machine that was made for an allocation which has failed."""
    async with short_transaction(tools.pool) as tx:
        row = await locked(tx, allocation)
        if row["status"] != Status.FAILED:
            return _says(Next.DONE, row)
        order = _Order(giving=False, number=_undo_number(given) + attempt)
        return _says(Next.ON, row, task=await _sent(tx, tools, row, order))


async def cleared(tools: Tools, allocation: str, task: str, attempt: int) -> Facts:
    """With the proof, what was blocked is free; the allocation stays failed."""
    async with short_transaction(tools.pool) as tx:
        row = await locked(tx, allocation)
        found = verdict.of_taken_back(await _task(tx, task))
        if found.is_proved and found.proof is not None:
            return _says(Next.DONE, await settle.cleaned(tx, row, found.proof))
    if attempt < tools.patience.remains_attempts:
        return _says(Next.AGAIN, row, pause_s=tools.patience.release_pauses.pause_s(attempt))
    logger(allocation=allocation).error("remains_left", reason=found.reason, task=task)
    return _says(Next.DONE, row)


STEPS: Final[Steps] = {
    "begin": begin,
    "give": give,
    "wait": wait,
    "conclude": conclude,
    "undo": undo,
    "undone": undone,
    "take_back": take_back,
    "conclude_release": conclude_release,
    "clear": clear,
    "cleared": cleared,
}
"""By the names that engines remember: a name is never given to another meaning."""


async def take(steps: Steps, tools: Tools, name: str, facts: Facts) -> Facts:
    """Take a step until it succeeds. A database that is away, or a fault of ours, costs time only.

    Every stumble is said, and a fault that is repaired is found at the next attempt.
    """
    stumbles = 0
    while True:
        try:
            answer = await steps[name](tools, **facts)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it is, not to be lost
            stumbles += 1
            tools.metrics.stumbled(name)
            pause_s = STUMBLING.pause_s(stumbles)
            logger(**facts).warning(
                "step_stumbled", step=name, stumbles=stumbles, again_s=pause_s, error=told(error)
            )
        else:
            tools.metrics.stepped(name, answer["next"])
            return answer
        await asyncio.sleep(pause_s)


@dataclass(frozen=True, slots=True)
class _Order:
    """Which task: the same order for the same allocation is the same task."""

    giving: bool
    number: int


def _undo_number(attempt: int) -> int:
    """10, 20, 30: what undoes an attempt to give; between them room for its remains."""
    return 10 * attempt


def _release_number(round_: int, attempt: int) -> int:
    """101, 102, ... in the first round of releasing, 201 and so on in the second."""
    return 100 * round_ + attempt


def _is_in_round(row: Row, round_: int) -> bool:
    return (row["status"], row["release_attempt"]) == (Status.RELEASING, round_)


async def _is_sent(tx: Connection, tools: Tools, row: Row, order: _Order) -> bool:
    task = await _ordered(tx, tools, row, order)
    found = await tx.execute("select from node_tasks where idempotency_key = %s", [task.key])
    return await found.fetchone() is not None


async def _sent(tx: Connection, tools: Tools, row: Row, order: _Order) -> str:
    task = await _ordered(tx, tools, row, order)
    return await tasks.enqueue(tx, tools.ids, tools.signer, task)


async def _ordered(tx: Connection, tools: Tools, row: Row, order: _Order) -> Task:
    kind = briefing.task_type(row["capacity_shape"], giving=order.giving)
    return Task(
        node=row["node_id"],
        allocation=row["id"],
        type=kind,
        attempt=order.number,
        params=await briefing.params(tx, row, kind),
        expires_in_s=tools.patience.task_s,
        correlation_id=row["correlation_id"],
    )


async def _task(tx: Connection, task: str) -> Row:
    found = await tx.execute("select * from node_tasks where id = %s", [task])
    row = await found.fetchone()
    assert row is not None
    return row


async def _may_try_again(tx: Connection, tools: Tools, row: Row, attempt: int) -> bool:
    if row["cancel_requested_by"] is not None or attempt >= tools.patience.provision_attempts:
        return False
    found = await tx.execute(
        "select clock_timestamp() < %s + make_interval(secs => %s) as early",
        [row["provisioning_started_at"], tools.patience.provision_s],
    )
    answer = await found.fetchone()
    return answer is not None and bool(answer["early"])


async def _failed(
    tx: Connection, tools: Tools, row: Row, found: verdict.Failed, *, left_clean: bool = True
) -> Row:
    """A4. A wish to cancel is the reason if there was one: nothing more was tried then."""
    code, reason = found.code, found.reason
    if row["cancel_requested_by"] is not None and found.retryable:
        code = settle.CANCELLED
        reason = f"cancelled by {row['cancel_requested_by']}; the attempt had failed: {reason}"
    if not left_clean:
        reason += "; what it left could not be taken down"
    return await settle.failed(
        tx,
        tools.ids,
        row,
        code=code,
        phase=found.phase,
        reason=reason,
        clean=found.clean and left_clean,
        actor=Actor.WORKER,
    )


async def _too_late(tx: Connection, row: Row, ended: Row) -> Facts:
    """The allocation is not provisioning any more: a machine that was made for it must go."""
    made = ended["status"] == TaskStatus.COMPLETED
    if made and await cleanup.late_success(tx, row) is not None:
        return _says(Next.REMAINS, row)
    return _says(Next.DONE, row)


def _says(next_: Next, row: Row, **facts: object) -> Facts:
    return {"next": str(next_), "status": row["status"], **facts}
