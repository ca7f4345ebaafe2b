"""Runs of the loop, and what tests ask of them."""

from typing import Any, Final

from mainstay.model.ids import MachineId
from mainstay.model.state import State
from mainstay.sim.loop import run
from mainstay.sim.spec import LoopSpec, parse_event, replay
from mainstay.sim.world import Loop, machines

SETTLED: Final = 40
"""So many cycles without any action are rest."""

MOVES: Final = ("bootstraps", "provisions", "preempts", "reclaims", "deletes")
OWNER: Final = {"plain": "web", "gang": "train"}
"""Whose machines are lost, by scene."""


def ran(*events: str, seed: int = 3, cycles: int = 80, **settings: Any) -> Loop:
    """A run that broke no law; a failure names the command that runs it again."""
    happens = tuple(map(parse_event, events))
    loop = run(LoopSpec(seed=seed, cycles=cycles, events=happens, **settings))
    assert loop.broken == [], replay(loop.spec)
    return loop


def moves(loop: Loop) -> dict[str, int]:
    """How many of each action there were, without those there were none of."""
    return {name: total for name in MOVES if (total := loop.total(name))}


def when(loop: Loop, name: str) -> list[int]:
    """The cycles in which there was some."""
    return [stats.cycle for stats in loop.history if getattr(stats, name)]


def is_at_rest(loop: Loop) -> bool:
    return loop.quiet_cycles >= SETTLED and loop.history[-1].unsatisfied == 0


def serving(loop: Loop) -> set[MachineId]:
    return {m.id for m in machines(loop.inventory) if m.state is State.CONFIGURED}
