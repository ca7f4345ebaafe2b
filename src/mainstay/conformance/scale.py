"""A fleet of thousands (B11xx); times are wall-clock times, so the machine should be quiet."""

import math
from collections.abc import Awaitable, Sequence
from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.check import Check, Gate, Part, Together, gates
from mainstay.conformance.listing import ids
from mainstay.conformance.trial import Trial, at_once
from mainstay.model.profile import CapacityType
from mainstay.model.state import State, state_of

CHANGED: Final = 20
CHURNED: Final = 8
CREATED: Final = 16


async def _all_in_shape(at: Trial) -> None:
    """The full list of a large fleet is whole, and every record in shape."""
    everything = await at.everything()
    missing = len(set(at.subject.borrowed.found) - everything.keys())
    expect.that(not missing, f"the full list leaves out {missing} machines")
    for record in everything.values():
        shaped = bool(record.instance_type and record.zone) and record.capacity_type in {
            *CapacityType
        } - {CapacityType.UNSPECIFIED}
        known = state_of(record.state) not in {None, State.UNSPECIFIED}
        expect.that(shaped and known, f"machine {record.id} is not in shape")


async def _exact_delta(at: Trial) -> None:
    """After twenty changes the list since then names exactly those twenty."""
    machines = await at.idles(CHANGED)
    cursor = (await at.list()).cursor
    await at_once([at.bind(machine) for machine in machines])
    named = ids(await at.list(since=cursor))
    expect.that(named == set(machines), f"{CHANGED} changed, {len(named)} named")


async def _pages(at: Trial) -> None:
    """Large pages are the whole list, each machine once, or the head told at once."""
    wanted = set((await at.everything()).keys())
    pages = await at.pages(at.limits.page)
    named = [record.id for page in pages for record in page.machines]
    expect.that(len(named) == len(set(named)), f"{len(named) - len(set(named))} named twice")
    declared = at.subject.capabilities is not None and at.subject.capabilities.paging
    if declared:
        expect.that(set(named) == wanted, f"{len(wanted - set(named))} left out by pages")


async def _churn(at: Trial) -> None:
    """Machines that are bound and freed for seconds on end keep nothing of it."""
    machines = await at.idles(CHURNED)
    until_s = at.subject.clock.elapsed_s() + at.limits.soak_s

    async def churn(machine: str) -> None:
        turn = 0
        while turn < 2 or at.subject.clock.elapsed_s() < until_s:
            turn += 1
            await at.bind(machine, metadata={"turn": str(turn)})
            await at.free(machine)
            expect.free(await at.get(machine))

    await at_once([churn(machine) for machine in machines])


async def _fleet_size(at: Trial) -> None:
    """What is created and deleted adds up, and the fleet stays as large as it was."""
    before = await at.everything()
    machines = await at.slots(CHURNED)
    for machine in machines:
        expect.acked(await at.create(machine))
    for machine in machines:
        await at.reach(machine, State.IDLE)
    for machine in machines[::2]:
        expect.acked(await at.delete(machine))
    for machine in machines[::2]:
        await at.reach(machine, State.SPECULATIVE)
    after = await at.everything()
    expect.that(before.keys() == after.keys(), f"{len(before)} machines before, {len(after)} after")
    resident = sum(after[machine].state == State.IDLE for machine in machines)
    expect.that(resident == len(machines) // 2, f"{resident} of {len(machines)} are resident")


async def _latencies(at: Trial) -> None:
    """Get, Create and List are answered in time, but for one in a hundred."""
    machines = await at.slots(CREATED)
    known = machines[0]
    gets = [await _timed(at, at.get(known)) for _ in range(at.limits.samples)]
    creates = [await _timed(at, at.create(machine)) for machine in machines]
    lists = [await _timed(at, at.list()) for _ in range(max(1, at.limits.samples // 8))]
    for name, times, most_s in (
        ("Get", gets, at.limits.get_p99_s),
        ("Create", creates, at.limits.get_p99_s),
        ("List", lists, at.limits.list_p99_s),
    ):
        p99_s = percentile(times, 0.99)
        expect.that(p99_s <= most_s, f"{name}: p99 is {p99_s:.3f} s, at most {most_s:g} s")


async def _one_list(at: Trial) -> None:
    """One full list takes no longer than three seconds."""
    took_s = await _timed(at, at.list())
    expect.that(took_s <= at.limits.list_s, f"a full list takes {took_s:.2f} s")


async def _parallel_creates(at: Trial) -> None:
    """Sixteen machines created at once are sixteen operations, all Idle in time."""
    machines = await at.slots(CREATED)
    replies = await at_once([at.create(machine) for machine in machines])
    operations = {expect.acked(reply).operation for reply in replies}
    expect.that(len(operations) == CREATED, f"{CREATED} machines, {len(operations)} operations")
    await at_once([at.reach(machine, State.IDLE) for machine in machines])


async def _no_drift(at: Trial) -> None:
    """Idle machines of a large fleet stay as they are."""
    machines = await at.idles(CHURNED)
    await at_once([at.still(machine) for machine in machines])


def percentile(times: Sequence[float], share: float) -> float:
    """The smallest time that so large a share does not exceed."""
    return sorted(times)[max(0, math.ceil(len(times) * share) - 1)]


async def _timed(at: Trial, call: Awaitable[object]) -> float:
    began_s = at.subject.clock.elapsed_s()
    await call
    return at.subject.clock.elapsed_s() - began_s


_S, _ALONE = Part.SCALE, Together.NOTHING
_SCALE, _SLOT = Gate.SCALE, Gate.SPECULATIVE

CHECKS: Final = (
    Check("B1101", _S, _all_in_shape, gates(_SCALE), _ALONE),
    Check("B1102", _S, _exact_delta, gates(_SCALE, Gate.REVISION), _ALONE),
    Check("B1103", _S, _pages, gates(_SCALE), _ALONE),
    Check("B1104", _S, _churn, gates(_SCALE), _ALONE),
    Check("B1105", _S, _fleet_size, gates(_SCALE, _SLOT, Gate.DELETE), _ALONE),
    Check("B1106", _S, _latencies, gates(_SCALE, _SLOT), _ALONE),
    Check("B1107", _S, _one_list, gates(_SCALE), _ALONE),
    Check("B1108", _S, _parallel_creates, gates(_SCALE, _SLOT), _ALONE),
    Check("B1109", _S, _no_drift, gates(_SCALE), _ALONE),
)
