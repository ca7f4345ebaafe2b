"""`mainstay tenancy`, `api`, `relay`, `worker`, `biller`, `notifier`: the processes of tenancy."""

import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mainstay.cli.options import Option, takes

if TYPE_CHECKING:
    from mainstay.config.api import ApiConfig
    from mainstay.processes.tenancy import Around

app = typer.Typer(add_completion=False, no_args_is_help=True)
api = typer.Typer(add_completion=False)
relay = typer.Typer(add_completion=False)
worker = typer.Typer(add_completion=False)
biller = typer.Typer(add_completion=False)
notifier = typer.Typer(add_completion=False)

GROUND: Final = (
    Option("database", str, "URL of a PostgreSQL, or `running`; else the one at home."),
    Option("bus", str, "URL of a NATS server; without it the database carries events."),
    Option("workflows", str, "temporal://HOST:PORT/NAMESPACE; else the database remembers work."),
)
CLUSTER: Final = (
    Option("shard", str, "With --all: HOST:PORT of a shard to ask for machines, as a bridge does."),
    Option("cluster_id", str, "With --shard: which cluster tenancy is to it."),
    Option("cluster_cert", str, "Certificate of that cluster, in PEM."),
    Option("cluster_key", str, "Its private key, in PEM."),
    Option("cluster_ca", str, "Whose certificate the shard has, in PEM."),
    Option(
        "simulate_machines", bool, "Simulate the agents of its machines.",
        flags=("--simulate-machines",),
    ),
)  # fmt: skip
OF_API: Final = (
    Option("listen", str, "HOST:PORT of the API; port 0 picks a free one."),
    Option("agents", str, "HOST:PORT for node agents, by mutual TLS."),
    Option("simulate", str, "Nodes whose agent is simulated here, with commas between."),
    *CLUSTER,
    Option("tls_cert", str, "Certificate of the API, in PEM."),
    Option("tls_key", str, "Its private key, in PEM."),
    *GROUND,
)
AS_BRIDGE: Final = {
    "cluster_cert": "tls_cert", "cluster_key": "tls_key", "cluster_ca": "tls_ca",
    "simulate_machines": "simulate",
}  # fmt: skip
"""What a bridge that runs alone calls the same; the others have one name."""

PAGES: Final = Option("http", str, "Loopback HOST:PORT for /healthz, /readyz and /metrics.")


@app.callback()
def tenancy() -> None:
    """Begin with tenants."""


@app.command()
@takes(*GROUND)
def init(
    catalogue: Annotated[
        str | None, typer.Option(help="A TOML file of SKUs, nodes and projects; else a small one.")
    ] = None,
    **given: Any,
) -> None:
    """Load a catalogue and make keys for its first project; said again it changes nothing."""
    import asyncio
    from pathlib import Path

    from mainstay.processes.tenancy_init import begin
    from mainstay.tenancy.catalogue import SAMPLE, read

    config, around = _settings(given)
    document = read(Path(catalogue) if catalogue else SAMPLE)
    begun = asyncio.run(begin(config, around, document))
    made = ", ".join(f"{count} {name}" for name, count in begun.loaded.made.items())
    _say(f"Catalogue: {made or 'nothing new'}.")
    _say(f"Project {begun.project}; its keys are in {begun.credentials}.")
    if begun.nodes:
        _say(f"Next: mainstay api --all --simulate {','.join(begun.nodes)}")


@api.command()
@takes(*OF_API)
def serve_api(
    everything: Annotated[
        bool, typer.Option("--all", help="Relay, worker, biller and notifier in here, too.")
    ] = False,
    **given: Any,
) -> None:
    """Serve tenants, administrators and node agents, until Ctrl-C."""
    from mainstay.config.bridge import BridgeConfig
    from mainstay.config.load import load, read_sources
    from mainstay.processes.api import serve_api as serve

    asked = {AS_BRIDGE.get(each.name, each.name): given.pop(each.name) for each in CLUSTER}
    bridge = load("bridge", BridgeConfig, read_sources(), asked).config
    _run(given, lambda config, around: serve(config, around, everything=everything, bridge=bridge))


@relay.command()
@takes(*GROUND, PAGES)
def serve_relay(**given: Any) -> None:
    """Take events from the outbox to the bus, until Ctrl-C; several may run."""
    _part("relay", given)


@worker.command()
@takes(*GROUND, PAGES)
def serve_worker(**given: Any) -> None:
    """Provision and release allocations, until Ctrl-C; several may run."""
    _part("worker", given)


@biller.command()
@takes(*GROUND, PAGES)
def serve_biller(**given: Any) -> None:
    """Charge for what is active, until Ctrl-C; several may run."""
    _part("biller", given)


@notifier.command()
@takes(*GROUND, PAGES)
def serve_notifier(**given: Any) -> None:
    """Write down what people are told, until Ctrl-C; several may run."""
    _part("notifier", given)


def _part(name: str, given: dict[str, Any]) -> None:
    from mainstay.processes.tenancy_parts import serve_part

    _run(given, lambda config, around: serve_part(name, config, around))


def _run(
    given: dict[str, Any], serve: "Callable[[ApiConfig, Around], Coroutine[Any, Any, None]]"
) -> None:
    import asyncio

    config, around = _settings(given)
    asyncio.run(serve(config, around))


def _settings(given: dict[str, Any]) -> "tuple[ApiConfig, Around]":
    from mainstay.config.api import ApiConfig
    from mainstay.config.load import home_directory, load, read_sources
    from mainstay.processes.tenancy import Around
    from mainstay.runtime import log
    from mainstay.runtime.clock import SystemClock

    clock = SystemClock()
    log.configure(clock)
    config = load("api", ApiConfig, read_sources(), given).config
    return config, Around(home_directory(), clock, _say)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
