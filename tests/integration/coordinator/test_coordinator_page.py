"""The page on running a coordinator, from its first line to its last, as a newcomer types it."""

import re
import socket
from pathlib import Path
from typing import Final

import outside
from together import typed

PAGE: Final = outside.ROOT / "docs/how-to/run-a-coordinator.md"
ADDRESS: Final = re.compile(r"127\.0\.0\.1:\d+")


def on_free_ports(script: str) -> str:
    """The same script with ports of the test's own in place of the usual ones."""
    named = sorted({*ADDRESS.findall(script)})
    sockets = [socket.socket() for _ in named]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    free = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    chosen = dict(zip(named, free, strict=True))
    return ADDRESS.sub(lambda match: chosen[match[0]], script)


def test_the_page_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    """With a home of the test's own, nothing at the usual ports, and shards that report often."""
    listening = "export MAINSTAY_COORDINATOR_LISTEN=127.0.0.1:7790\n"

    typed(
        PAGE,
        cwd=tmp_path,
        env={
            "MAINSTAY_HOME": str(tmp_path / "home"),
            "MAINSTAY_COORDINATOR_HTTP": "127.0.0.1:0",
            "MAINSTAY_SHARD_LISTEN": "127.0.0.1:0",
            "MAINSTAY_SHARD_HTTP": "127.0.0.1:0",
            "MAINSTAY_SHARD_REPORT_INTERVAL_S": "0.3",
        },
        change=lambda script: on_free_ports(listening + script),
    )
