"""A bad day: lag, copies, calls that overtake each other, restarts in the middle of a step (Txx).

The provider is asked for nothing that the contract does not promise; only the line and the caller
behave as they do when things go wrong.
"""

import asyncio
import contextlib
from random import Random
from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.caller import Caller
from mainstay.conformance.check import Broken, Check, Gate, Part, Together, gates
from mainstay.conformance.shape import check_parts
from mainstay.conformance.trial import CLUSTER, Trial, at_once
from mainstay.model.calls import Call, Fence
from mainstay.model.state import State, state_name
from mainstay.wire.raw_calls import Line, Reply

COPIES: Final = 4
LIVES: Final = 6
TRIES_MAX: Final = 40


class BadLine:
    """A line that holds each call back for a while, and sends some of them more than once."""

    def __init__(self, line: Line, random: Random, *, lag_s: float, copies: int = 1) -> None:
        self._line = line
        self._random = random
        self._lag_s = lag_s
        self._copies = copies

    async def send(self, call: Call, data: bytes) -> Reply:
        """The answer to one of the copies, whichever is drawn."""
        count = self._random.randint(1, self._copies)
        replies = await at_once([self._one(call, data) for _ in range(count)])
        return self._random.choice(replies)

    async def _one(self, call: Call, data: bytes) -> Reply:
        await asyncio.sleep(self._random.uniform(0.0, self._lag_s))
        reply = await self._line.send(call, data)
        await asyncio.sleep(self._random.uniform(0.0, self._lag_s))
        return reply


async def _lag(at: Trial) -> None:
    """Over a line that lags, lives run side by side and end where they should."""
    caller = Caller(BadLine(at.line, at.random, lag_s=at.limits.lag_s))
    machines = await at.idles(LIVES)

    async def life(number: int, machine: str) -> None:
        metadata = {"life": str(number)}
        expect.acked(await caller.configure(machine, at.fence(1, number), metadata=metadata))
        await at.reach(machine, State.CONFIGURED)
        expect.bound(await caller.get(machine), CLUSTER, metadata)
        expect.acked(await caller.drain(machine, at.fence(1, LIVES + number)))
        await at.reach(machine, State.IDLE)
        expect.free(await caller.get(machine))

    await at_once([life(number, machine) for number, machine in enumerate(machines, start=1)])


async def _copies(at: Trial) -> None:
    """Of copies of one call exactly one is accepted, and the machine moves once."""
    machine = await at.idle()
    async with at.another() as other:
        for sequence, call in enumerate((Call.CONFIGURE, Call.DRAIN), start=1):
            fence = at.fence(1, sequence)
            callers = [at if number % 2 else other for number in range(COPIES)]
            replies = await at_once([each.mutate(call, machine, fence) for each in callers])
            accepted = [reply for reply in replies if reply.ok]
            expect.that(len(accepted) == 1, f"{call}: {len(accepted)} of {COPIES} copies accepted")
            for reply in replies:
                if not reply.ok:
                    expect.fenced(reply)
            await at.settle(machine)
    expect.state(await at.get(machine), State.IDLE)


async def _overtaken(at: Trial) -> None:
    """Of calls that overtake each other the newest counts, and older ones are refused behind it."""
    machine = await at.idle()
    caller = Caller(BadLine(at.line, at.random, lag_s=at.limits.lag_s))
    sequences = list(range(1, at.limits.burst + 1))
    at.random.shuffle(sequences)
    replies = await at_once([caller.configure(machine, at.fence(1, each)) for each in sequences])
    by_sequence = dict(zip(sequences, replies, strict=True))
    newest = expect.acked(by_sequence[max(sequences)])
    for reply in replies:
        if reply.ok:
            expect.same_operation([newest, reply])
        else:
            expect.fenced(reply)
    for sequence in sequences:
        expect.fenced(await at.configure(machine, at.fence(1, sequence)))


