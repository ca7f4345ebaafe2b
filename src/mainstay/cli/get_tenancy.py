"""`mainstay get allocations|nodes`: what `alloc list` and `admin nodes` list, by the same nouns."""

from typing import Annotated, Any, Final

import typer

from mainstay.cli.listing import PRINTED
from mainstay.cli.options import takes
from mainstay.cli.tenant_lists import RETIRED, SERVER, STATUS, show_allocations, show_nodes

app: Final = typer.Typer(add_completion=False)

Allocations = Annotated[
    list[str] | None, typer.Argument(metavar="[ALLOCATION]...", help="Only these.")
]
Nodes = Annotated[list[str] | None, typer.Argument(metavar="[NODE]...", help="Only these.")]


@app.command()
@takes(STATUS, *PRINTED, SERVER)
def allocations(names: Allocations = None, **given: Any) -> int:
    """Allocations of the project, newest first; the API is asked, with a tenant's key."""
    return show_allocations(given, names or ())


@app.command()
@takes(RETIRED, *PRINTED, SERVER)
def nodes(names: Nodes = None, **given: Any) -> int:
    """Nodes of tenancy, and how many of their slots are free; the API is asked as admin."""
    return show_nodes(given, names or ())
