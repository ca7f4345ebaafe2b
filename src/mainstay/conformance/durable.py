"""What a provider still knows after it was killed (B10xx).

One restart serves all of these checks.
"""

from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.check import Check, Gate, Part, Together, gates
from mainstay.conformance.listing import ids
from mainstay.conformance.trial import CLUSTER, Trial
from mainstay.model.state import State


async def _marks(at: Trial) -> None:
    """A token that was stale before a restart is stale after it."""
    machine = await at.configured()
    expect.acked(await at.configure(machine, at.fence(3, 7)))
    await at.restarted()
    expect.fenced(await at.drain(machine, at.fence(3, 7)))
    expect.fenced(await at.drain(machine, at.fence(2, 99)))
    expect.acked(await at.configure(machine, at.fence(3, 8)))


async def _operations(at: Trial) -> None:
    """A call repeated after a restart is the operation it was before."""
    machine = await at.idle()
    first = await at.bind(machine)
    await at.restarted()
    expect.same_operation([first, await at.configure(machine)])


async def _bindings(at: Trial) -> None:
    """Binding and metadata survive a restart."""
    machine = await at.configured(metadata={"k": "v", "": "\x00"})
    await at.restarted()
    expect.bound(await at.get(machine), CLUSTER, {"k": "v", "": "\x00"})
    expect.bound(await at.listed(machine), CLUSTER, {"k": "v", "": "\x00"})


async def _inventory(at: Trial) -> None:
    """Every machine is there after a restart, and those at rest as they were."""
    machine = await at.configured()
    before = set((await at.everything()).keys())
    was = await at.get(machine)
    await at.restarted()
    after = await at.everything()
    expect.that(before == set(after), f"{len(before ^ set(after))} machines came or went")
    expect.untouched(was, after[machine])


async def _cursors(at: Trial) -> None:
    """A cursor can be used after a restart, and no operation id is given out again."""
    machine = await at.idle()
    operations = {(await at.bind(machine)).operation}
    cursor = (await at.list()).cursor
    await at.restarted()
    operations.add((await at.free(machine)).operation)
    operations.add((await at.bind(machine)).operation)
    expect.that(len(operations) == 3, f"an operation id came again: {sorted(operations)}")
    expect.that(machine in ids(await at.list(since=cursor)), "the cursor missed a change")


async def _cut(at: Trial) -> None:
    """A step cut by a restart ends Failed with a reason, or cleanly."""
    machine = await at.idle()

    async def begin() -> None:
        expect.acked(await at.configure(machine))

    await at.restarted(begin)
    record = expect.state(await at.settle(machine), State.IDLE, State.CONFIGURED, State.FAILED)
    if record.state == State.FAILED:
        expect.that(bool(record.last_error), f"machine {machine} does not say why it is Failed")
    elif record.state == State.CONFIGURED:
        expect.bound(record, CLUSTER)
    else:
        expect.free(record)


async def _newcomers(at: Trial) -> None:
    """The low token of a shard that nobody has seen is accepted after a restart."""
    machine = await at.configured()
    expect.acked(await at.configure(machine, at.fence(9, 9)))
    await at.restarted()
    expect.acked(await at.configure(machine, at.fence(1, 1, "new")))


_D, _TOGETHER = Part.DURABLE, Together.RESTARTS
_RESTART: Final = gates(Gate.RESTART)

CHECKS: Final = (
    Check("B1001", _D, _marks, _RESTART, _TOGETHER),
    Check("B1002", _D, _operations, _RESTART, _TOGETHER),
    Check("B1003", _D, _bindings, _RESTART, _TOGETHER),
    Check("B1004", _D, _inventory, _RESTART, _TOGETHER),
    Check("B1005", _D, _cursors, _RESTART, _TOGETHER),
    Check("B1006", _D, _cut, _RESTART, _TOGETHER),
    Check("B1007", _D, _newcomers, _RESTART, _TOGETHER),
)
