"""The `mainstay` command: a table of commands, each loaded only when it is called.

The table is read without importing typer, rich or numpy, so that help answers at once.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn

from mainstay import __version__
from mainstay.cli import exits


class Command(NamedTuple):
    """A row of `mainstay --help`; `module` holds a typer application named `app`."""

    module: str
    help: str


COMMANDS: Final[dict[str, Command]] = {
    "up": Command("mainstay.cli.up", "run Mainstay on this machine, with a simulated fleet"),
    "bench": Command("mainstay.cli.bench", "measure what we promise, print JSON"),
    "sim": Command("mainstay.cli.sim", "simulate a shard by seed, exit 1 when a law is broken"),
    "provider": Command("mainstay.cli.provider", "serve one kind of capacity by gRPC"),
    "conformance": Command(
        "mainstay.cli.conformance", "check a provider against the contract, exit 1 if it breaks it"
    ),
    "warm": Command("mainstay.cli.warm", "compile the engine's inner loops once"),
    "config": Command(
        "mainstay.cli.config", "show the settings in effect and where each comes from"
    ),
}

USAGE: Final = "usage: mainstay [--version] [--help] COMMAND ..."


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with one of the codes of `mainstay.cli.exits`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = dispatch(words)
        sys.stdout.flush()
    except BrokenPipeError:
        code = exits.abandon_output()
    sys.exit(code)


def dispatch(words: list[str]) -> int:
    """Answer help and version from the table; hand everything else to the command's own module."""
    first = words[0] if words else "--help"
    if first in {"-h", "--help", "help"}:
        sys.stdout.write(help_text())
        return exits.DONE
    if first in {"-V", "--version"}:
        sys.stdout.write(f"mainstay {__version__}\n")
        return exits.DONE
    if first not in COMMANDS:
        exits.complain(f"no such command: {first}", "`mainstay --help` lists them")
        return exits.WRONG_USAGE
    module = importlib.import_module(COMMANDS[first].module)
    return exits.run(module.app, words[1:], name=f"mainstay {first}")


def help_text() -> str:
    """The table, as text."""
    width = max(map(len, COMMANDS)) + 2
    rows = [f"  {name:<{width}}{command.help}" for name, command in COMMANDS.items()]
    lines = [
        f"Mainstay {__version__}: one pool of machines for many clusters and tenants.",
        "",
        USAGE,
        "",
        *rows,
        "",
        "`mainstay COMMAND --help` tells more. Exit codes: 0 done, 1 failed or a check found",
        "fault, 2 wrong usage, 3 server not reachable.",
    ]
    return "\n".join(lines) + "\n"
