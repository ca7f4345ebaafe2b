"""The life of a machine, step by step (B1xx)."""

from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.check import Check, Gate, Part, gates
from mainstay.conformance.trial import CLUSTER, Trial
from mainstay.model.state import State

ROUNDS: Final = 4


async def _round_trips(at: Trial) -> None:
    """After each of four round trips nothing of the binding is left."""
    machine = await at.idle()
    for number in range(ROUNDS):
        await at.bind(machine, metadata={"round": str(number)})
        await at.free(machine)
        record = await at.get(machine)
        expect.free(record)
        expect.that(not record.last_error, f"machine {machine} says {record.last_error!r}")


async def _configuring_only(at: Trial) -> None:
    """On the way to Configured a machine is Configuring and nothing else."""
    machine = await at.idle()
    reply = expect.acked(await at.configure(machine))
    seen = await at.reach(machine, State.CONFIGURED)
    accepted = [] if reply.machine is None else [reply.machine]
    expect.trace([*accepted, *seen], State.CONFIGURING, State.CONFIGURED)


async def _draining_only(at: Trial) -> None:
    """On the way from Configured to Idle a machine is Draining and nothing else."""
    machine = await at.configured()
    reply = expect.acked(await at.drain(machine))
    seen = await at.reach(machine, State.IDLE)
    accepted = [] if reply.machine is None else [reply.machine]
    expect.trace([*accepted, *seen], State.DRAINING, State.IDLE)


async def _legal_trace(at: Trial) -> None:
    """Create, configure and drain follow the legal edges and skip no stable state."""
    machine = await at.slot()
    expect.acked(await at.create(machine))
    created = await at.reach(machine, State.IDLE)
    expect.trace(created, State.SPECULATIVE, State.CREATING, State.IDLE)
    expect.acked(await at.configure(machine))
    bound = await at.reach(machine, State.CONFIGURED)
    expect.trace(bound, State.IDLE, State.CONFIGURING, State.CONFIGURED)
    expect.acked(await at.drain(machine))
    freed = await at.reach(machine, State.IDLE)
    expect.trace(freed, State.CONFIGURED, State.DRAINING, State.IDLE)


async def _cluster_follows_binding(at: Trial) -> None:
    """The cluster is set from Configuring on and empty after a drain."""
    machine = await at.idle()
    expect.acked(await at.configure(machine))
    for record in await at.reach(machine, State.CONFIGURED):
        if record.state in {State.CONFIGURING, State.CONFIGURED}:
            expect.bound(record, CLUSTER)
    await at.free(machine)
    expect.free(await at.get(machine))


async def _host_follows_state(at: Trial) -> None:
    """A quota slot has no host, an idle or serving machine has one."""
    machine = await at.slot()
    record = expect.state(await at.get(machine), State.SPECULATIVE)
    expect.that(record.host is None, f"quota slot {machine} has a host: {record.host}")
    expect.acked(await at.create(machine))
    await at.reach(machine, State.IDLE)
    record = expect.state(await at.get(machine), State.IDLE)
    expect.that(record.host is not None, f"idle machine {machine} has no host")
    await at.bind(machine)
    record = expect.state(await at.get(machine), State.CONFIGURED)
    expect.that(record.host is not None, f"serving machine {machine} has no host")


async def _no_drift(at: Trial) -> None:
    """A machine at rest stays at rest."""
    machine = await at.configured()
    await at.still(machine)
    await at.free(machine)
    await at.still(machine)


async def _deleting_only(at: Trial) -> None:
    """On the way to Speculative a machine is Deleting and nothing else."""
    machine = await at.created()
    expect.acked(await at.delete(machine))
    seen = await at.reach(machine, State.SPECULATIVE)
    expect.trace(seen, State.DELETING, State.SPECULATIVE)


_C: Final = Part.CORE
_SLOT, _DELETE = Gate.SPECULATIVE, Gate.DELETE

CHECKS: Final = (
    Check("B101", _C, _round_trips),
    Check("B103", _C, _configuring_only),
    Check("B104", _C, _draining_only),
    Check("B105", _C, _legal_trace, gates(_SLOT)),
    Check("B106", _C, _cluster_follows_binding),
    Check("B107", _C, _host_follows_state, gates(_SLOT)),
    Check("B108", _C, _no_drift),
    Check("B109", _C, _deleting_only, gates(_SLOT, _DELETE)),
)
