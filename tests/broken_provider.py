"""One provider that can be broken in one way at a time, and the table of what then fails.

It is the simulated provider, sound but for the defect that is switched on: requests may be changed
on their way in, answers on their way out. It runs in virtual time, so that a run of the whole suite
waits for nothing.
"""

import asyncio
import json
import math
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Final

from mainstay.conformance.caller import Caller
from mainstay.conformance.check import Check
from mainstay.conformance.limits import Limits
from mainstay.conformance.report import Report
from mainstay.conformance.suite import Run, examine
from mainstay.conformance.table import CHECKS
from mainstay.model.calls import (
    Call,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    Fence,
    GetRequest,
    ListRequest,
    Mutation,
)
from mainstay.model.errors import MainstayError
from mainstay.model.ids import ClusterId
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.providers.kit.options import STEP_TIMEOUTS_S, Options
from mainstay.providers.kit.store import SCHEMA, Sql, Stored, Write, _loaded
from mainstay.providers.sim.backend import CREATE_FAULT_LABEL
from mainstay.providers.sim.latency import Latency
from mainstay.providers.sim.offers import small_catalog
from mainstay.providers.sim.provider import Sim, simulated
from mainstay.providers.sim.spec import Pool, SimSpec
from mainstay.wire.calls import Request, request_from_wire
from mainstay.wire.provider_server import _answer
from mainstay.wire.raw_calls import Line, Record, Reply, read_reply
from mainstay.wire.status import grpc_code
from virtual_loop import LoopClock, run

SMALL: Final = Limits(
    step_s=8.0, check_s=200.0, poll_s=0.04, still_s=0.2, quiet_s=0.3, soak_s=0.5, burst=6,
    tokens=60, maps=5, walks=3, samples=16, scale_machines=50, page=40, at_once=8, lag_s=0.1,
)  # fmt: skip
STEP_S: Final = 0.1
LONG_S: Final = 5.0

_OFFER: Final = small_catalog()[0]
_HELD: Final = small_catalog()[1]
FLEET: Final = SimSpec(
    pools=(
        Pool(_OFFER, CapacityType.ON_DEMAND, 48),
        Pool(_OFFER, CapacityType.SPOT, 40),
        Pool(_HELD, CapacityType.BARE_METAL, 4),
        Pool(_OFFER, CapacityType.ON_DEMAND, 4, labels=(CREATE_FAULT_LABEL,)),
    ),
    latencies=dict.fromkeys(STEP_TIMEOUTS_S, Latency(STEP_S, 0.0)),
    selectors=True,
)
OPTIONS: Final = Options(step_timeouts_s={**STEP_TIMEOUTS_S, Call.CONFIGURE: 2.0}, ready_poll_s=0.1)


