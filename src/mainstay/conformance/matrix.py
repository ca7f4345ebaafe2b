"""Which call is refused where, and by which status (B2xx)."""

from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.caller import MUTATING
from mainstay.conformance.check import Check, Gate, Part, gates
from mainstay.conformance.trial import CLUSTER, Trial
from mainstay.model.calls import INT64_MAX, Call
from mainstay.model.state import State

MANY_KEYS: Final = 512
LONG_VALUE: Final = "v" * 1024
LARGE_BLOB: Final = 3 * 2**20


async def _create_on_configured(at: Trial) -> None:
    """Create of a serving machine is refused and changes nothing."""
    machine = await at.configured(metadata={"k": "v"})
    before = await at.get(machine)
    expect.rejected(await at.create(machine))
    expect.untouched(before, await at.get(machine))


async def _configure_on_speculative(at: Trial) -> None:
    """Configure of a quota slot is refused and leaves no binding."""
    machine = await at.slot()
    before = await at.get(machine)
    expect.rejected(await at.configure(machine, metadata={"k": "v"}))
    expect.untouched(before, await at.get(machine))


async def _drain_on_idle(at: Trial) -> None:
    """Drain of an idle machine is refused or does nothing."""
    machine = await at.idle()
    expect.unfenced(await at.drain(machine))
    expect.state(await at.get(machine), State.IDLE)


async def _delete_elsewhere(at: Trial) -> None:
    """Delete of a slot or a serving machine leaves it as it is; the latter is refused."""
    if at.subject.borrowed.has_slots:
        machine = await at.slot()
        expect.unfenced(await at.delete(machine))
        expect.state(await at.get(machine), State.SPECULATIVE)
    machine = await at.configured()
    expect.rejected(await at.delete(machine))
    expect.state(await at.get(machine), State.CONFIGURED)


async def _again_at_the_target(at: Trial) -> None:
    """A call at its target succeeds and moves nothing."""
    machine = await at.created()
    expect.acked(await at.create(machine))
    expect.state(await at.get(machine), State.IDLE)
    await at.bind(machine)
    expect.acked(await at.configure(machine, cluster="other"))
    expect.bound(expect.state(await at.get(machine), State.CONFIGURED), CLUSTER)


async def _first_operation_again(at: Trial) -> None:
    """A call at its target is answered with the first operation."""
    machine = await at.slot()
    created = expect.acked(await at.create(machine))
    await at.reach(machine, State.IDLE)
    expect.same_operation([created, await at.create(machine)])
    configured = await at.bind(machine)
    expect.same_operation([configured, await at.configure(machine)])
    expect.that(created.operation != configured.operation, "Create and Configure share one id")


async def _unknown_machines(at: Trial) -> None:
    """Create, Configure and Drain of an unknown machine are NOT_FOUND and make nothing."""
    for call in (Call.CREATE, Call.CONFIGURE, Call.DRAIN):
        expect.refused(await at.mutate(call, at.ghost), expect.NOT_FOUND)
    expect.refused(await at.seen(at.ghost), expect.NOT_FOUND)


async def _empty_ids(at: Trial) -> None:
    """An empty id is INVALID_ARGUMENT."""
    expect.refused(await at.seen(""), expect.INVALID)
    for call in (Call.CREATE, Call.CONFIGURE, Call.DRAIN):
        expect.refused(await at.mutate(call, ""), expect.INVALID)


async def _large_metadata(at: Trial) -> None:
    """512 keys of 1 KiB are echoed, or refused by INVALID_ARGUMENT."""
    machine = await at.idle()
    metadata = {f"key-{number}": LONG_VALUE for number in range(MANY_KEYS)}
    reply = await at.configure(machine, metadata=metadata)
    if reply.ok:
        await at.reach(machine, State.CONFIGURED)
        expect.bound(await at.get(machine), CLUSTER, metadata)
    else:
        expect.refused(reply, expect.INVALID)
        expect.free(expect.state(await at.get(machine), State.IDLE))