async def _late_copies(at: Trial) -> None:
    """Copies of old calls that come late are refused and change nothing."""
    machine = await at.idle()
    calls = [Call.CONFIGURE, Call.DRAIN, Call.CONFIGURE]
    for sequence, call in enumerate(calls, start=1):
        expect.acked(await at.mutate(call, machine, at.fence(1, sequence)))
        await at.settle(machine)
    before = await at.get(machine)
    late = list(enumerate(calls, start=1)) * 2
    at.random.shuffle(late)
    for sequence, call in late:
        expect.fenced(await at.mutate(call, machine, at.fence(1, sequence)))
    expect.untouched(before, await at.still(machine))


async def _new_life(at: Trial) -> None:
    """A shard that restarts in the middle of a step goes on with it; its old life is refused."""
    if at.subject.borrowed.has_slots:
        machine = await at.slot()
        calls = [Call.CREATE, Call.CONFIGURE, Call.DRAIN, *([Call.DELETE] if at.can_delete else [])]
    else:
        machine, calls = await at.idle(), [Call.CONFIGURE, Call.DRAIN]
    for epoch, call in enumerate(calls, start=1):
        first = expect.acked(await at.mutate(call, machine, at.fence(epoch, 100)))
        again = await at.mutate(call, machine, at.fence(epoch + 1, 1))
        expect.same_operation([first, again])
        expect.fenced(await at.mutate(call, machine, at.fence(epoch, 101)))
        record = await at.settle(machine)
        expect.that(record.state != State.FAILED, f"{call} failed: {record.last_error}")


async def _cut_connection(at: Trial) -> None:
    """A connection that is cut in the middle of a step cuts nothing else."""
    machine = await at.idle()
    async with at.another() as other:
        first = expect.acked(await other.configure(machine, at.fence(1, 1)))
    async with at.another() as other:
        expect.same_operation([first, await other.configure(machine, at.fence(1, 2))])
    await at.reach(machine, State.CONFIGURED)
    expect.bound(await at.get(machine), CLUSTER)


async def _lost_answer(at: Trial) -> None:
    """A call whose answer was lost is repeated, and has been made once."""
    machine = await at.idle()
    for _ in range(COPIES):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.002):
                await at.configure(machine, at.fence(1, 1))
    expect.same_operation([await at.configure(machine, at.fence(1, n)) for n in (2, 3)])
    expect.fenced(await at.configure(machine, at.fence(1, 1)))
    await at.reach(machine, State.CONFIGURED)


async def _lists_add_up(at: Trial) -> None:
    """Lists of what changed, read while everything moves, add up to what is there."""
    machines = await at.idles(LIVES)
    first = await at.list()
    told = {record.id: record for record in first.machines}
    cursor = first.cursor
    done = asyncio.Event()

    async def move() -> None:
        try:
            await at_once([_turn(at, number, each) for number, each in enumerate(machines)])
        finally:
            done.set()

    async def read() -> None:
        nonlocal cursor
        while True:
            last = done.is_set()
            reply = await at.list(since=cursor, most=0)
            told.update((record.id, record) for record in reply.machines)
            cursor = reply.cursor
            if last:
                return
            await asyncio.sleep(at.random.uniform(0.0, at.limits.lag_s))

    await at_once([move(), read()])
    for machine in machines:
        expect.untouched(await at.get(machine), told[machine])


async def _random_day(at: Trial) -> None:
    """Lag, copies and repetition together: every machine ends where its shard wanted it."""
    machines = await at.idles(LIVES)
    line = BadLine(at.line, at.random, lag_s=at.limits.lag_s / 2, copies=3)
    caller = Caller(line)

    async def shard(name: str, machine: str) -> None:
        sequence = 0
        for call in (Call.CONFIGURE, Call.DRAIN, Call.CONFIGURE):
            target = State.IDLE if call is Call.DRAIN else State.CONFIGURED
            for _ in range(TRIES_MAX):
                sequence += 1
                expect_token_only(await caller.mutate(call, machine, at.fence(1, sequence, name)))
                if (await at.settle(machine)).state == target:
                    break
            expect.state(await at.get(machine), target)

    await at_once([shard(f"s{number}", each) for number, each in enumerate(machines)])


