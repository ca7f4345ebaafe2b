"""`mainstay coordinator`: keep who owns what, and move capacity between shards."""

from typing import Any, Final

import typer

from mainstay.cli.options import TLS, Option, takes

app = typer.Typer(add_completion=False)

OPTIONS: Final = (
    Option("config", str, "A TOML file with a section `coordinator`."),
    Option("coordinator_id", str, "Who this is among those that may lead.", flags=("--id",)),
    Option("listen", str, "HOST:PORT for shards and questions; port 0 picks a free one."),
    Option("http", str, "Loopback HOST:PORT for /healthz, /readyz and /metrics."),
    Option("advertise", str, "HOST:PORT where others reach us, if it is not the above."),
    Option("etcd", list[str], "http://HOST:PORT, once for each member; none: one file."),
    Option("store_file", str, "That file.", flags=("--store-file",)),
    Option("fleet", str, "Which fleet this is, where an etcd holds several."),
    Option("rebalance", bool, "Move capacity between shards.",
           flags=("--rebalance/--no-rebalance",)),
    Option("rebalance_interval_s", float, "Seconds between looks.",
           flags=("--rebalance-interval",)),
    Option("report_interval_s", float, "Seconds between reports of a shard.",
           flags=("--report-interval",)),
    Option("snapshot_export_dir", str, "Where the leader writes its state at intervals."),
    Option("snapshot_export_interval_s", float, "Seconds between exports.",
           flags=("--snapshot-export-interval",)),
    *TLS,
)  # fmt: skip


@app.command()
@takes(*OPTIONS)
def coordinator(**given: Any) -> None:
    """One coordinator of a fleet, off the hot path: any number may run, one of them leads."""
    import asyncio

    from mainstay.cli.provider import say
    from mainstay.config.coordinator import CoordinatorConfig
    from mainstay.config.load import home_directory, load, read_sources
    from mainstay.processes.coordinator import Place, serve_coordinator
    from mainstay.runtime import log
    from mainstay.runtime.clock import SystemClock

    file = given.pop("config")
    given["etcd"] = tuple(given["etcd"] or ()) or None
    config = load("coordinator", CoordinatorConfig, read_sources(file=file), given).config
    clock = SystemClock()
    log.configure(clock)
    asyncio.run(serve_coordinator(config, Place(home_directory(), clock, say)))
