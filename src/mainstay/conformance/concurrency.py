"""Many callers at the same moment (B4xx)."""

import itertools
from collections.abc import Awaitable
from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.caller import Caller
from mainstay.conformance.check import Check, Gate, Part, gates
from mainstay.conformance.trial import CLUSTER, Trial, at_once
from mainstay.model.state import State
from mainstay.wire.raw_calls import Reply

ZOMBIES: Final = 12
MACHINES: Final = 8


async def _creates(at: Trial) -> None:
    """Creates of one slot at once are one operation."""
    machine = await at.slot()
    expect.same_operation(await at_once([at.create(machine) for _ in range(at.limits.burst)]))
    await at.reach(machine, State.IDLE)


async def _configures(at: Trial) -> None:
    """Configures of one machine at once are one operation, with the binding asked for."""
    machine = await at.idle()
    calls = [at.configure(machine, metadata={"k": "v"}) for _ in range(at.limits.burst)]
    expect.same_operation(await at_once(calls))
    await at.reach(machine, State.CONFIGURED)
    expect.bound(await at.get(machine), CLUSTER, {"k": "v"})


async def _drains(at: Trial) -> None:
    """Drains of one machine at once are one operation, and nothing of the binding is left."""
    machine = await at.configured(metadata={"k": "v"})
    expect.same_operation(await at_once([at.drain(machine) for _ in range(at.limits.burst)]))
    await at.reach(machine, State.IDLE)
    expect.free(await at.get(machine))


async def _configure_against_drain(at: Trial) -> None:
    """When Configure and Drain race, one result stands and is whole."""
    machine = await at.configured(metadata={"k": "v"})
    calls: list[Awaitable[Reply]] = [
        at.drain(machine) if number % 2 else at.configure(machine, metadata={"k": "v"})
        for number in range(at.limits.burst)
    ]
    for reply in await at_once(calls):
        expect.unfenced(reply)
    record = expect.state(await at.settle(machine), State.IDLE, State.CONFIGURED)
    if record.state == State.IDLE:
        expect.free(record)
    else:
        expect.bound(record, CLUSTER, {"k": "v"})


async def _zombies(at: Trial) -> None:
    """Among the calls of its successor every call of an old shard is refused."""
    machine = await at.idle()
    expect.acked(await at.configure(machine, at.fence(2, 0)))
    pairs = (((1, 1000 + number), (2, number)) for number in range(1, ZOMBIES + 1))
    tokens = [token for pair in pairs for token in pair]
    replies = await at_once([at.configure(machine, at.fence(*token)) for token in tokens])
    for reply in replies[0::2]:
        expect.fenced(reply)
    expect.that(any(reply.ok for reply in replies[1::2]), "no call of the live shard got through")


async def _two_connections(at: Trial) -> None:
    """Calls over two connections are one operation."""
    machine = await at.idle()
    async with at.another() as other:
        callers: tuple[Caller, ...] = (at, other)
        calls = itertools.islice(itertools.cycle(callers), at.limits.burst)
        expect.same_operation(await at_once([caller.configure(machine) for caller in calls]))


async def _many_machines(at: Trial) -> None:
    """Machines created side by side do not get in each other's way."""
    machines = await at.slots(MACHINES)
    replies = await at_once([at.create(machine) for machine in machines])
    operations = {expect.acked(reply).operation for reply in replies}
    expect.that(len(operations) == MACHINES, f"{MACHINES} machines, {len(operations)} operations")
    for machine, reply in zip(machines, replies, strict=True):
        named = reply.machine.id if reply.machine else ""
        expect.that(named == machine, f"the ack for {machine} is about {named}")
    for machine in machines:
        await at.reach(machine, State.IDLE)
    hosts = {(await at.get(machine)).host for machine in machines}
    expect.that(len(hosts) == MACHINES, f"{MACHINES} machines, {len(hosts)} hosts")


async def _snapshots(at: Trial) -> None:
    """Acks in a burst show the target or the way to it, with the binding."""
    machine = await at.idle()
    replies = await at_once([at.configure(machine) for _ in range(at.limits.burst)])
    for reply in map(expect.acked, replies):
        if reply.machine is not None:
            expect.state(reply.machine, State.CONFIGURING, State.CONFIGURED)
            expect.bound(reply.machine, CLUSTER)


async def _deletes(at: Trial) -> None:
    """Deletes of one machine at once are one operation."""
    machine = await at.created()
    expect.same_operation(await at_once([at.delete(machine) for _ in range(at.limits.burst)]))
    await at.reach(machine, State.SPECULATIVE)


_C: Final = Part.CORE
_SLOT, _DELETE = Gate.SPECULATIVE, Gate.DELETE

CHECKS: Final = (
    Check("B401", _C, _creates, gates(_SLOT)),
    Check("B402", _C, _configures),
    Check("B403", _C, _drains),
    Check("B404", _C, _configure_against_drain),
    Check("B405", _C, _zombies),
    Check("B406", _C, _two_connections),
    Check("B407", _C, _many_machines, gates(_SLOT)),
    Check("B408", _C, _snapshots),
    Check("B409", _C, _deletes, gates(_SLOT, _DELETE)),
)
