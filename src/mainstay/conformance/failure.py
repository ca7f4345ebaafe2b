"""Steps that go wrong (B7xx), at a provider that can be told to let them.

Such a provider has slots labelled `conformance.fault/create=error` and reads what to do from the
name of the cluster. The machines used here are Failed afterwards.
"""

from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.borrowed import watched
from mainstay.conformance.check import Check, Gate, Part, gates
from mainstay.conformance.trial import AT_REST, Trial
from mainstay.model.state import State
from mainstay.wire.raw_calls import Record


async def _configure_error(at: Trial) -> None:
    """A Configure that fails ends Failed, with a reason."""
    await _failing(at, "fault-error")


async def _create_error(at: Trial) -> None:
    """A Create that fails ends Failed, with a reason."""
    machine = at.faulty()
    expect.acked(await at.create(machine))
    _is_failed(await at.settle(machine))


async def _timeout(at: Trial) -> None:
    """A step whose time is up ends Failed, with a reason, and does not go back in silence."""
    machine = await _failing(at, "fault-timeout")
    await at.still(machine)


async def _late_success(at: Trial) -> None:
    """A success that comes after the time is up is thrown away."""
    machine = await _failing(at, "fault-slow-ok")
    await at.still(machine, at.limits.late_s)


async def _terminal(at: Trial) -> None:
    """Failed is the end: further calls are refused, and the reason stays."""
    machine = await _failing(at, "fault-error")
    before = await at.get(machine)
    for reply in (await at.configure(machine), await at.drain(machine), await at.create(machine)):
        expect.rejected(reply)
    expect.untouched(before, await at.get(machine))


async def _drain_error(at: Trial) -> None:
    """A Drain that fails is not stuck: it ends Idle, or Failed with a reason."""
    machine = await at.configured(cluster="fault-drain-error")
    expect.acked(await at.drain(machine, grace_s=0))
    record = expect.state(await at.settle(machine), State.IDLE, State.FAILED)
    if record.state == State.FAILED:
        _is_failed(record)


async def _readable(at: Trial) -> None:
    """A Failed machine can be read by Get and List, with the same reason each time."""
    machine = await _failing(at, "fault-error")
    first = await at.get(machine)
    for _ in range(3):
        expect.untouched(first, await at.get(machine))
        expect.untouched(first, await at.listed(machine, State.FAILED))


async def _never_ready(at: Trial) -> None:
    """A machine whose node never joins is never Configured."""
    machine = await at.idle()
    expect.acked(await at.configure(machine, cluster="fault-readiness-block"))
    seen = await watched(at, machine, at.limits, until=AT_REST)
    expect.trace(seen, State.CONFIGURING, State.FAILED)
    _is_failed(seen[-1])


async def _failing(at: Trial, cluster: str) -> str:
    machine = await at.idle()
    expect.acked(await at.configure(machine, cluster=cluster))
    _is_failed(await at.settle(machine))
    return machine


def _is_failed(record: Record) -> None:
    expect.state(record, State.FAILED)
    expect.that(bool(record.last_error), f"machine {record.id} is Failed and does not say why")


_F: Final = Part.FAULT
_FAULTS: Final = gates(Gate.FAULTS)

CHECKS: Final = (
    Check("B701", _F, _configure_error, _FAULTS),
    Check("B702", _F, _create_error, _FAULTS),
    Check("B703", _F, _timeout, _FAULTS),
    Check("B704", _F, _late_success, _FAULTS),
    Check("B705", _F, _terminal, _FAULTS),
    Check("B706", _F, _drain_error, _FAULTS),
    Check("B707", _F, _readable, _FAULTS),
    Check("B708", _F, _never_ready, _FAULTS),
)
