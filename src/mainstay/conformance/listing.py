"""List: filters, limits, revisions (B9xx), and what our additions promise (M9xx)."""

import asyncio
from collections.abc import Sequence
from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.check import Check, Gate, Part, Together, gates
from mainstay.conformance.trial import Trial
from mainstay.model.calls import Call, ListRequest
from mainstay.model.state import State
from mainstay.wire.raw_calls import Record, Reply, raw_filter

JUNK: Final = (b"", b"junk", b"\x00\xff\x80", b"\xaa" * 4096)
QUIET_LOOKS: Final = 15
PAGED: Final = 5
UNKNOWN_STATE: Final = 99


async def _filters(at: Trial) -> None:
    """A filter names exactly the machines in its states, each once."""
    await at.configured()
    everything = (await at.list()).machines
    for states in ([State.IDLE], [State.CONFIGURED], [State.SPECULATIVE, State.CONFIGURED]):
        wanted = sorted(record.id for record in everything if record.state in states)
        found = sorted(record.id for record in (await at.list(states=states)).machines)
        expect.that(found == wanted, f"List of {states}: {len(found)} ids, expected {len(wanted)}")


async def _limits(at: Trial) -> None:
    """At most so many are named, at least one, and 0 means all."""
    for most in (1, 2, 3):
        named = len((await at.list(most=most)).machines)
        expect.that(1 <= named <= most, f"List of at most {most} names {named}")
    missing = set(at.subject.borrowed.found) - ids(await at.list(most=0))
    expect.that(not missing, f"List of all leaves out {len(missing)} machines")


async def _moves_on(at: Trial) -> None:
    """A change moves the revision, and the list since then names the machine."""
    machine = await at.idle()
    before = (await at.list()).cursor
    await at.bind(machine)
    since = await at.list(since=before)
    expect.that(since.cursor != before, "a machine changed and the revision is the same")
    expect.that(machine in ids(since), f"the list since then does not name {machine}")


async def _nothing_since_now(at: Trial) -> None:
    """Since the current revision nothing has changed."""
    since = await at.list(since=(await at.list()).cursor)
    expect.that(not since.machines, f"nothing changed, and {len(since.machines)} are named")


async def _older_cursors(at: Trial) -> None:
    """Every older revision still names all that changed after it."""
    machines = await at.idles(4)
    cursors = [(await at.list()).cursor]
    for machine in machines:
        await at.bind(machine)
        cursors.append((await at.list()).cursor)
    expect.that(len(set(cursors)) == len(cursors), f"revisions repeat: {len(set(cursors))} of 5")
    for number, cursor in enumerate(cursors):
        missing = set(machines[number:]) - ids(await at.list(since=cursor))
        expect.that(not missing, f"since revision {number}: {len(missing)} changes are missing")


async def _junk(at: Trial) -> None:
    """A cursor that nobody knows means a full list, never an error."""
    wanted = set(at.subject.borrowed.found)
    for cursor in JUNK:
        missing = wanted - ids(await at.list(since=cursor))
        expect.that(not missing, f"since {cursor[:8]!r}: {len(missing)} machines are missing")


async def _pages_of_changes(at: Trial) -> None:
    """Changes read two at a time: none twice, none left out, or the head told at once."""
    machines = await at.idles(PAGED)
    before = (await at.list()).cursor
    for machine in machines:
        await at.bind(machine)
    head = (await at.list()).cursor
    named = await _paged(at, before, most=2, head=head)
    if named is not None:
        wrong = sorted(named) != sorted(machines)
        expect.that(not wrong, f"{len(named)} named in pages, {PAGED} changed: {named[:8]}")


async def _quiet(at: Trial) -> None:
    """While nothing happens nothing is told."""
    cursor = (await at.list()).cursor
    for _ in range(QUIET_LOOKS):
        await asyncio.sleep(at.limits.quiet_s / QUIET_LOOKS)
        since = await at.list(since=cursor)
        expect.that(not since.machines, f"{len(since.machines)} told while nothing happened")