class Defect(StrEnum):
    """What can be wrong with it, one at a time."""

    NONE = "nothing"

    FORGETS_OPERATIONS = "every repetition is a new operation"
    ONE_OPERATION = "all operations have one id"
    NO_OPERATION = "the ack of a Delete has no operation id"
    PER_CONNECTION = "each connection has its own operations"
    REPETITION_FAILS = "a repetition while the step is under way fails the machine"
    ACK_IS_OLD = "an ack shows the machine as it was before"
    ACK_OF_ANOTHER = "an ack shows another machine"

    UNKNOWN_IS_INVALID = "an unknown machine is INVALID_ARGUMENT"
    EMPTY_ID_IS_UNKNOWN = "an empty id is NOT_FOUND"
    UNREADABLE_IS_FENCED = "bytes that are no request are FAILED_PRECONDITION"
    LARGE_IS_INTERNAL = "a large request is INTERNAL"
    NEGATIVE_GRACE_HALF = "a negative grace is refused and drains all the same"
    DRAINS_SLOTS = "Drain of a quota slot is accepted"
    DELETES_SERVING = "Delete of a serving machine is accepted"
    CREATES_SERVING = "Create of a serving machine is accepted"
    CONFIGURES_SLOTS = "Configure of a quota slot is accepted"
    IDLE_DRAIN_IS_FENCED = "Drain of an idle machine is FAILED_PRECONDITION"
    TARGET_IS_REFUSED = "a call at its target is refused"
    TARGET_REBINDS = "Configure of a serving machine binds it anew"

    ODD_CONFIGURING = "on the way to Configured it looks Deleting"
    ODD_DRAINING = "on the way from Configured it looks Configuring"
    ODD_DELETING = "on the way to Speculative it looks Creating"
    ODD_CREATING = "on the way to Idle it looks Configuring"
    STUCK_DRAIN = "a drain with a grace never ends"
    DRIFTS = "a machine at rest looks Draining now and then"

    NO_CLUSTER = "a machine on its way has no cluster yet"
    CLUSTER_STAYS = "the cluster stays after a drain"
    METADATA_STAYS = "metadata stays after a drain"
    METADATA_ADDS_UP = "metadata of earlier bindings comes back"
    METADATA_LATE = "metadata comes only with Configured"
    METADATA_CLEANED = "control characters are taken out of metadata"
    METADATA_CUT = "metadata is cut at fifty keys"
    ERROR_STAYS = "an idle machine still has an error"

    NO_TYPE = "one record has no instance type"
    NO_ZONE = "one host has no zone"
    FIELD_AS_LABEL = "the zone is a label, too"
    NEGATIVE_PRICE = "one price is negative"
    SAFE_SPOT = "spot machines declare no risk"
    EMPTY_RESOURCES = "one record has empty resources"
    HOST_OF_A_SLOT = "quota slots have a host"
    HOSTS_SHARED = "all hosts have one name"
    PROVIDER_CHANGES = "a bound host is another provider's"

    NO_FILTER = "List ignores the states asked for"
    UNKNOWN_STATE_IS_ALL = "a filter with an unknown state means all"
    NO_LIMIT = "List ignores max_results"
    REVISION_STANDS = "the revision never moves"
    REVISION_RUNS = "a machine is told although nothing has happened"
    DELTA_LOSES = "a list of what changed leaves its last machine out"
    DELTA_IS_FULL = "every list is a full one"
    FULL_SAYS_INCREMENTAL = "a full list says that it is incremental"
    OLD_CURSORS_DIE = "a cursor other than the last two names nobody"
    JUNK_IS_AN_ERROR = "a cursor that is not known is an error"
    JUNK_IS_NOW = "a cursor that is not known names nobody"
    PAGES_SKIP = "a page leaves out its last machine"
    LIST_SHOWS_LESS = "List shows no metadata"
    LOSES_A_SLOT = "List leaves out what was deleted once"
    SLOW_LIST = "a full list takes seconds"

    NO_FENCES = "no token is ever refused"
    FENCE_LATE = "the machine is looked up before the token"
    FENCE_PER_SHARD = "one mark for all machines of a shard"
    FENCE_FOR_ALL = "one mark for all shards of a machine"
    EPOCH_IGNORED = "only the sequence is compared"
    SEQUENCE_STAYS = "a new epoch does not begin its sequence anew"
    EQUAL_PASSES = "an equal token passes"
    REFUSED_DOES_NOT_COUNT = "the token of a refused call does not count"
    ZERO_IS_STALE = "the all-zero token is refused behind a real one"
    READS_FENCED = "a read is refused after a stale token"
    FIRST_IS_REFUSED = "the first token of a shard is refused"
    NEGATIVE_IS_FENCED = "a negative number in a token is FAILED_PRECONDITION"
    LARGEST_IS_STALE = "the largest token is refused"

    ERROR_UNSAID = "a Failed machine does not say why"
    FAILURE_LOOKS_DONE = "a failed Configure looks as if it had succeeded"
    LATE_WINS = "a Failed machine is Configured in the end"
    FAILED_IS_NOT_THE_END = "calls on a Failed machine are accepted"
    FAILED_IS_HIDDEN = "List leaves Failed machines out"
    READY_AT_ONCE = "a node that never joins is Configured"
    DRAIN_ERROR_STUCK = "a failed Drain stays Draining"

    FORGETS_ALL = "a restart forgets everything"
    FORGETS_MARKS = "a restart forgets tokens"
    FORGETS_BINDINGS = "a restart forgets metadata"
    FORGETS_CURSORS = "a restart makes operation ids and cursors begin anew"
    REMEMBERS_TOO_MUCH = "after a restart every shard must beat the highest token"
    STUCK_AFTER_RESTART = "a step cut by a restart never ends"
    LOST_AFTER_RESTART = "a step cut by a restart was never begun"


D = Defect
Token = tuple[int, int]


class KeptStore:
    """A store that outlives its provider and needs no thread: SQLite in memory."""

    failure = ""

    def __init__(self) -> None:
        self.base = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for statement in SCHEMA.split(";"):
            self.base.execute(statement)
        self.base.execute(Sql.PUT_META.value, ("store", "kept"))

    def load(self) -> Stored:
        return _loaded(self.base)

    def submit(self, writes: Sequence[Write]) -> None:
        for statement, values in writes:
            self.base.execute(statement.value, values)

    async def settled(self) -> None:
        pass

    def close(self) -> None:
        pass

    def __del__(self) -> None:
        self.base.close()


class Connection:
    """A line to the broken provider."""

    def __init__(self, provider: "BrokenProvider", number: int) -> None:
        self._provider = provider
        self._number = number

    async def send(self, call: Call, data: bytes) -> Reply:
        await asyncio.sleep(0)  # as over a network: others may come in between
        return await self._provider.answer(call, data, self._number)


