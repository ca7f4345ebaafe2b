"""A scenario is played: its decisions by one of three deciders, its runs in the closed loop."""

import difflib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from mainstay.engine import kernels
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.errors import Rejected
from mainstay.model.needs import NeedsTable
from mainstay.sim import loop as sim_loop
from mainstay.sim.spec import LoopSpec, parse_event
from mainstay.sim.stage import Scene
from mainstay.sim.world import Loop
from oracles.fleets import World
from oracles.plain_engine import Entry, PlainPlan, plain_decide
from scenarios.reading import Scenario, Step
from scenarios.stages import Cast, Stage, a_policy, a_world, machines_of
from scenarios.telling import Told, rewritten, told_plan, told_run
from scenarios.words import Wrong

ORACLE, NUMPY, COMPILED = "oracle", "numpy", "compiled"
DECIDERS: Final = (NUMPY, COMPILED, ORACLE)

_EVERY: Final = re.compile(r"([a-z]+)@([0-9]+)\.\.([0-9]+)(.*)")
EVERY_CYCLE_UNTIL: Final = 50
EVERY_TENTH: Final = 10
"""The cycles of a run that are held against the oracle: busy ones before the first, and these."""


def deciders(scenario: Scenario) -> tuple[str, ...]:
    """Who plays it. A run is checked by the oracle with compiled loops, so that two are enough."""
    runs = any(part.stage.loop for part in scenario.steps)
    return (NUMPY, ORACLE) if runs else DECIDERS


def play(scenario: Scenario, decider: str) -> list[Told]:
    """What came of every step."""
    with _loops(decider):
        table, memory = NeedsTable(), Memory.empty()
        told = []
        for part in scenario.steps:
            if part.stage.loop:
                told.append(told_run(_ran(part, decider)))
                continue
            if not scenario.chained:
                table, memory = NeedsTable(), Memory.empty()
            cast = Cast(part.stage)
            world = a_world(part.stage, cast, table, memory)
            plan = _decided(world, a_policy(part.stage), decider)
            memory = plan.memory
            told.append(told_plan(plan, cast))
    return told


def rewrite(path: Path, told: list[Told]) -> None:
    """Put what came of it into the file, if that is anything new."""
    text = path.read_text()
    new = rewritten(text, told)
    if new != text:
        path.write_text(new)


def differences(scenario: Scenario, told: list[Told]) -> str:
    """Empty if all is as the file says; otherwise the file against what came of it."""
    if [part.expect for part in scenario.steps] == told:
        return ""
    text = scenario.path.read_text()
    new = rewritten(text, told)
    lines = difflib.unified_diff(
        text.splitlines(), new.splitlines(), scenario.name, "what came of it", lineterm="", n=2
    )
    return "\n".join(lines)


@contextmanager
def _loops(decider: str) -> Iterator[None]:
    kernels.cool()
    if decider != NUMPY:
        assert kernels.warm()
    try:
        yield
    finally:
        kernels.cool()


def _decided(world: World, policy: Policy, decider: str) -> Plan | PlainPlan:
    if decider == ORACLE:
        return plain_decide(world.machines, world.demand, world.memory, policy, world.now)
    return decide(world.inventory().snapshot(), world.demand, world.memory, policy, world.now)


def _ran(part: Step, decider: str) -> Loop:
    """A run; in one for the oracle its plans are held against the oracle's."""
    with pytest.MonkeyPatch.context() as patch:
        loop = _started(part.stage, patch)
        if decider == ORACLE:
            patch.setattr(sim_loop, "decide", _checked(loop))
        for _ in range(loop.spec.cycles):
            sim_loop.step(loop)
    assert loop.broken == [], part.stage.where
    return loop


def _started(stage: Stage, patch: pytest.MonkeyPatch) -> Loop:
    """A loop before its first cycle: in a scene of the simulator, or in what the file describes."""
    settings: dict[str, Any] = {"seed": 1, **stage.loop}
    try:
        events = [event for text in settings.get("events", ()) for event in _repeated(text)]
        spec = LoopSpec(**{**settings, "events": tuple(map(parse_event, events))})
    except (TypeError, Rejected) as error:
        raise Wrong(f"{stage.where}: loop: {error}") from error
    if "scene" not in stage.loop:
        cast = Cast(stage)
        described = Scene(tuple(machines_of(stage, cast)), tuple(cast.needs.values()))
        patch.setattr(sim_loop, "scene", lambda *_: described)
    return sim_loop.start(spec)


def _repeated(text: str) -> list[str]:
    """`lose@1..3:web=1` happens in every one of these cycles."""
    found = _EVERY.fullmatch(text)
    if found is None:
        return [text]
    return [f"{found[1]}@{n}{found[4]}" for n in range(int(found[2]), int(found[3]) + 1)]


def _checked(loop: Loop) -> Any:
    """`decide` that asks the oracle, too."""

    def both(
        snapshot: Snapshot, demand: Demand, memory: Memory, policy: Policy, now: float
    ) -> Plan:
        plan = decide(snapshot, demand, memory, policy, now)
        busy = plan.actions and loop.cycle < EVERY_CYCLE_UNTIL
        if not busy and loop.cycle % EVERY_TENTH:
            return plan
        held = loop.inventory
        machines = {
            id_: Entry(held.machine(id_), held.idle_since(id_), held.source(id_))
            for id_ in held.ids()
        }
        plain = plain_decide(machines, demand, memory, policy, now)
        assert tuple(plan.actions) == plain.actions, f"cycle {loop.cycle}"
        assert plan.claimed_ids() == plain.claimed_ids(), f"cycle {loop.cycle}"
        assert plan.unsatisfied == plain.unsatisfied, f"cycle {loop.cycle}"
        assert plan.shortfalls == plain.shortfalls, f"cycle {loop.cycle}"
        return plan

    return both
