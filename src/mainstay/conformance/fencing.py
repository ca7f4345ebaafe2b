"""Tokens: a replaced shard is refused (B3xx).

BigFleet ADR-0058 keeps marks per shard and machine, and its stored suite still has three checks for
marks per shard. Here those ask the same machine twice. A provider may also refuse an epoch that is
older than one it saw of that shard on any machine: then no old shard gets through anywhere.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.caller import MUTATING
from mainstay.conformance.check import Check, Gate, Part, gates
from mainstay.conformance.trial import Trial
from mainstay.model.calls import Call
from mainstay.model.state import State

Token = tuple[int, int]

STEPS: Final[Sequence[tuple[Token, bool]]] = (
    ((1, 1), True), ((1, 1), False), ((1, 2), True), ((1, 1), False),
    ((1, 5), True), ((1, 4), False), ((2, 1), True), ((1, 9), False),
    ((2, 6), True), ((2, 6), False), ((3, 0), True), ((3, 0), False),
    ((2, 99), False), ((10, 7), True), ((10, 6), False), ((10, 8), True),
)  # fmt: skip


async def _before_lookup(at: Trial) -> None:
    """A stale token is refused before the machine is looked up, on all four calls."""
    # The mark is set on the unknown machine itself: a passing token counts there, too.
    expect.refused(await at.create(at.ghost, at.fence(5, 5)), expect.NOT_FOUND)
    calls = [call for call in MUTATING if call is not Call.DELETE or at.can_delete]
    for call in calls:
        expect.fenced(await at.mutate(call, at.ghost, at.fence(1, 1)))
    for sequence, call in enumerate(calls, start=6):
        expect.refused(await at.mutate(call, at.ghost, at.fence(5, sequence)), expect.NOT_FOUND)


async def _isolated(at: Trial) -> None:
    """Marks are kept apart by shard and by machine."""
    one, two = await at.idles(2)
    expect.acked(await at.configure(one, at.fence(5, 30)))
    expect.acked(await at.configure(one, at.fence(1, 1, "b")))
    expect.acked(await at.configure(two, at.fence(5, 7)))
    expect.fenced(await at.configure(one, at.fence(5, 30)))
    expect.fenced(await at.configure(two, at.fence(5, 7)))
    expect.fenced(await at.configure(two, at.fence(4, 99)))
    expect.fenced(await at.configure(one, at.fence(1, 1, "b")))


async def _sixteen_steps(at: Trial) -> None:
    """Sixteen tokens in a row are judged by epoch, then sequence."""
    await _follow(at, STEPS)


async def _reads_between(at: Trial) -> None:
    """Get and List work between refused calls, and the machine does not move."""
    machine = await at.idle()
    expect.acked(await at.configure(machine, at.fence(3, 3)))
    await at.reach(machine, State.CONFIGURED)
    before = await at.get(machine)
    for sequence in (1, 2, 3):
        expect.fenced(await at.drain(machine, at.fence(3, sequence)))
        expect.untouched(before, await at.get(machine))
        await at.listed(machine)
        await at.listed(machine, State.CONFIGURED)


async def _configure_replayed(at: Trial) -> None:
    """A replayed Configure is refused; with a new token it is the same operation."""
    machine = await at.idle()
    first = expect.acked(await at.configure(machine, at.fence(1, 1)))
    expect.fenced(await at.configure(machine, at.fence(1, 1)))
    expect.same_operation([first, await at.configure(machine, at.fence(1, 2))])


async def _drain_replayed(at: Trial) -> None:
    """A replayed Drain is refused; with a new token it is the same operation."""
    machine = await at.configured()
    first = expect.acked(await at.drain(machine, at.fence(1, 1)))
    expect.fenced(await at.drain(machine, at.fence(1, 1)))
    expect.same_operation([first, await at.drain(machine, at.fence(1, 2))])


async def _zero_tokens(at: Trial) -> None:
    """The all-zero token always passes."""
    machine = await at.idle()
    expect.acked(await at.configure(machine, at.fence(7, 7)))
    expect.acked(await at.configure(machine))
    expect.acked(await at.configure(machine))
    await at.reach(machine, State.CONFIGURED)
    expect.acked(await at.drain(machine))


async def _rising(at: Trial) -> None:
    """Rising tokens are accepted over Create, Configure and Drain."""
    machine = await at.slot()
    expect.acked(await at.create(machine, at.fence(1, 1)))
    await at.reach(machine, State.IDLE)
    expect.acked(await at.configure(machine, at.fence(1, 2)))
    await at.reach(machine, State.CONFIGURED)
    expect.acked(await at.drain(machine, at.fence(1, 3)))
    await at.reach(machine, State.IDLE)


async def _after_a_restart(at: Trial) -> None:
    """After a new epoch the old one is refused."""
    machine = await at.idle()
    expect.acked(await at.configure(machine, at.fence(1, 50)))
    await at.reach(machine, State.CONFIGURED)
    expect.acked(await at.drain(machine, at.fence(2, 1)))
    expect.fenced(await at.drain(machine, at.fence(1, 51)))
    expect.acked(await at.drain(machine, at.fence(2, 2)))


async def _advances_when_refused(at: Trial) -> None:
    """A token that passes counts, also when its call is then refused."""
    machine = await at.configured()
    expect.rejected(await at.create(machine, at.fence(1, 5)))
    expect.fenced(await at.drain(machine, at.fence(1, 5)))
    expect.fenced(await at.drain(machine, at.fence(1, 4)))
    expect.acked(await at.drain(machine, at.fence(1, 6)))


async def _random_stream(at: Trial) -> None:
    """A random stream of tokens is accepted exactly where it is newer."""
    await _follow(at, stream(at.random, at.limits.tokens // 4))


async def _long_random_stream(at: Trial) -> None:
    """A long random stream of tokens is accepted exactly where it is newer."""
    await _follow(at, stream(at.random, at.limits.tokens))


async def _random_shards_and_machines(at: Trial) -> None:
    """Of random tokens of three shards on four machines only stale ones are fenced."""
    machines, shards = await at.idles(4), ("a", "b", "c")
    marks: dict[tuple[str, str], Token] = {}
    floors: dict[str, int] = {}
    for _ in range(at.limits.tokens * 5 // 6):
        machine, shard = at.random.choice(machines), at.random.choice(shards)
        token = (at.random.randrange(1, 5), at.random.randrange(12))
        reply = await at.configure(machine, at.fence(*token, shard))
        newer = token > marks.get((shard, machine), (-1, -1))
        if newer and token[0] >= floors.get(shard, 0):
            expect.acked(reply)
        elif not newer:
            expect.fenced(reply)
        if reply.ok:
            marks[shard, machine] = token
            floors[shard] = max(token[0], floors.get(shard, 0))
        else:
            expect.fenced(reply)


def stream(random: Random, length: int) -> Sequence[tuple[Token, bool]]:
    """Tokens of one shard for one machine, and whether each must be accepted."""
    mark: Token = (-1, -1)
    steps = []
    for _ in range(length):
        token = (mark[0] + random.choice((-1, 0, 0, 0, 1)), random.randrange(12))
        token = (max(token[0], 0 if token[1] else 1), token[1])
        steps.append((token, token > mark))
        mark = max(mark, token)
    return steps


async def _follow(at: Trial, steps: Sequence[tuple[Token, bool]]) -> None:
    """Configure again and again: at its target it does nothing, so only the token decides."""
    machine = await at.configured()
    before = await at.get(machine)
    for token, accepted in steps:
        reply = await at.configure(machine, at.fence(*token))
        if accepted:
            expect.acked(reply)
        else:
            expect.fenced(reply)
    expect.untouched(before, await at.get(machine))


_C: Final = Part.CORE
_SLOT: Final = Gate.SPECULATIVE

CHECKS: Final = (
    Check("B301", _C, _before_lookup),
    Check("B302", _C, _isolated),
    Check("B303", _C, _sixteen_steps),
    Check("B305", _C, _reads_between),
    Check("B306", _C, _configure_replayed),
    Check("B307", _C, _drain_replayed),
    Check("B308", _C, _zero_tokens),
    Check("B309", _C, _rising, gates(_SLOT)),
    Check("B310", _C, _after_a_restart),
    Check("B311", _C, _advances_when_refused),
    Check("B312", _C, _random_stream),
    Check("B1201", _C, _long_random_stream),
    Check("B1204", _C, _random_shards_and_machines),
)