class BrokenProvider:
    """Sound but for one defect; it can be killed and comes back with what its store has."""

    def __init__(self, defect: Defect) -> None:
        self.defect = defect
        self.restarts = 0
        self.marks: dict[tuple[str, ...], Token] = {}
        self.highest: Token = (-1, -1)
        self.operations = 0
        self.begun: set[str] = set()
        self.kept: dict[str, dict[str, str]] = {}
        self.rested: Counter[str] = Counter()
        self.poisoned: set[str] = set()
        self.stuck: set[str] = set()
        self.deleted: set[str] = set()
        self.cursors: list[bytes] = []
        self.failing: Counter[str] = Counter()
        self._store = KeptStore()
        self._connections = 0
        self._sim: Sim | None = None
        self._stop = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._life: asyncio.Task[None] | None = None

    @property
    def sim(self) -> Sim:
        assert self._sim is not None, "it is not running"
        return self._sim

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as self._tasks:
            await self._begin()
            try:
                yield
            finally:
                self._stop.set()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Line]:
        self._connections += 1
        yield Connection(self, self._connections)

    async def restart(self) -> None:
        """As after a kill: what was under way is left as it stood in the store."""
        assert self._life is not None
        self._stop.set()
        await self._life
        self.restarts += 1
        _tamper(self.defect, self._store)
        if self.defect is D.FORGETS_ALL:
            self._store = KeptStore()
        await self._begin()

    async def _begin(self) -> None:
        assert self._tasks is not None
        ready, self._stop = asyncio.Event(), asyncio.Event()
        self._life = self._tasks.create_task(self._live(ready, self._stop))
        await ready.wait()

    async def _live(self, ready: asyncio.Event, stop: asyncio.Event) -> None:
        async with simulated(FLEET, LoopClock(), store=self._store, options=OPTIONS) as self._sim:
            ready.set()
            await stop.wait()

    async def answer(self, call: Call, data: bytes, connection: int) -> Reply:
        if self.defect is D.UNKNOWN_STATE_IS_ALL and call is Call.LIST and data == b"\x0a\x01c":
            data = b""
        try:
            request = request_from_wire(call, data)
        except MainstayError as error:
            if self.defect is D.UNREADABLE_IS_FENCED and not data.startswith(b"\x0a"):
                return FENCED
            return Reply(status=grpc_code(error).name, details=error.message)
        changed = await self._before(request)
        if isinstance(changed, Reply):
            return changed
        reply = await self.soundly(changed)
        return self._after(call, request, reply, connection)

    async def soundly(self, request: Request) -> Reply:
        """What the sound provider answers."""
        call = CALL_OF[type(request)]
        try:
            return read_reply(call, await _answer(self.sim.calls, request))
        except MainstayError as error:
            return Reply(status=grpc_code(error).name, details=error.message)

    async def _before(self, request: Request) -> Request | Reply:
        if isinstance(request, ListRequest):
            return await list_before(self, request)
        if isinstance(request, GetRequest):
            return get_before(self, request)
        hook = MUTATION_BEFORE.get(self.defect)
        return request if hook is None else await hook(self, request)

    def _after(self, call: Call, request: Request, reply: Reply, connection: int) -> Reply:
        if isinstance(request, ListRequest):
            return list_after(self, request, reply)
        if reply.machine is not None:
            reply = replace(reply, machine=self.shown(reply.machine, call))
        if isinstance(request, GetRequest):
            return reply
        return mutation_after(self, request, reply, connection)

    def state_of(self, machine: str) -> State:
        """Where the machine really is."""
        record = self.sim.server._ledger.record(machine)
        return State.UNSPECIFIED if record is None else record.machine.state

    def ack(self, machine: str) -> Reply:
        """A made-up ack."""
        self.operations += 1
        shown = Record(id=machine, state=self.state_of(machine))
        return Reply(status="OK", operation=f"made-up-{self.operations}", machine=shown)

    def shown(self, record: Record, call: Call) -> Record:
        hook = RECORDS.get(self.defect)
        return record if hook is None else hook(self, record, call)


FENCED: Final = Reply(status="FAILED_PRECONDITION", details="a made-up refusal")
INTERNAL: Final = Reply(status="INTERNAL", details="a made-up refusal")
NOT_FOUND: Final = Reply(status="NOT_FOUND", details="a made-up refusal")
CALL_OF: Final[dict[type, Call]] = {
    CreateRequest: Call.CREATE, ConfigureRequest: Call.CONFIGURE, DrainRequest: Call.DRAIN,
    DeleteRequest: Call.DELETE, GetRequest: Call.GET, ListRequest: Call.LIST,
}  # fmt: skip
ODD: Final = f"{_OFFER.instance_type}.{_OFFER.zone}.od.00047"
"""The record that is out of shape; nobody borrows it."""