async def _tampered(at: Trial) -> None:
    """The exact cursor names nothing; one with something added means a full list."""
    cursor = (await at.list()).cursor
    wanted = set(at.subject.borrowed.found)
    expect.that(not (await at.list(since=cursor)).machines, "the exact cursor names machines")
    for changed in (cursor + b"!", b"~" + cursor, cursor + b"\x00\xff"):
        missing = wanted - ids(await at.list(since=changed))
        expect.that(not missing, f"a tampered cursor leaves out {len(missing)} machines")
    flipped = bytes([cursor[0] ^ 1]) + cursor[1:]
    strangers = ids(await at.list(since=flipped)) - wanted
    expect.that(not strangers, f"machines from nowhere: {sorted(strangers)[:3]}")


async def _whole_in_pages(at: Trial) -> None:
    """Pages together are the whole list, each machine once."""
    wanted = sorted((await at.everything()).keys())
    most = max(2, len(wanted) // 7)
    pages = await at.pages(most)
    for page in pages:
        expect.that(len(page.machines) <= most, f"{page.asked}: {len(page.machines)} machines")
    named = [record.id for page in pages for record in page.machines]
    expect.that(sorted(named) == wanted, f"pages name {len(named)}, the list {len(wanted)}")


async def _says_incremental(at: Trial) -> None:
    """An answer says whether it is all there is or only what changed."""
    full = await at.list()
    expect.that(not full.incremental, "a full list says that it is incremental")
    since = await at.list(since=full.cursor)
    expect.that(since.incremental, "a list of what changed says that it is full")
    junk = await at.list(since=b"junk")
    expect.that(not junk.incremental, "a list since junk says that it is incremental")


async def _unknown_state(at: Trial) -> None:
    """A filter with a state that nobody knows is refused or matches nothing, never widened."""
    data = raw_filter(ListRequest(), [UNKNOWN_STATE])
    reply = await at.send(Call.LIST, data, f"List of state {UNKNOWN_STATE}")
    if reply.ok:
        expect.that(not reply.machines, f"{reply.asked} names {len(reply.machines)} machines")
    else:
        expect.refused(reply, expect.INVALID)


async def _list_agrees_with_get(at: Trial) -> None:
    """What List tells of a machine is what Get tells."""
    machine = await at.configured(metadata={"k": "v"})
    one, two = await at.get(machine), await at.listed(machine)
    expect.that(one == two, f"List and Get disagree about {machine}: {_unlike(one, two)}")


async def _paged(at: Trial, since: bytes, *, most: int, head: bytes) -> list[str] | None:
    """All that is named, page after page; None for a provider that tells the head at once."""
    named: list[str] = []
    for _ in range(PAGED * 4):
        page = await at.list(since=since, most=most)
        expect.that(len(page.machines) <= most, f"{page.asked}: {len(page.machines)} machines")
        named += [record.id for record in page.machines]
        if page.cursor == head:
            return named if not page.machines or len(named) > most else None
        if not page.machines:
            return named
        since = page.cursor
    return named


def ids(reply: Reply) -> set[str]:
    """Who is named."""
    return {record.id for record in reply.machines}


def _unlike(one: Record, two: Record) -> Sequence[str]:
    return [name for name in Record.__slots__ if getattr(one, name) != getattr(two, name)]


_C, _M = Part.CORE, Part.ADDITION
_REVISION: Final = gates(Gate.REVISION)

CHECKS: Final = (
    Check("B901", _C, _filters, together=Together.NOTHING),
    Check("B902", _C, _limits),
    Check("B903", _C, _moves_on, _REVISION),
    Check("B904", _C, _nothing_since_now, _REVISION, Together.NOTHING),
    Check("B905", _C, _older_cursors, _REVISION),
    Check("B906", _C, _junk),
    Check("B907", _C, _pages_of_changes, _REVISION, Together.NOTHING),
    Check("B908", _C, _quiet, _REVISION, Together.NOTHING),
    Check("B909", _C, _tampered, _REVISION, Together.NOTHING),
    Check("M901", _M, _whole_in_pages, gates(Gate.PAGING), Together.NOTHING),
    Check("M902", _M, _says_incremental, gates(Gate.INCREMENTAL)),
    Check("M903", _M, _unknown_state),
    Check("M904", _M, _list_agrees_with_get),
)
