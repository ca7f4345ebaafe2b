"""`mainstay warm`: compile the inner loops once, so that no start has to."""

import sys

import typer

from mainstay.cli.progress import progress
from mainstay.engine import kernels
from mainstay.wire import loops

app = typer.Typer(add_completion=False)


@app.command()
def warm() -> None:
    """Compile the inner loops into numba's cache; everything runs without them, too."""
    with progress(2) as shown:
        shown.say("the loops that decide")
        ready = kernels.warm()
        shown.done("the loops that read lists")
        ready = ready and loops.warm()
    sys.stdout.write("compiled loops are ready\n" if ready else "no numba here: numpy it is\n")
