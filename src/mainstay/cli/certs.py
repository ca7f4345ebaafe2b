"""`mainstay certs init|issue`: certificates for development, from an authority of one's own."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    import datetime as dt
    from pathlib import Path

app = typer.Typer(add_completion=False, no_args_is_help=True)

DirOption = Annotated[str, typer.Option("--dir", help="Where; else `pki` in the home directory.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is there.")]

AUTHORITY_DAYS: Final = 3650
LEAF_DAYS: Final = 365


@app.callback()
def certs() -> None:
    """Make an authority and certificates that processes on this machine trust."""


@app.command()
def init(
    directory: DirOption = "",
    days: Annotated[int, typer.Option(help="How long it counts.")] = AUTHORITY_DAYS,
    force: ForceOption = False,
) -> None:
    """Make an authority. Whoever has its key can be anybody: for development only."""
    from mainstay.processes import certs as made

    folder, now = _where_and_when(directory)
    files = made.init(folder, now, days=days, force=force)
    sys.stdout.write(f"{files.cert}\n")
    sys.stderr.write("Next: mainstay certs issue admin\n")


@app.command()
def issue(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="shard, cluster, admin, readonly, coordinator or provider."
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Its id.")] = "",
    *,
    host: Annotated[
        list[str] | None, typer.Option(help="A name or address it serves at; loopback always is.")
    ] = None,
    directory: DirOption = "",
    days: Annotated[int, typer.Option(help="How long it counts.")] = LEAF_DAYS,
    force: ForceOption = False,
) -> None:
    """Sign a certificate, or renew it; prints the flags that a process takes."""
    from mainstay.processes import certs as made

    folder, now = _where_and_when(directory)
    holder = made.holder_of(kind, name)
    files = made.issue(folder, holder, now, days=days, hosts=host or (), force=force)
    sys.stdout.write(made.flags(files) + "\n")
    sys.stderr.write(f"{holder.uri or 'No identity: it serves, and calls nobody'}\n")


def _where_and_when(directory: str) -> "tuple[Path, dt.datetime]":
    import datetime as dt
    from pathlib import Path

    from mainstay.config.load import home_directory
    from mainstay.processes.certs import FOLDER
    from mainstay.runtime.clock import SystemClock

    folder = Path(directory) if directory else home_directory() / FOLDER
    return folder, dt.datetime.fromtimestamp(SystemClock().now_s(), dt.UTC)
