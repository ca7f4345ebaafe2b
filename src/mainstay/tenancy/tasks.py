"""Work for node agents: queued and signed, claimed by one certificate, ended once.

A task is handed to the node it is for and to nobody else; its result is taken from whoever claimed
it. A task that has ended never changes: what comes later is kept beside it.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from mainstay.model.errors import Fenced, Rejected
from mainstay.runtime.clock import Clock, SystemClock
from mainstay.tenancy import enrolment
from mainstay.tenancy.bell import Bell, Channel
from mainstay.tenancy.database.connect import Connection, Pool, Row, tell, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.signing import Signer, canonical
from mainstay.tenancy.states import TaskStatus
from mainstay.tenancy.work import TaskResult, TaskType

WAIT_MAX_S: Final = 25.0
"""As long as one long poll may last; a proxy in between would give up soon after."""

LOST_S: Final = 5.0
"""What was handed out a moment ago may still be on its way, or its result may be."""

SWEEP_MAX: Final = 1000
RESULT_BYTES_MAX: Final = 256 * 1024
ENDED: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.EXPIRED})
TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


class TaskNotFound(Rejected):
    """This node has no such task."""

    code = "task_not_found"
    what_to_do = "check the id"


class NotTheClaimer(Fenced):
    """Another certificate claimed the task: its result is not ours to say."""

    code = "task_not_claimed_by_caller"
    what_to_do = "stop: the task belongs to another"


class ResultConflict(Rejected):
    """The task has ended with another result."""

    code = "task_result_conflict"
    what_to_do = "keep the first result"


class TaskOver(Fenced):
    """The task expired before this result came. It is kept, and what was made is taken back."""

    code = "task_expired"
    what_to_do = "undo what was made for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Something for an agent to do."""

    node: str
    allocation: str | None
    type: TaskType
    attempt: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)
    """Strings, integers, lists and objects; the allocation's id is added."""

    expires_in_s: float
    correlation_id: str

    @property
    def key(self) -> str:
        """The same key is the same task."""
        return f"{self.allocation or self.node}:{self.type}:{self.attempt}"


async def enqueue(tx: Connection, ids: Ids, signer: Signer, task: Task) -> str:
    """Queue it in the caller's transaction; its id. A second call finds the first."""
    if (known := await _by_key(tx, task)) is not None:
        return known
    if task.attempt < 1 or task.expires_in_s <= 0:
        raise Rejected(f"not a task: attempt {task.attempt}, expires in {task.expires_in_s} s")
    identity = ids("tsk")
    document = await _document(tx, identity, task)
    signed = await signer.sign(tx, document)
    inserted = await tx.execute(
        """
        insert into node_tasks (id, node_id, allocation_id, task_type, attempt, idempotency_key,
            params, signature, signer_version_id, status, correlation_id, created_at, expires_at)
        values (%(task_id)s, %(node_id)s, %(allocation)s, %(task_type)s, %(attempt)s, %(key)s,
            %(params)s::jsonb, %(signature)s, %(version)s, 'queued', %(correlation)s,
            %(issued_at)s::timestamptz, %(expires_at)s::timestamptz)
        on conflict (idempotency_key) do nothing returning id
        """,
        {
            **document,
            "params": canonical(document["params"]).decode(),
            "allocation": task.allocation,
            "attempt": task.attempt,
            "key": task.key,
            "signature": signed.signature,
            "version": signed.version,
            "correlation": task.correlation_id,
        },
    )
    if await inserted.fetchone() is None:
        return await _by_key(tx, task) or await enqueue(tx, ids, signer, task)
    tell(tx, str(Channel.QUEUED), task.node)
    return identity


async def _document(tx: Connection, identity: str, task: Task) -> dict[str, Any]:
    """What is signed, with the times of the database, which also expires it."""
    found = await tx.execute(
        """select clock_timestamp() as issued,
                  clock_timestamp() + make_interval(secs => %s) as expires""",
        [task.expires_in_s],
    )
    times = await found.fetchone()
    assert times is not None
    whose = {} if task.allocation is None else {"allocation_id": task.allocation}
    return {
        "task_id": identity,
        "node_id": task.node,
        "task_type": str(task.type),
        "params": {**task.params, **whose},
        "issued_at": written(times["issued"]),
        "expires_at": written(times["expires"]),
    }


async def _by_key(tx: Connection, task: Task) -> str | None:
    found = await tx.execute("select id from node_tasks where idempotency_key = %s", [task.key])
    row = await found.fetchone()
    return None if row is None else str(row["id"])


