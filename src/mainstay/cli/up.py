"""`mainstay up`: run Mainstay on this machine."""

import sys
import time
from typing import Annotated

import typer

from mainstay.cli import exits, output
from mainstay.config.load import load, read_sources
from mainstay.config.up import UpConfig
from mainstay.model.state import EDGES, State
from mainstay.processes import up as process
from mainstay.runtime.clock import SystemClock

app = typer.Typer(add_completion=False)

_PAUSE_S = 1.0
_STEPS_PER_SECOND = 500


@app.command()
def up(
    machines: Annotated[int | None, typer.Option(help="Size of the simulated fleet.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same seed, the same fleet and walk.")
    ] = None,
) -> int:
    """Run a simulated fleet: machines walk their lifecycle until Ctrl-C (or once, in a script)."""
    flags = {"machines": machines, "seed": seed}
    config = load("up", UpConfig, read_sources(), flags).config
    clock = SystemClock()
    try:
        world = process.build(config.machines, config.seed, clock)
        _say(f"A fleet of {config.machines:,} machines, seed {config.seed}.\n")
        _show_walk(world, process.walk_every_edge(world, clock))
        _show_refusals(world, clock)
        broken = _show_check(world)
        if sys.stdin.isatty() and sys.stdout.isatty():
            _live(world, clock)
    except KeyboardInterrupt:
        _say("\nStopped.")
        return exits.DONE
    return exits.FAILED if broken else exits.DONE


def _show_walk(world: process.World, steps: int) -> None:
    walked = len([edge for edge in EDGES if world.walked[edge]])
    _say(f"Walked {steps:,} steps over {walked} of {len(EDGES)} legal edges:")
    rows = [{"from": str(a), "to": str(b), "times": world.walked[a, b]} for a, b in EDGES]
    output.write(rows, output.Format.TABLE)


def _show_refusals(world: process.World, clock: SystemClock) -> None:
    refusals = list(process.try_every_illegal_edge(world, clock))
    _say(f"\nTried {len(refusals)} illegal edges, all refused, nothing changed. For example:")
    for (old, _), refusal in refusals:
        if old in {State.SPECULATIVE, State.CONFIGURED, State.FAILED}:
            _say(f"  {refusal.code}: {refusal.message}")


def _show_check(world: process.World) -> int:
    _say("\nMachines by state:")
    counts = world.inventory.snapshot().by_state
    output.write([{"state": str(s), "machines": n} for s, n in counts.items()], output.Format.TABLE)
    broken = process.faulty(world)
    _say(f"\nInvariants: {len(world.machines):,} machines checked, {len(broken)} broken rules.")
    for line in broken[:10]:
        _say(f"  {line}")
    return len(broken)


def _live(world: process.World, clock: SystemClock) -> None:
    """Keep the fleet moving, one line a second, until Ctrl-C."""
    _say("\nThe fleet goes on. Ctrl-C stops it.")
    while True:
        time.sleep(_PAUSE_S)
        process.walk(world, _STEPS_PER_SECOND, clock)
        counts = world.inventory.snapshot().by_state
        _say("  " + "  ".join(f"{state} {count:,}" for state, count in counts.items()))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
