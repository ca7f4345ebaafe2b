"""What any provider must do: the baseline, under the names BigFleet gives these tests.

Two of its tests are about its own fake and cannot be asked over six calls: NodeReadiness and
SelfTest.
"""

import math
from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.check import Check, Gate, Part, gates
from mainstay.conformance.trial import CLUSTER, Trial
from mainstay.model.state import State

GRACE_S: Final = 2


async def _full_lifecycle(at: Trial) -> None:
    """A machine goes from slot to cluster and back, each step with an operation."""
    machine = await (at.slot() if at.subject.borrowed.has_slots else at.idle())
    if at.subject.borrowed.has_slots:
        expect.acked(await at.create(machine))
        await at.reach(machine, State.IDLE)
    await at.bind(machine)
    await at.free(machine)
    reply = await at.delete(machine)
    if reply.status != expect.UNIMPLEMENTED:
        expect.acked(reply)
        await at.reach(machine, State.SPECULATIVE)


async def _create_idempotent(at: Trial) -> None:
    """Create twice is one operation."""
    machine = await at.slot()
    expect.same_operation([await at.create(machine), await at.create(machine)])


async def _configure_idempotent(at: Trial) -> None:
    """Configure twice is one operation."""
    machine = await at.idle()
    expect.same_operation([await at.configure(machine), await at.configure(machine)])


async def _drain_idempotent(at: Trial) -> None:
    """Drain twice is one operation."""
    machine = await at.configured()
    expect.same_operation([await at.drain(machine), await at.drain(machine)])


async def _delete_idempotent(at: Trial) -> None:
    """Delete twice is one operation."""
    machine = await at.created()
    expect.same_operation([await at.delete(machine), await at.delete(machine)])


async def _get_unknown(at: Trial) -> None:
    """Get of an unknown machine is NOT_FOUND."""
    expect.refused(await at.seen(at.ghost), expect.NOT_FOUND)


async def _delete_unknown(at: Trial) -> None:
    """Delete of an unknown machine is NOT_FOUND, or UNIMPLEMENTED."""
    expect.refused(await at.delete(at.ghost), expect.NOT_FOUND, expect.UNIMPLEMENTED)


async def _list_filters_by_state(at: Trial) -> None:
    """List of Idle machines names Idle machines only."""
    await at.idle()
    reply = await at.list(states=[State.IDLE])
    expect.that(bool(reply.machines), "List of Idle machines is empty, and there is one")
    for record in reply.machines:
        expect.state(record, State.IDLE)


async def _list_max_results(at: Trial) -> None:
    """List of at most one names at most one."""
    reply = await at.list(most=1)
    expect.that(len(reply.machines) <= 1, f"{reply.asked}: {len(reply.machines)} machines")


async def _label_shape(at: Trial) -> None:
    """Every record has an instance type and a state."""
    for record in (await at.everything()).values():
        expect.that(bool(record.instance_type), f"machine {record.id} has no instance_type")
        expect.that(
            record.state != State.UNSPECIFIED, f"machine {record.id} has an unspecified state"
        )


async def _cost_field_bounds(at: Trial) -> None:
    """Prices are zero or more, probabilities within 0 and 1."""
    for record in (await at.everything()).values():
        price, chance = record.price_per_hour, record.interruption_probability
        expect.that(price >= 0.0, f"machine {record.id}: price {price} is not zero or more")
        expect.that(0.0 <= chance <= 1.0, f"machine {record.id}: probability {chance}")
        expect.that(not math.isnan(price), f"machine {record.id}: price is no number")


async def _revision_advances(at: Trial) -> None:
    """A revision moves on when a Create settles."""
    machine = await at.slot()
    before = (await at.list()).cursor
    expect.acked(await at.create(machine))
    await at.reach(machine, State.IDLE)
    expect.that((await at.list()).cursor != before, "a Create settled and the revision is the same")


async def _drain_on_speculative(at: Trial) -> None:
    """Drain of a quota slot is refused."""
    expect.refused(await at.drain(await at.slot()))


async def _delete_on_configured(at: Trial) -> None:
    """Delete of a serving machine is refused."""
    expect.refused(await at.delete(await at.configured()))


async def _transitional_states(at: Trial) -> None:
    """Polling sees only legal states on the way."""
    machine = await at.idle()
    expect.acked(await at.configure(machine))
    expect.trace(
        await at.reach(machine, State.CONFIGURED),
        *(State.IDLE, State.CONFIGURING, State.CONFIGURED),
    )
    expect.acked(await at.drain(machine))
    expect.trace(await at.reach(machine, State.IDLE), State.CONFIGURED, State.DRAINING, State.IDLE)


async def _drain_grace(at: Trial) -> None:
    """A drain bounded by its grace ends Idle, or Failed with a reason."""
    machine = await at.configured()
    expect.acked(await at.drain(machine, grace_s=GRACE_S))
    record = expect.state(await at.settle(machine), State.IDLE, State.FAILED)
    expect.that(
        record.state == State.IDLE or bool(record.last_error),
        f"machine {machine} is Failed and does not say why",
    )


