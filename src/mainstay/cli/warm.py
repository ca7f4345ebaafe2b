"""`mainstay warm`: compile the inner loops once, so that no start has to."""

import sys

import typer

from mainstay.engine import kernels
from mainstay.wire import loops

app = typer.Typer(add_completion=False)


@app.command()
def warm() -> None:
    """Compile the inner loops into numba's cache; everything runs without them, too."""
    ready = kernels.warm() and loops.warm()
    sys.stdout.write("compiled loops are ready\n" if ready else "no numba here: numpy it is\n")