METAL: Final = f"{_HELD.instance_type}.{_HELD.zone}.metal.00003"
OTHER: Final = f"{_HELD.instance_type}.{_HELD.zone}.metal.00002"
LARGE: Final = 400_000
INT64_MAX: Final = 2**63 - 1


# Mutating calls, before the sound provider sees them.


async def _repetition_fails(at: BrokenProvider, request: Mutation) -> Request | Reply:
    during = {Call.CONFIGURE: State.CONFIGURING, Call.DRAIN: State.DRAINING,
              Call.CREATE: State.CREATING, Call.DELETE: State.DELETING}  # fmt: skip
    if at.state_of(request.machine) is during[CALL_OF[type(request)]]:
        reply = await at.soundly(request)
        if reply.ok:
            ledger = at.sim.server._ledger
            ledger.step(request.machine, State.FAILED, last_error="asked twice")
            ledger.commit()
        return reply
    return request


async def _empty_id(at: BrokenProvider, request: Mutation) -> Request | Reply:
    return request if request.machine else NOT_FOUND


async def _large(at: BrokenProvider, request: Mutation) -> Request | Reply:
    if isinstance(request, ConfigureRequest):
        size = sum(len(key) + len(value) for key, value in request.metadata.items())
        if size + len(request.blob) > LARGE:
            return INTERNAL
    return request


async def _negative_grace(at: BrokenProvider, request: Mutation) -> Request | Reply:
    if isinstance(request, DrainRequest) and request.grace_s < 0:
        await at.soundly(replace(request, grace_s=0))
        return INTERNAL
    return request


def _accepts(kind: type, state: State) -> "Hook":
    async def accept(at: BrokenProvider, request: Mutation) -> Request | Reply:
        if isinstance(request, kind) and at.state_of(request.machine) is state:
            return at.ack(request.machine)
        return request

    return accept


async def _idle_drain(at: BrokenProvider, request: Mutation) -> Request | Reply:
    idle = at.state_of(request.machine) is State.IDLE
    return FENCED if isinstance(request, DrainRequest) and idle else request


async def _target_refused(at: BrokenProvider, request: Mutation) -> Request | Reply:
    targets = {CreateRequest: State.IDLE, ConfigureRequest: State.CONFIGURED}
    return INTERNAL if at.state_of(request.machine) is targets.get(type(request)) else request


async def _target_rebinds(at: BrokenProvider, request: Mutation) -> Request | Reply:
    serving = at.state_of(request.machine) is State.CONFIGURED
    if isinstance(request, ConfigureRequest) and serving and not request.fence:
        ledger = at.sim.server._ledger
        machine = ledger.known(request.machine).machine
        ledger.refresh(
            replace(machine, cluster=ClusterId(request.cluster), shard_metadata=request.metadata)
        )
        ledger.commit()
    return request


async def _stuck_drain(at: BrokenProvider, request: Mutation) -> Request | Reply:
    if isinstance(request, DrainRequest) and request.grace_s > 0:
        at.stuck.add(request.machine)
    return request


async def _no_fences(at: BrokenProvider, request: Mutation) -> Request | Reply:
    return replace(request, fence=Fence())


async def _fence_late(at: BrokenProvider, request: Mutation) -> Request | Reply:
    unknown = request.machine and at.state_of(request.machine) is State.UNSPECIFIED
    return NOT_FOUND if unknown else request


def _own_marks(
    key: Callable[[Mutation], tuple[str, ...]], newer: Callable[[Token, Token], bool]
) -> "Hook":
    async def check(at: BrokenProvider, request: Mutation) -> Request | Reply:
        fence = request.fence
        if not fence or fence.epoch < 0 or fence.sequence < 0 or not request.machine:
            return request
        mark = at.marks.get(key(request))
        if mark is not None and not newer(fence.position, mark):
            return FENCED
        at.marks[key(request)] = max(fence.position, mark or fence.position)
        return replace(request, fence=Fence())

    return check


def _both(request: Mutation) -> tuple[str, str]:
    return request.fence.shard, request.machine


def _check_and_machine(request: Mutation) -> tuple[str, ...]:
    """All shards of one check share their marks; those of other checks would only be noise."""
    return request.fence.shard.rpartition("-")[0], request.machine


async def _refused_does_not_count(at: BrokenProvider, request: Mutation) -> Request | Reply:
    marks = at.sim.server._ledger.fences._marks
    before = marks.get(_both(request))
    reply = await at.soundly(request)
    if reply.ok or reply.status == "FAILED_PRECONDITION":
        return reply
    if before is None:
        marks.pop(_both(request), None)
    else:
        marks[_both(request)] = before
    return reply