def envelope(row: Row) -> dict[str, Any]:
    """A task as its agent gets it."""
    return {
        "task_id": row["id"],
        "node_id": row["node_id"],
        "task_type": row["task_type"],
        "params": row["params"],
        "issued_at": written(row["created_at"]),
        "expires_at": written(row["expires_at"]),
        "signer_version_id": row["signer_version_id"],
        "signature": row["signature"],
        "attempt": row["attempt"],
        "correlation_id": row["correlation_id"],
    }


def written(time: dt.datetime) -> str:
    """A time in the one spelling that is signed."""
    return time.astimezone(dt.UTC).strftime(TIME_FORMAT)


_CLAIM: Final = """
    with task as (
        select id, node_id from node_tasks
        where node_id = %(node)s and status in ('queued', 'dispatched')
            and expires_at > clock_timestamp()
            and (status = 'queued' or (claimed_by_fingerprint = any(%(ours)s)
                and dispatched_at < %(lost_at)s and id <> all(%(holds)s)))
        order by created_at, id limit 1 for update skip locked
    ), caller as (
        select id from nodes where id = (select node_id from task)
            and cert_fingerprint = %(fingerprint)s and status <> 'retired'
    )
    update node_tasks set status = 'dispatched', claimed_by_fingerprint = %(fingerprint)s,
        dispatched_at = clock_timestamp()
    from task, caller where node_tasks.id = task.id and caller.id = task.node_id
    returning node_tasks.*
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """One long poll of an agent."""

    wait_s: float
    holds: frozenset[str] | None = None
    """Tasks that it has. What it was given some time before this poll and does not name got lost on
    the way: it is offered again. None: it does not say, and nothing is."""

    is_gone: Callable[[], Awaitable[bool]] | None = None
    """Whether nobody is there any more to take an answer."""


async def claim(
    pool: Pool,
    node: str,
    fingerprint: str,
    *,
    wait_s: float,
    bell: Bell | None = None,
    clock: Clock | None = None,
) -> Row | None:
    """The node's oldest queued task, now this certificate's; None if there is none in time."""
    return await claim_for(pool, node, fingerprint, Poll(wait_s=wait_s), bell=bell, clock=clock)


async def claim_for(
    pool: Pool,
    node: str,
    fingerprint: str,
    poll: Poll,
    *,
    bell: Bell | None = None,
    clock: Clock | None = None,
) -> Row | None:
    """The oldest task that is queued, or that never reached its agent; None: none in time."""
    async with transaction(pool) as tx:
        ours = await enrolment.identify(tx, node, fingerprint)
        await enrolment.seen(tx, node)
        now = await (await tx.execute("select clock_timestamp() as at")).fetchone()
        assert now is not None
    values = {
        "node": node,
        "fingerprint": fingerprint,
        "ours": ours,
        "lost_at": None if poll.holds is None else now["at"] - dt.timedelta(seconds=LOST_S),
        "holds": sorted(poll.holds or ()),
    }
    clock = clock or SystemClock()
    until_s = clock.elapsed_s() + min(poll.wait_s, WAIT_MAX_S)
    with (bell or Bell()).wait(Channel.QUEUED, node) as wait:
        while not await _is_gone(poll):
            async with transaction(pool) as tx:
                row = await (await tx.execute(_CLAIM, values)).fetchone()
            if row is not None and await _is_gone(poll):
                await _given_back(pool, row)
                return None
            if row is not None:
                return row
            left_s = until_s - clock.elapsed_s()
            if left_s <= 0:
                return None
            await wait.rings(at_most_s=left_s)
    return None


async def _is_gone(poll: Poll) -> bool:
    return poll.is_gone is not None and await poll.is_gone()


async def _given_back(pool: Pool, row: Row) -> None:
    """Nobody took it: it is anybody's of the node again, unless somebody has it by now."""
    async with transaction(pool) as tx:
        await tx.execute(
            """update node_tasks set status = 'queued', claimed_by_fingerprint = null,
                   dispatched_at = null
               where id = %(id)s and status = 'dispatched' and dispatched_at = %(dispatched_at)s""",
            row,
        )
        tell(tx, str(Channel.QUEUED), row["node_id"])


