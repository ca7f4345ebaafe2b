"""`mainstay provider`: serve one kind of capacity."""

import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mainstay.cli.options import TLS, Option, takes

if TYPE_CHECKING:
    from mainstay.processes.provider import Surroundings

app = typer.Typer(add_completion=False, no_args_is_help=True)

SERVER: Final = (
    Option("listen", str, "HOST:PORT to serve at; port 0 picks a free one."),
    Option("state", str, "The file that remembers over a restart."),
    Option("http", str, "Loopback HOST:PORT for /healthz, /readyz and /metrics."),
    *TLS,
)


@app.callback()
def provider() -> None:
    """Serve one kind of capacity: six calls by gRPC, until Ctrl-C."""


@app.command()
@takes(
    Option("fleet", str, "A TOML file of pools, instead of the mixed fleet."),
    Option("faults", str, "A TOML file of what goes wrong."),
    Option("seed", int, "The same seed and calls, the same answers."),
    *SERVER,
)
def sim(**given: Any) -> None:
    """A simulated cloud: slots to create, hosts to configure, faults to order."""
    from mainstay.config.load import load, read_sources
    from mainstay.config.provider import SimProviderConfig
    from mainstay.processes.provider import serve_sim

    config = load("provider_sim", SimProviderConfig, read_sources(), given).config
    _run(lambda around: serve_sim(config, around))


@app.command()
@takes(
    Option("hosts", str, "The TOML file of hosts."),
    Option("name", str, "The provider's name in every host."),
    *SERVER,
)
def static(**given: Any) -> None:
    """Bare metal from a file: joined and emptied by commands, never deleted."""
    from mainstay.config.load import load, read_sources
    from mainstay.config.provider import StaticProviderConfig
    from mainstay.processes.provider import serve_static

    config = load("provider_static", StaticProviderConfig, read_sources(), given).config
    _run(lambda around: serve_static(config, around))


@app.command()
@takes(Option("config", str, "The TOML file of pools."), *SERVER)
def ec2(**given: Any) -> None:
    """Instances of one region of EC2, on demand and spot."""
    from mainstay.config.load import load, read_sources
    from mainstay.config.provider import Ec2ProviderConfig
    from mainstay.processes.provider import serve_ec2

    config = load("provider_ec2", Ec2ProviderConfig, read_sources(), given).config
    _run(lambda around: serve_ec2(config, around))


@app.command()
@takes(
    Option("create_timeout_s", float, "Seconds a Create may take.", flags=("--create-timeout",)),
    Option("configure_timeout_s", float, "A Configure.", flags=("--configure-timeout",)),
    Option("drain_timeout_s", float, "A Drain, beyond its grace.", flags=("--drain-timeout",)),
    Option("delete_timeout_s", float, "A Delete.", flags=("--delete-timeout",)),
    *SERVER,
)
def serve(
    backend: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="What makes the backend.")
    ],
    **given: Any,
) -> None:
    """A backend of your own; modules in the working directory are found."""
    from pathlib import Path

    from mainstay.config.load import load, read_sources
    from mainstay.config.provider import OwnProviderConfig
    from mainstay.processes.own_backend import found
    from mainstay.processes.provider import serve_own

    config = load("provider_serve", OwnProviderConfig, read_sources(), given).config
    own = found(backend, Path())
    _run(lambda around: serve_own(config, own, around))


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits, dashes.")],
    folder: Annotated[str, typer.Option(help="Where to make the project's folder.")] = ".",
) -> None:
    """Write a provider that works and passes conformance, for you to change."""
    from pathlib import Path

    from mainstay.cli.provider_new import told, written

    say(told(name, written(name, Path(folder))))


def _run(serve: "Callable[[Surroundings], Coroutine[Any, Any, None]]") -> None:
    import asyncio

    from mainstay.config.load import home_directory
    from mainstay.processes.provider import Surroundings
    from mainstay.runtime import log
    from mainstay.runtime.clock import SystemClock

    clock = SystemClock()
    log.configure(clock)
    asyncio.run(serve(Surroundings(home_directory(), clock, say)))


def say(line: str) -> None:
    """A line for people, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
