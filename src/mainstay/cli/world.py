"""`mainstay world`: a simulated fleet and the clusters that use it."""

from typing import Any, Final

import typer

from mainstay.cli.options import Option, takes

app = typer.Typer(add_completion=False)

OPTIONS: Final = (
    Option("config", str, "A TOML file with a section `world`."),
    Option("machines", int, "At three providers together."),
    Option("seed", int, "The same seed, the same fleet and the same demand."),
    Option("listen", str, "HOST:PORT of the first provider; the others are above it."),
    Option("http", str, "Loopback HOST:PORT for /healthz, /clusters and /metrics/PROVIDER."),
    Option("shards", list[str], "CLUSTER=HOST:PORT, once for each cluster.", flags=("--shard",)),
    Option("share", float, "How much of the fleet is asked for on average, 0 to 1."),
    Option("every_s", float, "Seconds between two roll-ups.", flags=("--every",)),
    Option("pki", str, "The folder with certificates; else `pki` at home."),
    Option("insecure", bool, "Plaintext, on loopback only."),
)


@app.command()
@takes(*OPTIONS)
def world(**given: Any) -> None:
    """Three simulated providers and some clusters with changing demand, until Ctrl-C."""
    import asyncio

    from mainstay.cli.provider import say
    from mainstay.config.load import home_directory, load, read_sources
    from mainstay.config.world import WorldConfig
    from mainstay.processes.provider import Surroundings
    from mainstay.processes.world import serve_world
    from mainstay.runtime import log
    from mainstay.runtime.clock import SystemClock

    file = given.pop("config")
    given["shards"] = tuple(given["shards"] or ()) or None
    config = load("world", WorldConfig, read_sources(file=file), given).config
    clock = SystemClock()
    log.configure(clock)
    asyncio.run(serve_world(config, Surroundings(home_directory(), clock, say)))