async def _zero_is_stale(at: BrokenProvider, request: Mutation) -> Request | Reply:
    if isinstance(request, DrainRequest):
        at.marks.pop((request.machine,), None)
    elif request.fence:
        at.marks[request.machine,] = request.fence.position
    elif at.state_of(request.machine) is State.CONFIGURING and (request.machine,) in at.marks:
        return FENCED
    return request


async def _reads_fenced(at: BrokenProvider, request: Mutation) -> Request | Reply:
    reply = await at.soundly(request)
    if reply.status == "FAILED_PRECONDITION":
        at.poisoned.add(request.machine)
    return reply


async def _first_refused(at: BrokenProvider, request: Mutation) -> Request | Reply:
    if request.fence and (request.fence.shard,) not in at.marks:
        at.marks[request.fence.shard,] = request.fence.position
        return FENCED
    return request


async def _negative_fenced(at: BrokenProvider, request: Mutation) -> Request | Reply:
    return FENCED if min(request.fence.position) < 0 else request


async def _largest_stale(at: BrokenProvider, request: Mutation) -> Request | Reply:
    return FENCED if request.fence.epoch == INT64_MAX else request


async def _failed_goes_on(at: BrokenProvider, request: Mutation) -> Request | Reply:
    failed = at.state_of(request.machine) is State.FAILED and isinstance(request, ConfigureRequest)
    return at.ack(request.machine) if failed else request


async def _ready_at_once(at: BrokenProvider, request: Mutation) -> Request | Reply:
    if isinstance(request, ConfigureRequest) and request.cluster == "fault-readiness-block":
        return replace(request, cluster="conformance")
    return request


async def _remembers_too_much(at: BrokenProvider, request: Mutation) -> Request | Reply:
    if at.restarts and request.fence and request.fence.position <= at.highest:
        return FENCED
    at.highest = max(at.highest, request.fence.position) if not at.restarts else at.highest
    return request


Hook = Callable[[BrokenProvider, Mutation], Awaitable[Request | Reply]]

MUTATION_BEFORE: Final[dict[Defect, Hook]] = {
    D.REPETITION_FAILS: _repetition_fails,
    D.EMPTY_ID_IS_UNKNOWN: _empty_id,
    D.LARGE_IS_INTERNAL: _large,
    D.NEGATIVE_GRACE_HALF: _negative_grace,
    D.DRAINS_SLOTS: _accepts(DrainRequest, State.SPECULATIVE),
    D.DELETES_SERVING: _accepts(DeleteRequest, State.CONFIGURED),
    D.CREATES_SERVING: _accepts(CreateRequest, State.CONFIGURED),
    D.CONFIGURES_SLOTS: _accepts(ConfigureRequest, State.SPECULATIVE),
    D.IDLE_DRAIN_IS_FENCED: _idle_drain,
    D.TARGET_IS_REFUSED: _target_refused,
    D.TARGET_REBINDS: _target_rebinds,
    D.STUCK_DRAIN: _stuck_drain,
    D.NO_FENCES: _no_fences,
    D.FENCE_LATE: _fence_late,
    D.FENCE_PER_SHARD: _own_marks(lambda request: (request.fence.shard,), lambda a, b: a > b),
    D.FENCE_FOR_ALL: _own_marks(_check_and_machine, lambda a, b: a > b),
    D.EPOCH_IGNORED: _own_marks(_both, lambda a, b: a[1] > b[1]),
    D.SEQUENCE_STAYS: _own_marks(_both, lambda a, b: a > b and a[1] > b[1]),
    D.EQUAL_PASSES: _own_marks(_both, lambda a, b: a >= b),
    D.REFUSED_DOES_NOT_COUNT: _refused_does_not_count,
    D.ZERO_IS_STALE: _zero_is_stale,
    D.READS_FENCED: _reads_fenced,
    D.FIRST_IS_REFUSED: _first_refused,
    D.NEGATIVE_IS_FENCED: _negative_fenced,
    D.LARGEST_IS_STALE: _largest_stale,
    D.FAILED_IS_NOT_THE_END: _failed_goes_on,
    D.READY_AT_ONCE: _ready_at_once,
    D.REMEMBERS_TOO_MUCH: _remembers_too_much,
}


# Acks, on their way out.


