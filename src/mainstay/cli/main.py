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
    """A row of `mainstay --help`; `module` holds a typer application of this name."""

    module: str
    help: str
    app: str = "app"


COMMANDS: Final[dict[str, Command]] = {
    "up": Command("mainstay.cli.up", "run Mainstay on this machine, with a simulated fleet"),
    "bench": Command("mainstay.cli.bench", "measure what we promise, print JSON"),
    "sim": Command("mainstay.cli.sim", "simulate a shard by seed, exit 1 when a law is broken"),
    "world": Command("mainstay.cli.world", "be a simulated fleet and the clusters that use it"),
    "shard": Command("mainstay.cli.shard", "decide every cycle which machine serves whom"),
    "coordinator": Command(
        "mainstay.cli.coordinator", "keep who owns what, move capacity between shards"
    ),
    "provider": Command("mainstay.cli.provider", "serve one kind of capacity by gRPC"),
    "conformance": Command(
        "mainstay.cli.conformance", "check a provider against the contract, exit 1 if it breaks it"
    ),
    "cluster": Command(
        "mainstay.cli.cluster", "be clusters with changing demand; unbind one from its shard"
    ),
    "soak": Command("mainstay.cli.soak", "kill what runs, again and again; exit 1 if that harms"),
    "audit": Command(
        "mainstay.cli.audit", "check that an audit log is as it was written, exit 1 if it is not"
    ),
    "get": Command("mainstay.cli.get", "list what running shards and a coordinator know"),
    "money": Command("mainstay.cli.get", "say what it costs, and what of it is waste", "money_app"),
    "explain": Command(
        "mainstay.cli.explain", "say why a need, gang, machine, cluster or allocation is so"
    ),
    "whatif": Command("mainstay.cli.whatif", "say what a change would do, without doing it"),
    "top": Command("mainstay.cli.top", "watch running shards"),
    "domain": Command("mainstay.cli.fleet", "say which shard has which machines", "domain_app"),
    "quota": Command(
        "mainstay.cli.fleet", "limit a cluster or a place over all shards", "quota_app"
    ),
    "shards": Command("mainstay.cli.fleet", "forget a shard that is gone", "shards_app"),
    "rebalance": Command(
        "mainstay.cli.rebalance", "show what would be moved between shards, and why"
    ),
    "snapshot": Command("mainstay.cli.snapshot", "save and restore a coordinator's state"),
    "pause": Command("mainstay.cli.control", "make a shard decide and not act", "pause_app"),
    "shadow": Command("mainstay.cli.control", "the same, told as what would be done", "shadow_app"),
    "limit": Command("mainstay.cli.control", "make a shard act more slowly", "limit_app"),
    "resume": Command(
        "mainstay.cli.control", "lift what pause, shadow and limit set", "resume_app"
    ),
    "retire": Command(
        "mainstay.cli.control", "give up the record of a Failed machine", "retire_app"
    ),
    "postgres": Command("mainstay.cli.postgres", "run the embedded database of tenancy"),
    "tenancy": Command("mainstay.cli.tenancy", "begin with tenants: catalogue, project, keys"),
    "api": Command("mainstay.cli.tenancy", "serve tenants, administrators and node agents", "api"),
    "relay": Command("mainstay.cli.tenancy", "take events from the outbox to the bus", "relay"),
    "worker": Command("mainstay.cli.tenancy", "provision and release allocations", "worker"),
    "biller": Command("mainstay.cli.tenancy", "charge for what is active", "biller"),
    "notifier": Command("mainstay.cli.tenancy", "write down what people are told", "notifier"),
    "bridge": Command("mainstay.cli.bridge", "ask a shard for machines and make nodes of them"),
    "alloc": Command("mainstay.cli.alloc", "ask for GPUs, watch them, give them back"),
    "admin": Command("mainstay.cli.admin", "nodes, events, money and what got stuck"),
    "dashboard": Command("mainstay.cli.dashboard", "serve the web page over what runs here"),
    "certs": Command("mainstay.cli.certs", "make certificates for development"),
    "warm": Command("mainstay.cli.warm", "compile the engine's inner loops once"),
    "completion": Command("mainstay.cli.completion", "let a shell complete our words"),
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
    command = COMMANDS[first]
    app = getattr(importlib.import_module(command.module), command.app)
    return exits.run(app, words[1:], name=f"mainstay {first}")


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