async def _negative_grace(at: Trial) -> None:
    """A negative grace is INVALID_ARGUMENT, or drains cleanly."""
    machine = await at.configured()
    reply = await at.drain(machine, grace_s=-1)
    if reply.ok:
        await at.reach(machine, State.IDLE)
    else:
        expect.refused(reply, expect.INVALID)
        expect.state(await at.get(machine), State.CONFIGURED)


async def _negative_tokens(at: Trial) -> None:
    """A negative token is INVALID_ARGUMENT or a first contact, never fenced."""
    machine = await at.idle()
    for number, (epoch, sequence) in enumerate(((-1, 1), (1, -1), (-5, -5))):
        reply = expect.unfenced(
            await at.configure(machine, at.fence(epoch, sequence, f"n{number}"))
        )
        if not reply.ok:
            expect.refused(reply, expect.INVALID)


async def _largest_tokens(at: Trial) -> None:
    """The largest token works; on the same machine its replay is refused (BigFleet ADR-0058)."""
    machine = await at.idle()
    expect.acked(await at.configure(machine, at.fence(INT64_MAX, INT64_MAX)))
    expect.fenced(await at.configure(machine, at.fence(INT64_MAX, INT64_MAX)))
    expect.fenced(await at.configure(machine, at.fence(INT64_MAX - 1, INT64_MAX)))


async def _large_blob(at: Trial) -> None:
    """A blob of 3 MiB is taken, or refused without a trace."""
    machine = await at.idle()
    reply = await at.configure(machine, blob=b"b" * LARGE_BLOB)
    if reply.ok:
        await at.reach(machine, State.CONFIGURED)
    else:
        expect.refused(reply, expect.INVALID, expect.EXHAUSTED)
        expect.free(expect.state(await at.get(machine), State.IDLE))


async def _new_operation_each_cycle(at: Trial) -> None:
    """Each step of each cycle has an operation of its own."""
    machine = await at.slot()
    operations = [expect.acked(await at.create(machine)).operation]
    await at.reach(machine, State.IDLE)
    last = None
    for _ in range(2):
        operations.append((await at.bind(machine)).operation)
        last = await at.free(machine)
        operations.append(last.operation)
    distinct = len(set(operations))
    expect.that(distinct == len(operations), f"{len(operations)} steps, {distinct} operations")
    again = await at.drain(machine)
    if again.ok and last is not None:
        expect.same_operation([last, again])


async def _unknown_delete_and_get(at: Trial) -> None:
    """Get and Delete of an unknown machine are NOT_FOUND, fenced or not."""
    expect.refused(await at.seen(at.ghost), expect.NOT_FOUND)
    expect.refused(
        await at.delete(at.ghost, at.fence(1, 1)), expect.NOT_FOUND, expect.UNIMPLEMENTED
    )


async def _unreadable_bytes(at: Trial) -> None:
    """Bytes that are no request are refused, not as by a fence."""
    machine = await at.idle()
    for call in (*MUTATING, Call.GET, Call.LIST):
        reply = await at.send(call, b"\xff\xff\xff", f"{call.capitalize()} of three bytes")
        expect.rejected(reply)
    expect.state(await at.get(machine), State.IDLE)


_C: Final = Part.CORE
_SLOT: Final = Gate.SPECULATIVE

CHECKS: Final = (
    Check("B201", _C, _create_on_configured),
    Check("B202", _C, _configure_on_speculative, gates(_SLOT)),
    Check("B203", _C, _drain_on_idle),
    Check("B204", _C, _delete_elsewhere),
    Check("B205", _C, _again_at_the_target, gates(_SLOT)),
    Check("B206", _C, _first_operation_again, gates(_SLOT)),
    Check("B207", _C, _unknown_machines),
    Check("B208", _C, _empty_ids),
    Check("B209", _C, _large_metadata),
    Check("B210", _C, _negative_grace),
    Check("B211", _C, _negative_tokens),
    Check("B212", _C, _largest_tokens),
    Check("B213", _C, _large_blob),
    Check("B214", _C, _new_operation_each_cycle, gates(_SLOT)),
    Check("B215", _C, _unknown_delete_and_get),
    Check("M201", Part.ADDITION, _unreadable_bytes),
)
