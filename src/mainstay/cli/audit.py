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
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help="A log, or what has it below: a shard's data, a folder of them; else all here.",
        ),
    ] = None,
) -> None:
    """Read whole logs and name the first line that is not as it was written."""
    from mainstay.config.load import home_directory
    from mainstay.model.errors import Rejected

    where = home_directory() / "shards" if directory is None else directory
    found = logs_in(where)
    if not found:
        raise Rejected(f"no audit log in {where}, nor in an `audit` below it")
    whole = [_is_whole(log, named=log != directory) for log in found]
    if not all(whole):
        raise typer.Exit(1)


def logs_in(directory: Path) -> list[Path]:
    """The log that is there; else that of the shard whose data it is, or of the shards below."""
    from mainstay.shard.audit.verify import has_log

    if has_log(directory):
        return [directory]
    below = sorted(directory.glob("*/audit")) if directory.is_dir() else []
    return [log for log in (directory / "audit", *below) if has_log(log)]


def _is_whole(log: Path, *, named: bool) -> bool:
    """Check one, and tell; whose it is where that was not said."""
    from mainstay.model.errors import Rejected
    from mainstay.shard.audit.verify import verify as check

    try:
        seen = check(log)
    except OSError as error:
        raise Rejected(f"cannot read {error.filename}: {error.strerror}") from error
    whose = f"{log}: " if named else ""
    if seen.broken and seen.at is not None:
        line = f" line {seen.at.line}" if seen.at.line else ""
        sys.stdout.write(f"{whose}broken: {seen.at.path}{line}: {seen.broken}\n")
        sys.stdout.write(f"{seen.lines:,} lines before it are as they were written.\n")
        return False
    numbers = f", {seen.first_n} to {seen.last_n}" if seen.lines else ""
    sys.stdout.write(f"{whose}whole: {seen.lines:,} lines in {seen.files:,} files{numbers}\n")
    if seen.torn:
        sys.stdout.write(f"{seen.torn:,} half-written ends were set aside by starts.\n")
    return True