async def in_hand(pool: Pool, node: str, fingerprint: str) -> list[Row]:
    """What this agent has claimed and not ended: asked when it comes back."""
    async with transaction(pool) as tx:
        ours = await enrolment.identify(tx, node, fingerprint)
        found = await tx.execute(
            """select * from node_tasks where node_id = %s and claimed_by_fingerprint = any(%s)
                  and status = 'dispatched' order by created_at, id""",
            [node, ours],
        )
        return await found.fetchall()


_FINISH: Final = """
    update node_tasks set status = %(status)s, result = %(result)s::jsonb,
        result_hash = %(hash)s, error_code = %(code)s, error_detail = %(detail)s,
        ended_at = clock_timestamp()
    where id = %(task)s and node_id = %(node)s and status = 'dispatched'
        and claimed_by_fingerprint = any(%(ours)s)
    returning *
"""


async def finish(pool: Pool, node: str, fingerprint: str, task: str, result: TaskResult) -> Row:
    """Take a result from who claimed the task. The same result again changes nothing."""
    values = {**_stored(result), "node": node, "task": task}
    try:
        async with transaction(pool) as tx:
            values["ours"] = await enrolment.identify(tx, node, fingerprint)
            row = await (await tx.execute(_FINISH, values)).fetchone()
            if row is not None:
                tell(tx, str(Channel.ENDED), task)
                return row
            row = await _already_ended(tx, values)
    except psycopg.DataError as error:
        raise Rejected("a result with characters that cannot be stored: remove NUL") from error
    if row["status"] == TaskStatus.EXPIRED:
        raise TaskOver(f"task {task} expired at {written(row['ended_at'])}")
    return row


async def _already_ended(tx: Connection, values: Mapping[str, Any]) -> Row:
    """Why the result was not written, as an error, or the row if it says the same."""
    found = await tx.execute(
        "select * from node_tasks where id = %(task)s and node_id = %(node)s", values
    )
    row = await found.fetchone()
    if row is None:
        raise TaskNotFound(f"node {values['node']} has no task {values['task']}")
    if row["claimed_by_fingerprint"] not in values["ours"]:
        raise NotTheClaimer(f"task {row['id']} was not claimed by this certificate")
    if row["status"] == TaskStatus.EXPIRED:
        await tx.execute(
            """insert into late_results (task_id, status, result, result_hash, error_code)
               values (%(task)s, %(status)s, %(result)s::jsonb, %(hash)s, %(code)s)
               on conflict (task_id) do nothing""",
            values,
        )
    elif row["result_hash"] != values["hash"]:
        raise ResultConflict(f"task {row['id']} has ended with another result")
    return row


def _stored(result: TaskResult) -> dict[str, Any]:
    body = {
        "status": str(result.status),
        "output": result.output,
        "error_code": result.error_code,
        "error_detail": result.error_detail,
    }
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    if len(text) > RESULT_BYTES_MAX:
        raise Rejected(f"a result of {len(text)} bytes: at most {RESULT_BYTES_MAX}")
    return {
        "status": str(result.status),
        "result": json.dumps(result.output),
        "hash": hashlib.sha256(text.encode()).hexdigest(),
        "code": result.error_code,
        "detail": result.error_detail,
    }


async def expire(pool: Pool) -> list[Row]:
    """End what is past its time. Nothing is known of the host then: its slots must be blocked."""
    async with transaction(pool) as tx:
        found = await tx.execute(
            """
            with late as (
                select id from node_tasks
                where status in ('queued', 'dispatched') and expires_at <= clock_timestamp()
                order by expires_at limit %s for update skip locked
            )
            update node_tasks set status = 'expired', ended_at = clock_timestamp()
            from late where node_tasks.id = late.id returning node_tasks.*
            """,
            [SWEEP_MAX],
        )
        rows = await found.fetchall()
        for row in rows:
            tell(tx, str(Channel.ENDED), row["id"])
    return rows


async def outcome(
    pool: Pool, task: str, *, wait_s: float, bell: Bell | None = None, clock: Clock | None = None
) -> Row | None:
    """The task once it has ended; None if it has not in time. No transaction is open meanwhile."""
    clock = clock or SystemClock()
    until_s = clock.elapsed_s() + wait_s
    with (bell or Bell()).wait(Channel.ENDED, task) as wait:
        while True:
            async with transaction(pool) as tx:
                found = await tx.execute("select * from node_tasks where id = %s", [task])
                row = await found.fetchone()
            if row is None:
                raise TaskNotFound(f"no task {task}")
            if row["status"] in ENDED:
                return row
            left_s = until_s - clock.elapsed_s()
            if left_s <= 0:
                return None
            await wait.rings(at_most_s=left_s)