async def _first_contact(at: Trial) -> None:
    """The first token of a shard is accepted, its replay refused."""
    machine = await at.idle()
    expect.acked(await at.configure(machine, at.fence(1, 1)))
    expect.fenced(await at.configure(machine, at.fence(1, 1)))


async def _stale_epoch(at: Trial) -> None:
    """An older epoch is refused, whatever its sequence."""
    machine = await at.idle()
    expect.acked(await at.configure(machine, at.fence(2, 1)))
    expect.fenced(await at.configure(machine, at.fence(1, 99)))


async def _stale_sequence(at: Trial) -> None:
    """An equal or lower sequence is refused."""
    machine = await at.idle()
    expect.acked(await at.configure(machine, at.fence(1, 5)))
    expect.fenced(await at.configure(machine, at.fence(1, 5)))
    expect.fenced(await at.configure(machine, at.fence(1, 4)))


async def _per_machine(at: Trial) -> None:
    """A token on one machine does not fence another (BigFleet ADR-0058)."""
    one, two = await at.idles(2)
    expect.acked(await at.configure(one, at.fence(1, 30)))
    expect.acked(await at.configure(two, at.fence(1, 7)))
    expect.fenced(await at.configure(two, at.fence(1, 7)))
    expect.fenced(await at.configure(one, at.fence(1, 30)))
    expect.fenced(await at.configure(two, at.fence(0, 999)))


async def _new_epoch(at: Trial) -> None:
    """A new epoch begins its sequence anew."""
    machine = await at.idle()
    expect.acked(await at.configure(machine, at.fence(1, 1000)))
    expect.acked(await at.configure(machine, at.fence(2, 1)))


async def _reads_unaffected(at: Trial) -> None:
    """Get and List are never fenced."""
    machine = await at.idle()
    expect.acked(await at.configure(machine, at.fence(9, 9)))
    expect.fenced(await at.configure(machine, at.fence(1, 1)))
    await at.get(machine)
    expect.that(bool((await at.list()).machines), "List is empty after a refused call")


async def _metadata_echo(at: Trial) -> None:
    """Metadata comes back on Get and List as it was given."""
    metadata = {"bigfleet.lucy.sh/assigned-priority": "7", "other": "value"}
    machine = await at.configured(metadata=metadata)
    expect.bound(await at.get(machine), CLUSTER, metadata)
    expect.bound(await at.listed(machine), CLUSTER, metadata)


async def _metadata_cleared(at: Trial) -> None:
    """Metadata goes with the binding."""
    machine = await at.configured(metadata={"k": "v"})
    await at.free(machine)
    expect.free(await at.get(machine))


async def _metadata_unknown_keys(at: Trial) -> None:
    """Keys that nobody knows are kept byte for byte."""
    metadata = {"nobody/knows": "\x01\u00e9\u2028", "": "empty key", "empty": ""}
    machine = await at.configured(metadata=metadata)
    expect.bound(await at.get(machine), CLUSTER, metadata)


_B: Final = Part.BASELINE
_SLOT, _DELETE, _REVISION = Gate.SPECULATIVE, Gate.DELETE, Gate.REVISION

CHECKS: Final = (
    Check("FullLifecycle", _B, _full_lifecycle),
    Check("CreateIdempotent", _B, _create_idempotent, gates(_SLOT)),
    Check("ConfigureIdempotent", _B, _configure_idempotent),
    Check("DrainIdempotent", _B, _drain_idempotent),
    Check("DeleteIdempotent", _B, _delete_idempotent, gates(_SLOT, _DELETE)),
    Check("GetUnknownMachine", _B, _get_unknown),
    Check("DeleteUnknownMachine", _B, _delete_unknown),
    Check("ListFiltersByState", _B, _list_filters_by_state),
    Check("ListMaxResults", _B, _list_max_results),
    Check("LabelShape", _B, _label_shape),
    Check("CostFieldBounds", _B, _cost_field_bounds),
    Check("ListRevisionAdvances", _B, _revision_advances, gates(_SLOT, _REVISION)),
    Check("DrainOnSpeculative", _B, _drain_on_speculative, gates(_SLOT)),
    Check("DeleteOnConfigured", _B, _delete_on_configured),
    Check("TransitionalStates", _B, _transitional_states),
    Check("DrainGraceTimeout", _B, _drain_grace),
    Check("FencingUnknownShardAccepted", _B, _first_contact),
    Check("FencingStaleEpochRejected", _B, _stale_epoch),
    Check("FencingStaleSequenceRejected", _B, _stale_sequence),
    Check("FencingPerMachineIsolation", _B, _per_machine),
    Check("FencingNewEpochResetsSequence", _B, _new_epoch),
    Check("FencingReadsUnaffected", _B, _reads_unaffected),
    Check("MetadataEcho", _B, _metadata_echo),
    Check("MetadataClearedOnDrain", _B, _metadata_cleared),
    Check("MetadataUnknownKeys", _B, _metadata_unknown_keys),
)