def mutation_after(at: BrokenProvider, request: Mutation, reply: Reply, connection: int) -> Reply:
    if at.defect is D.UNKNOWN_IS_INVALID and reply.status == "NOT_FOUND":
        return replace(reply, status="INVALID_ARGUMENT")
    if not reply.ok:
        return reply
    at.rested[request.machine] = 0
    at.stuck -= {request.machine} if not isinstance(request, DrainRequest) else set()
    if isinstance(request, ConfigureRequest) and reply.operation not in at.begun:
        at.begun.add(reply.operation)
        old = at.kept.get(request.machine, {})
        related = old.keys() & request.metadata.keys()
        at.kept[request.machine] = {**(old if related else {}), **request.metadata}
    if isinstance(request, DeleteRequest):
        at.deleted.add(request.machine)
        if at.defect is D.NO_OPERATION:
            return replace(reply, operation="")
    hook = ACKS.get(at.defect)
    return reply if hook is None else hook(at, reply, connection)


def _another_operation(at: BrokenProvider, reply: Reply, connection: int) -> Reply:
    at.operations += 1
    return replace(reply, operation=f"another-{at.operations}")


def _per_connection(at: BrokenProvider, reply: Reply, connection: int) -> Reply:
    return replace(reply, operation=f"{reply.operation}-{connection}")


def _begins_anew(at: BrokenProvider, reply: Reply, connection: int) -> Reply:
    return replace(reply, operation="op-kept-1") if at.restarts else reply


def _of_another(at: BrokenProvider, reply: Reply, connection: int) -> Reply:
    return replace(reply, machine=reply.machine and replace(reply.machine, id=OTHER))


def _old_ack(at: BrokenProvider, reply: Reply, connection: int) -> Reply:
    before = {"state": int(State.IDLE), "cluster": "", "metadata": {}}
    return replace(reply, machine=reply.machine and replace(reply.machine, **before))  # type: ignore[arg-type]


ACKS: Final[dict[Defect, Callable[[BrokenProvider, Reply, int], Reply]]] = {
    D.FORGETS_OPERATIONS: _another_operation,
    D.ONE_OPERATION: lambda _, reply, __: replace(reply, operation="the-one"),
    D.PER_CONNECTION: _per_connection,
    D.FORGETS_CURSORS: _begins_anew,
    D.ACK_OF_ANOTHER: _of_another,
    D.ACK_IS_OLD: _old_ack,
}


def get_before(at: BrokenProvider, request: GetRequest) -> Request | Reply:
    if at.defect is D.EMPTY_ID_IS_UNKNOWN and not request.machine:
        return NOT_FOUND
    if at.defect is D.UNKNOWN_IS_INVALID and at.state_of(request.machine) is State.UNSPECIFIED:
        return Reply(status="INVALID_ARGUMENT", details="a made-up refusal")
    if request.machine in at.poisoned:
        at.poisoned.discard(request.machine)
        return FENCED
    return request


# Records, on their way out.


def _odd(state: State, shown: State) -> "Show":
    def show(at: BrokenProvider, record: Record, call: Call) -> Record:
        return replace(record, state=int(shown)) if record.state == state else record

    return show


def _bound_differently(**parts: object) -> "Show":
    def show(at: BrokenProvider, record: Record, call: Call) -> Record:
        return replace(record, **parts) if record.cluster else record  # type: ignore[arg-type]

    return show


def _of(machine: str, **parts: object) -> "Show":
    def show(at: BrokenProvider, record: Record, call: Call) -> Record:
        return replace(record, **parts) if record.id == machine else record  # type: ignore[arg-type]

    return show


def _drifts(at: BrokenProvider, record: Record, call: Call) -> Record:
    """Only a machine that is looked at again and again is seen to drift."""
    if call is not Call.GET or record.state not in {State.IDLE, State.CONFIGURED}:
        return record
    at.rested[record.id] += 1
    return replace(record, state=int(State.DRAINING)) if at.rested[record.id] % 5 == 0 else record


def _stuck(at: BrokenProvider, record: Record, call: Call) -> Record:
    return replace(record, state=int(State.DRAINING)) if record.id in at.stuck else record


def _no_cluster(at: BrokenProvider, record: Record, call: Call) -> Record:
    return replace(record, cluster="") if record.state == State.CONFIGURING else record


def _cluster_stays(at: BrokenProvider, record: Record, call: Call) -> Record:
    stays = record.state == State.IDLE and record.id in at.kept
    return replace(record, cluster="conformance") if stays else record


def _metadata_stays(at: BrokenProvider, record: Record, call: Call) -> Record:
    stays = record.state == State.IDLE and at.kept.get(record.id)
    return replace(record, metadata=dict(at.kept[record.id])) if stays else record


def _metadata_adds_up(at: BrokenProvider, record: Record, call: Call) -> Record:
    if not record.metadata:
        return record
    return replace(record, metadata={**at.kept.get(record.id, {}), **record.metadata})


def _metadata_late(at: BrokenProvider, record: Record, call: Call) -> Record:
    return replace(record, metadata={}) if record.state == State.CONFIGURING else record


