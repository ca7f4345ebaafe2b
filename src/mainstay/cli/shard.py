"""`mainstay shard`: decide which machine serves whom, and carry it out."""

from typing import Any, Final

import typer

from mainstay.cli.options import TLS, Option, takes

app = typer.Typer(add_completion=False)

OPTIONS: Final = (
    Option("config", str, "A TOML file with a section `shard`."),
    Option("shard_id", str, "Who this shard is, for ever.", flags=("--id",)),
    Option("providers", list[str], "NAME=HOST:PORT, once for each.", flags=("--provider",)),
    Option("listen", str, "HOST:PORT for sessions and questions; port 0 picks a free one."),
    Option("http", str, "Loopback HOST:PORT for /healthz, /readyz and /metrics."),
    Option(
        "domains",
        list[str],
        "A label KEY=VALUE that makes a machine ours, once for each.",
        flags=("--domain",),
    ),
    Option("data_dir", str, "What must survive a restart."),
    Option("coordinators", list[str], "HOST:PORT, once for each.", flags=("--coordinator",)),
    Option("advertise", str, "HOST:PORT by which others reach it; else where it listens."),
    Option("cycle_interval_s", float, "Seconds between looks.", flags=("--cycle-interval",)),
    Option("report_interval_s", float, "Seconds between reports.", flags=("--report-interval",)),
    Option("workers", int, "Actions at once through one provider."),
    Option("actuation_paused", bool, "Decide everything, do nothing.", flags=("--paused",)),
    Option("dry_run", bool, "Shadow mode: tell what would be done.", flags=("--dry-run",)),
    Option("joins", bool, "Take no machine before a domain is assigned.", flags=("--join",)),
    *TLS,
)


@app.command()
@takes(*OPTIONS)
def shard(**given: Any) -> None:
    """One shard: its providers, its clusters' sessions, a decision every cycle, until Ctrl-C."""
    import asyncio

    from mainstay.cli.provider import say
    from mainstay.config.load import home_directory, load, read_sources
    from mainstay.config.shard import ShardConfig
    from mainstay.processes.shard import Place, serve_shard
    from mainstay.runtime import log
    from mainstay.runtime.clock import SystemClock

    file = given.pop("config")
    for name in ("providers", "coordinators", "domains"):
        given[name] = tuple(given[name] or ()) or None
    config = load("shard", ShardConfig, read_sources(file=file), given).config
    clock = SystemClock()
    log.configure(clock)
    asyncio.run(serve_shard(config, Place(home_directory(), clock, say)))
