"""`mainstay audit`: whether an audit log is as it was written."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def audit() -> None:
    """Check what a shard has written down about its actions."""


@app.command()
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the log is.")],
) -> None:
    """Read a whole log and name the first line that is not as it was written."""
    from mainstay.model.errors import Rejected
    from mainstay.shard.audit.verify import verify as check

    try:
        seen = check(directory)
    except OSError as error:
        raise Rejected(f"cannot read {error.filename}: {error.strerror}") from error
    if seen.broken and seen.at is not None:
        line = f" line {seen.at.line}" if seen.at.line else ""
        sys.stdout.write(f"broken: {seen.at.path}{line}: {seen.broken}\n")
        sys.stdout.write(f"{seen.lines:,} lines before it are as they were written.\n")
        raise typer.Exit(1)
    numbers = f", {seen.first_n} to {seen.last_n}" if seen.lines else ""
    sys.stdout.write(f"whole: {seen.lines:,} lines in {seen.files:,} files{numbers}\n")
    if seen.torn:
        sys.stdout.write(f"{seen.torn:,} half-written ends were set aside by starts.\n")