async def _restart_in_a_step(at: Trial) -> None:
    """A provider that restarts in the middle of steps loses none of them and gets stuck in none."""
    steps = await _steps_to_cut(at)

    async def begin() -> None:
        for sequence, (call, machine) in enumerate(steps, start=1):
            expect.acked(await at.mutate(call, machine, at.fence(1, sequence)))

    await at.restarted(begin)
    for sequence, (call, machine) in enumerate(steps, start=1):
        expect.fenced(await at.mutate(call, machine, at.fence(1, sequence)))
        record = await at.settle(machine)
        check_parts(record)
        failed = record.state == State.FAILED
        expect.that(bool(record.last_error) or not failed, f"{call} of {machine} failed unsaid")
        seen = state_name(record.state)
        expect.that(failed or record.state == _AFTER[call], f"{call} of {machine}: it is {seen}")


async def _restart_under_calls(at: Trial) -> None:
    """What was acknowledged before a restart is there after it, however short before."""
    machines = await at.idles(3)
    fences: dict[str, Fence] = {}

    async def begin() -> None:
        for sequence, machine in enumerate(machines, start=1):
            fences[machine] = at.fence(2, sequence)
            expect.acked(await at.configure(machine, fences[machine], metadata={"m": machine}))

    await at.restarted(begin)
    for machine in machines:
        record = await at.get(machine)
        expect.that(
            record.state != State.IDLE, f"machine {machine} is Idle: its Configure is forgotten"
        )
        if record.state != State.FAILED:
            expect.bound(record, CLUSTER, {"m": machine})
        expect.fenced(await at.configure(machine, fences[machine]))


_AFTER: Final = {
    Call.CREATE: State.IDLE,
    Call.CONFIGURE: State.CONFIGURED,
    Call.DRAIN: State.IDLE,
    Call.DELETE: State.SPECULATIVE,
}


async def _steps_to_cut(at: Trial) -> list[tuple[Call, str]]:
    steps = [(Call.CONFIGURE, await at.idle()), (Call.DRAIN, await at.configured())]
    if at.subject.borrowed.has_slots:
        steps.append((Call.CREATE, await at.slot()))
        if at.can_delete:
            steps.append((Call.DELETE, await at.created()))
    return steps


async def _turn(at: Trial, number: int, machine: str) -> None:
    for _ in range(1 + number % 2):
        await at.bind(machine, metadata={"n": str(number)})
        await at.free(machine)
    if number % 3 == 0:
        await at.bind(machine, metadata={"n": str(number)})


def expect_token_only(reply: Reply) -> None:
    """Over such a line a call may be refused: as a copy, or because the machine is there."""
    if not reply.ok and reply.status in {expect.INVALID, expect.NOT_FOUND, expect.UNIMPLEMENTED}:
        raise Broken(f"{reply.asked}: refused by {reply.status} ({reply.details})")


_T: Final = Part.TORMENT
_TORMENT: Final = gates(Gate.TORMENT)
_RESTART: Final = gates(Gate.TORMENT, Gate.RESTART)

CHECKS: Final = (
    Check("T01", _T, _lag, _TORMENT),
    Check("T02", _T, _copies, _TORMENT),
    Check("T03", _T, _overtaken, _TORMENT),
    Check("T04", _T, _late_copies, _TORMENT),
    Check("T05", _T, _new_life, _TORMENT),
    Check("T06", _T, _cut_connection, _TORMENT),
    Check("T07", _T, _lost_answer, _TORMENT),
    Check("T08", _T, _lists_add_up, gates(Gate.TORMENT, Gate.REVISION)),
    Check("T09", _T, _random_day, _TORMENT),
    Check("T10", _T, _restart_in_a_step, _RESTART, Together.RESTARTS),
    Check("T11", _T, _restart_under_calls, _RESTART, Together.RESTARTS),
)
