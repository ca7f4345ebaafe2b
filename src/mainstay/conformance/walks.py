"""Random walks and random bad requests (B12xx)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.caller import MUTATING
from mainstay.conformance.check import Check, Part
from mainstay.conformance.trial import Trial, at_once
from mainstay.model.calls import Call
from mainstay.model.state import State

CALLS_PER_WALK: Final = 9
BAD_SHAPES: Final = 40


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a call finds a machine and where it leaves it."""

    source: State
    target: State


EDGES: Final[Mapping[Call, Edge]] = {
    Call.CREATE: Edge(State.SPECULATIVE, State.IDLE),
    Call.CONFIGURE: Edge(State.IDLE, State.CONFIGURED),
    Call.DRAIN: Edge(State.CONFIGURED, State.IDLE),
    Call.DELETE: Edge(State.IDLE, State.SPECULATIVE),
}


async def _walks(at: Trial) -> None:
    """Random calls move a machine along four edges and no others."""
    calls = [call for call in MUTATING if call is not Call.DELETE or at.can_delete]
    has_slots = at.subject.borrowed.has_slots
    machines = [await (at.slot() if has_slots else at.idle()) for _ in range(at.limits.walks)]

    async def walk(machine: str, steps: Sequence[Call]) -> None:
        for call in steps:
            await _step(at, machine, call)

    chosen = [at.random.choices(calls, k=CALLS_PER_WALK) for _ in machines]
    await at_once([walk(*each) for each in zip(machines, chosen, strict=True)])


async def _bad_shapes(at: Trial) -> None:
    """No bad request is refused as if by a fence, whatever its shape."""
    calls = [call for call in MUTATING if call is not Call.DELETE or at.can_delete]
    for number in range(BAD_SHAPES):
        call = at.random.choice(calls)
        fence = (
            at.fence(1, number + 1) if at.random.random() < 0.5 else at.fence(0, 0, f"z{number}")
        )
        if at.random.random() < 0.5:
            expect.refused(await at.mutate(call, "", fence), expect.INVALID)
        else:
            name = f"{at.ghost}-{at.random.randrange(1000)}"
            expect.refused(await at.mutate(call, name, fence), expect.NOT_FOUND)


async def _step(at: Trial, machine: str, call: Call) -> None:
    edge, state = EDGES[call], State((await at.get(machine)).state)
    reply = expect.unfenced(await at.mutate(call, machine))
    after = State((await at.settle(machine)).state)
    way = f"{call.capitalize()} of {machine}, {state}"
    if state is edge.source and reply.ok:
        expect.that(after is edge.target, f"{way}: accepted, and it is {after}")
    elif state is edge.source:
        held = call is Call.DELETE and reply.status == expect.UNIMPLEMENTED
        expect.that(held, f"{way}: refused by {reply.status} ({reply.details})")
    else:
        at_target = state is edge.target
        expect.that(at_target or not reply.ok, f"{way}: accepted where it has no edge")
        expect.that(after is state, f"{way}: it moved to {after}")


CHECKS: Final = (
    Check("B1203", Part.CORE, _walks),
    Check("B1205", Part.CORE, _bad_shapes),
)
