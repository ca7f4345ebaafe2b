"""`mainstay warm`: compile the inner loops once, so that no start has to."""

import sys

import typer

from mainstay.engine import kernels

app = typer.Typer(add_completion=False)


@app.command()
def warm() -> None:
    """Compile the engine's inner loops into numba's cache; the engine runs without them, too."""
    ready = kernels.warm()
    sys.stdout.write("compiled loops are ready\n" if ready else "no numba here: numpy it is\n")