def _metadata_cleaned(at: BrokenProvider, record: Record, call: Call) -> Record:
    cleaned = {
        key: "".join(each for each in value if each.isprintable())
        for key, value in record.metadata.items()
    }
    return replace(record, metadata=cleaned)


def _metadata_cut(at: BrokenProvider, record: Record, call: Call) -> Record:
    return replace(record, metadata=dict(sorted(record.metadata.items())[:50]))


def _error_stays(at: BrokenProvider, record: Record, call: Call) -> Record:
    used = record.state == State.IDLE and record.id in at.kept
    return replace(record, last_error="some time ago") if used else record


def _safe_spot(at: BrokenProvider, record: Record, call: Call) -> Record:
    spot = record.capacity_type == CapacityType.SPOT
    return replace(record, interruption_probability=0.0) if spot else record


def _host_of_a_slot(at: BrokenProvider, record: Record, call: Call) -> Record:
    slot = record.state == State.SPECULATIVE
    return replace(record, host=("sim", "a-host")) if slot else record


def _hosts_shared(at: BrokenProvider, record: Record, call: Call) -> Record:
    return replace(record, host=("sim", "a-host")) if record.host else record


def _error_unsaid(at: BrokenProvider, record: Record, call: Call) -> Record:
    return replace(record, last_error="")


def _failure_looks_done(at: BrokenProvider, record: Record, call: Call) -> Record:
    failed = record.state == State.FAILED and record.cluster
    return replace(record, state=int(State.CONFIGURED), last_error="") if failed else record


def _late_wins(at: BrokenProvider, record: Record, call: Call) -> Record:
    if record.state != State.FAILED or not record.cluster or call is not Call.GET:
        return record
    at.failing[record.id] += 1
    won = at.failing[record.id] > 20
    return replace(record, state=int(State.CONFIGURED), last_error="") if won else record


def _drain_error_stuck(at: BrokenProvider, record: Record, call: Call) -> Record:
    stuck = record.state == State.FAILED and record.cluster == "fault-drain-error"
    return replace(record, state=int(State.DRAINING), last_error="") if stuck else record


def _stuck_after_restart(at: BrokenProvider, record: Record, call: Call) -> Record:
    cut = record.state == State.FAILED and "restart" in record.last_error
    return replace(record, state=int(State.CONFIGURING), last_error="") if cut else record


Show = Callable[[BrokenProvider, Record, Call], Record]

RECORDS: Final[dict[Defect, Show]] = {
    D.ODD_CONFIGURING: _odd(State.CONFIGURING, State.DELETING),
    D.ODD_DRAINING: _odd(State.DRAINING, State.CONFIGURING),
    D.ODD_DELETING: _odd(State.DELETING, State.CREATING),
    D.ODD_CREATING: _odd(State.CREATING, State.CONFIGURING),
    D.STUCK_DRAIN: _stuck,
    D.DRIFTS: _drifts,
    D.NO_CLUSTER: _no_cluster,
    D.CLUSTER_STAYS: _cluster_stays,
    D.METADATA_STAYS: _metadata_stays,
    D.METADATA_ADDS_UP: _metadata_adds_up,
    D.METADATA_LATE: _metadata_late,
    D.METADATA_CLEANED: _metadata_cleaned,
    D.METADATA_CUT: _metadata_cut,
    D.ERROR_STAYS: _error_stays,
    D.NO_TYPE: _of(ODD, instance_type=""),
    D.NO_ZONE: _of(METAL, zone=""),
    D.FIELD_AS_LABEL: _of(ODD, labels={"zone": "a"}),
    D.NEGATIVE_PRICE: _of(ODD, price_per_hour=-math.pi),
    D.SAFE_SPOT: _safe_spot,
    D.EMPTY_RESOURCES: _of(ODD, resources={}),
    D.HOST_OF_A_SLOT: _host_of_a_slot,
    D.HOSTS_SHARED: _hosts_shared,
    D.PROVIDER_CHANGES: _bound_differently(host=("another", "a-host")),
    D.ERROR_UNSAID: _error_unsaid,
    D.FAILURE_LOOKS_DONE: _failure_looks_done,
    D.LATE_WINS: _late_wins,
    D.DRAIN_ERROR_STUCK: _drain_error_stuck,
    D.STUCK_AFTER_RESTART: _stuck_after_restart,
}


# Lists.


