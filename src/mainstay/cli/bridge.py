"""`mainstay bridge`: tenancy as a cluster of a shard."""

from typing import Any, Final

import typer

from mainstay.cli.options import TLS, Option, takes

app = typer.Typer(add_completion=False)

OPTIONS: Final = (
    Option("config", str, "A TOML file with sections `bridge` and `api`."),
    Option("shard", str, "HOST:PORT of the shard to ask."),
    Option("cluster_id", str, "Which cluster tenancy is to it."),
    Option("agents_url", str, "https://HOST:PORT where machines enrol.", flags=("--agents",)),
    Option("http", str, "Loopback HOST:PORT for /healthz, /readyz and /metrics."),
    Option("simulate", bool, "Simulate the agents of its machines.", flags=("--simulate",)),
    Option("head_room", list[str], "KIND=NODES to keep free.", flags=("--head-room",)),
    Option("every_s", float, "Seconds between two looks.", flags=("--every",)),
    Option("join_s", float, "Seconds for a machine to enrol.", flags=("--join",)),
    Option("settle_s", float, "Seconds until silence is believed.", flags=("--settle",)),
    Option("gone_after_s", float, "Seconds until it is a loss.", flags=("--gone-after",)),
    Option("cleanup_s", float, "Seconds of a grace for clean-up.", flags=("--cleanup",)),
    *TLS,
)
DATABASE: Final = Option(
    "database", str, "URL of tenancy's PostgreSQL, or `running`; else the one at home."
)


@app.command()
@takes(*OPTIONS, DATABASE)
def bridge(**given: Any) -> None:
    """Ask a shard for the machines that tenants need, and make nodes of them, until Ctrl-C."""
    import asyncio

    from mainstay.cli.provider import say
    from mainstay.config.api import ApiConfig
    from mainstay.config.bridge import BridgeConfig
    from mainstay.config.load import home_directory, load, read_sources
    from mainstay.processes.bridge import serve_bridge
    from mainstay.processes.tenancy import Around
    from mainstay.runtime import log
    from mainstay.runtime.clock import SystemClock

    sources = read_sources(file=given.pop("config"))
    database = {"database": given.pop("database")}
    given["head_room"] = tuple(given["head_room"] or ()) or None
    config = load("bridge", BridgeConfig, sources, given).config
    tenancy = load("api", ApiConfig, sources, database).config
    clock = SystemClock()
    log.configure(clock)
    asyncio.run(serve_bridge(config, tenancy, Around(home_directory(), clock, say)))
