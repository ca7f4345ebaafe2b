"""What a shard writes on a machine comes back byte for byte (B5xx)."""

from collections.abc import Mapping
from random import Random
from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.check import Check, Part
from mainstay.conformance.trial import CLUSTER, Trial, at_once
from mainstay.model.state import State

AWKWARD: Final[Mapping[str, str]] = {
    **{f"plain-{number}": f"value {number}" for number in range(40)},
    **{f"control-{number}": chr(number) * 3 for number in range(10)},
    "nul": "a\x00b", "empty": "", "": "empty key", "\x00": "nul key",
    "unicode": "é水\U0001f9f1\u2028",
}  # fmt: skip
SIDE_BY_SIDE: Final = 5
OVERSIZE_KEYS: Final = 3000
OVERSIZE_VALUE: Final = "o" * 1000
"""Three megabytes: more than a provider has to take, less than gRPC carries."""


async def _awkward(at: Trial) -> None:
    """Keys and values of any characters are echoed exactly, on Get and List, again and again."""
    machine = await at.configured(metadata=AWKWARD)
    for _ in range(3):
        expect.bound(await at.get(machine), CLUSTER, AWKWARD)
        expect.bound(await at.listed(machine, State.CONFIGURED), CLUSTER, AWKWARD)


async def _no_residue(at: Trial) -> None:
    """The next binding shows none of the keys of the one before."""
    machine = await at.configured(metadata={"old": "1", "both": "1"})
    await at.free(machine)
    expect.free(await at.get(machine))
    await at.bind(machine, metadata={"new": "2", "both": "2"})
    expect.bound(await at.get(machine), CLUSTER, {"new": "2", "both": "2"})


async def _oversize(at: Trial) -> None:
    """A map that is too large is refused whole, never cut."""
    machine = await at.idle()
    metadata = {f"k{number}": OVERSIZE_VALUE for number in range(OVERSIZE_KEYS)}
    reply = await at.configure(machine, metadata=metadata)
    if reply.ok:
        await at.reach(machine, State.CONFIGURED)
        expect.bound(await at.get(machine), CLUSTER, metadata)
    else:
        expect.refused(reply, expect.INVALID, expect.EXHAUSTED)
        expect.free(expect.state(await at.get(machine), State.IDLE))


async def _from_the_beginning(at: Trial) -> None:
    """Metadata is there as soon as a machine is Configuring."""
    machine = await at.idle()
    reply = expect.acked(await at.configure(machine, metadata={"k": "v"}))
    seen = [] if reply.machine is None else [reply.machine]
    for record in [*seen, *await at.reach(machine, State.CONFIGURED)]:
        expect.bound(record, CLUSTER, {"k": "v"})


async def _own_copy(at: Trial) -> None:
    """What is sent later with the same step does not alter what is kept."""
    metadata = {"k": "first"}
    machine = await at.configured(metadata=metadata)
    expect.acked(await at.configure(machine, metadata={"k": "second", "more": "x"}))
    expect.bound(await at.get(machine), CLUSTER, metadata)


async def _random_maps(at: Trial) -> None:
    """Random maps come back exactly, on Get and List."""
    machines = await at.idles(SIDE_BY_SIDE)
    maps = [_drawn(at.random) for _ in range(at.limits.maps)]

    async def each(number: int, machine: str) -> None:
        for metadata in maps[number::SIDE_BY_SIDE]:
            await at.bind(machine, metadata=metadata)
            expect.bound(await at.get(machine), CLUSTER, metadata)
            expect.bound(await at.listed(machine, State.CONFIGURED), CLUSTER, metadata)
            await at.free(machine)

    await at_once([each(number, machine) for number, machine in enumerate(machines)])


def _drawn(random: Random) -> dict[str, str]:
    return {_text(random): _text(random) for _ in range(random.randrange(1, 12))}


def _text(random: Random) -> str:
    """Any Unicode but surrogates, which no protobuf string can hold."""
    points = (random.choice((0x7F, 0x7FF, 0xD7FF, 0x10FFFF)) for _ in range(random.randrange(12)))
    drawn = (random.randrange(most + 1) for most in points)
    return "".join(chr(point) for point in drawn if not 0xD800 <= point <= 0xDFFF)


_C: Final = Part.CORE

CHECKS: Final = (
    Check("B501", _C, _awkward),
    Check("B502", _C, _no_residue),
    Check("B503", _C, _oversize),
    Check("B504", _C, _from_the_beginning),
    Check("B505", _C, _own_copy),
    Check("B1202", _C, _random_maps),
)