async def list_before(at: BrokenProvider, request: ListRequest) -> Request | Reply:
    known = request.since.startswith(b"kept.") or not request.since
    match at.defect:
        case D.NO_FILTER:
            return replace(request, states=frozenset())
        case D.NO_LIMIT:
            return replace(request, results_max=0)
        case D.DELTA_IS_FULL:
            return replace(request, since=b"")
        case D.JUNK_IS_AN_ERROR if not known:
            return Reply(status="INVALID_ARGUMENT", details="no such cursor")
        case D.FORGETS_CURSORS if at.restarts and request.since:
            return Reply(status="OK", cursor=request.since)
        case D.SLOW_LIST if not request.since and not request.results_max:
            await asyncio.sleep(LONG_S)
        case D.OLD_CURSORS_DIE if request.since and request.since not in at.cursors[-2:]:
            return Reply(status="OK", cursor=at.cursors[-1], incremental=True)
        case _:
            pass
    return request


def list_after(at: BrokenProvider, request: ListRequest, reply: Reply) -> Reply:
    machines = [at.shown(record, Call.LIST) for record in reply.machines]
    reply = replace(reply, machines=tuple(machines))
    hook = LISTS.get(at.defect)
    return reply if hook is None else hook(at, request, reply)


def _only(reply: Reply, keep: Callable[[Record], bool]) -> Reply:
    return replace(reply, machines=tuple(filter(keep, reply.machines)))


def _runs(at: BrokenProvider, request: ListRequest, reply: Reply) -> Reply:
    told = (Record(id=ODD, state=int(State.SPECULATIVE)),)
    quiet = request.since and reply.incremental and not reply.machines
    return replace(reply, machines=told) if quiet else reply


def _loses(at: BrokenProvider, request: ListRequest, reply: Reply) -> Reply:
    return replace(reply, machines=reply.machines[:-1]) if reply.incremental else reply


def _junk_is_now(at: BrokenProvider, request: ListRequest, reply: Reply) -> Reply:
    junk = request.since and not reply.incremental
    return replace(reply, machines=()) if junk else reply


def _skips(at: BrokenProvider, request: ListRequest, reply: Reply) -> Reply:
    return replace(reply, machines=reply.machines[:-1]) if reply.more else reply


def _shows_less(at: BrokenProvider, request: ListRequest, reply: Reply) -> Reply:
    return replace(reply, machines=tuple(replace(each, metadata={}) for each in reply.machines))


def _remembers_two(at: BrokenProvider, request: ListRequest, reply: Reply) -> Reply:
    at.cursors.append(reply.cursor)
    return reply


LISTS: Final[dict[Defect, Callable[[BrokenProvider, ListRequest, Reply], Reply]]] = {
    D.REVISION_STANDS: lambda _, __, reply: replace(reply, cursor=b"kept.0"),
    D.REVISION_RUNS: _runs,
    D.DELTA_LOSES: _loses,
    D.FULL_SAYS_INCREMENTAL: lambda _, __, reply: replace(reply, incremental=True),
    D.JUNK_IS_NOW: _junk_is_now,
    D.PAGES_SKIP: _skips,
    D.LIST_SHOWS_LESS: _shows_less,
    D.FAILED_IS_HIDDEN: lambda _, __, reply: _only(reply, lambda m: m.state != State.FAILED),
    D.LOSES_A_SLOT: lambda at, _, reply: _only(reply, lambda m: m.id not in at.deleted),
    D.OLD_CURSORS_DIE: _remembers_two,
}


# What a restart finds.


def _tamper(defect: Defect, store: KeptStore) -> None:
    match defect:
        case D.FORGETS_MARKS:
            store.base.execute("delete from marks")
            store.base.execute("delete from floors")
        case D.FORGETS_BINDINGS:
            _rewrite(store, lambda parts: parts.pop("metadata", None))
        case D.LOST_AFTER_RESTART:
            _rewrite(store, _unbegun)
        case _:
            pass


def _unbegun(parts: dict[str, object]) -> None:
    if parts["state"] == State.CONFIGURING:
        parts["state"] = int(State.IDLE)
        parts.pop("cluster", None)
        parts.pop("metadata", None)


def _rewrite(store: KeptStore, change: Callable[[dict[str, object]], object]) -> None:
    for name, text in list(store.base.execute("select id, record from machines")):
        parts = json.loads(text)
        change(parts)
        store.base.execute("update machines set record = ? where id = ?", (json.dumps(parts), name))


def caller(line: Line) -> Caller:
    """Somebody who calls it."""
    return Caller(line)


def examined(
    defect: Defect,
    checks: Sequence[Check] = CHECKS,
    limits: Limits = SMALL,
    *,
    torment: bool = True,
    seed: int = 1,
) -> Report:
    """The report on the provider with this defect, in no time."""

    async def whole() -> Report:
        provider = BrokenProvider(defect)
        async with provider.running():
            return await examine(
                Run(
                    name=defect.name,
                    connect=provider.connect,
                    checks=checks,
                    clock=LoopClock(),
                    limits=limits,
                    restart=provider.restart,
                    torment=torment,
                    seed=seed,
                )
            )

    return run(whole())
