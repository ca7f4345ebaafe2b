"""`mainstay soak`: real processes, killed again and again; exit 1 when a law is broken."""

import dataclasses
import json
import sys
from typing import Any

import typer

from mainstay.cli import exits
from mainstay.cli.options import Option, takes
from mainstay.cli.progress import progress

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def soak() -> None:
    """Kill what runs, again and again; exit 1 when that does harm."""


@app.command()
@takes(
    Option("machines", int, "At two providers together.", 100_000, least=200),
    Option("clusters", int, "How many clusters.", 50, least=1),
    Option("demand", int, "Machines that each of them asks for, on average.", 60, least=1),
    Option("kills", int, "How often the shard is killed while demand changes.", 20, least=0),
    Option("held_kills", int, "And how often before, while it stays as it is.", 4, least=0),
    Option("seed", int, "The same seed, the same demand and the same moments.", 1, least=0),
    Option("one_line", bool, "On one line, for machines.", False, flags=("--json",)),
)
def shard(**given: Any) -> int:
    """A shard killed with SIGKILL at random: nothing owned twice, nothing drained without cause."""
    import asyncio
    import tempfile
    from pathlib import Path

    from mainstay.processes.soak_shard import SoakSpec
    from mainstay.processes.soak_shard import soak as soaking
    from mainstay.runtime.children import Children
    from mainstay.runtime.clock import SystemClock

    one_line = given.pop("one_line")
    spec = SoakSpec(**given)

    with (
        progress(spec.held_kills + spec.kills) as shown,
        tempfile.TemporaryDirectory(prefix="mainstay-soak-") as folder,
        Children(Path(folder)) as children,
    ):

        def say(line: str) -> None:
            (shown.done if line.startswith("kill ") else shown.say)(line)

        soaked = asyncio.run(soaking(spec, children, SystemClock(), say))
    answer = {"soak": "shard", "args": dataclasses.asdict(spec), **soaked.answer()}
    sys.stdout.write(json.dumps(answer, indent=None if one_line else 2) + "\n")
    if soaked.broken:
        exits.complain(f"law broken: {soaked.broken[0]}", "")
    return exits.FAILED if soaked.broken else exits.DONE
