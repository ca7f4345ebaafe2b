"""`mainstay sim`: runs that follow from a seed."""

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mainstay.cli import exits, output
from mainstay.cli.progress import progress

if TYPE_CHECKING:
    from mainstay.sim.world import Stats

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def sim() -> None:
    """Simulate, by seed; exit 1 when a law is broken."""


@app.command()
def loop(
    *,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same run.")] = 1,
    cycles: Annotated[int, typer.Option(min=1, max=100_000, help="How many decisions.")] = 100,
    scene: Annotated[str, typer.Option(help="The fleet and the demand to start from.")] = "plain",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Such as create-dwell=3 or losses=8; may be repeated."),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(help="Such as lose@30:web=4, fail@30=1 or mute@5:web=9; may be repeated."),
    ] = None,
    output_format: Annotated[
        output.Format, typer.Option("--output", "-o", help="How to print the answer.")
    ] = output.Format.JSON,
) -> int:
    """The closed loop of one shard: what it decides, what comes of it, which law it breaks."""
    from mainstay.sim.loop import run
    from mainstay.sim.spec import LoopSpec, parse_event, parse_settings, replay

    spec = LoopSpec(
        seed=seed,
        cycles=cycles,
        scene=scene,
        events=tuple(map(parse_event, event or ())),
        **parse_settings(settings or ()),
    )
    part = max(PART_MIN, cycles // PARTS)
    with progress(cycles // part) as shown:

        def done(stats: "Stats") -> None:
            if stats.cycle % part == part - 1:
                shown.done(f"cycle {stats.cycle + 1:,}: {stats.configured:,} machines serve")

        ran = run(spec, done)
    rows = [dataclasses.asdict(stats) for stats in ran.history]
    if output_format is output.Format.JSON:
        names = [name for name in rows[0] if name not in LEVELS]
        answer = {
            "replay": replay(spec),
            "totals": {name: ran.total(name) for name in names},
            "last": rows[-1],
            "quiet_cycles": ran.quiet_cycles,
            "broken": ran.broken,
        }
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        output.write(rows, output_format)
    if ran.broken:
        exits.complain(f"law broken: {ran.broken[0]}", replay(spec))
    return exits.FAILED if ran.broken else exits.DONE


PARTS: Final = 100
PART_MIN: Final = 1_000
"""Cycles that are done before it is said; so many last a few seconds."""

LEVELS = frozenset({"cycle", "creating", "configured", "unsatisfied", "shortfalls"})
"""Figures that are no sums."""
