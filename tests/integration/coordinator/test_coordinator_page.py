"""The page on running a coordinator, from its first line to its last, as a newcomer types it."""

import re
import socket
from pathlib import Path
from typing import Final

import outside
import pages
from tree import BIN

PAGE: Final = outside.ROOT / "docs/how-to/run-a-coordinator.md"
TOGETHER: Final = "sh together"
SHOWN: Final = "text together"
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


def around(home: Path) -> dict[str, str]:
    """A home of the test's own, nothing at the usual ports, and shards that report often."""
    return outside.environment(
        PATH=f"{BIN}:{outside.environment()['PATH']}",
        MAINSTAY_HOME=str(home),
        MAINSTAY_COORDINATOR_HTTP="127.0.0.1:0",
        MAINSTAY_SHARD_LISTEN="127.0.0.1:0",
        MAINSTAY_SHARD_HTTP="127.0.0.1:0",
        MAINSTAY_SHARD_REPORT_INTERVAL_S="0.3",
    )


def test_the_page_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    blocks = pages.blocks(PAGE.read_text())
    script = "".join(block.text for block in blocks if block.info == TOGETHER)
    expected = [
        line
        for block in blocks
        if block.info == SHOWN
        for line in block.text.splitlines()
        if line.strip()
    ]
    guard = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n"
    listening = "export MAINSTAY_COORDINATOR_LISTEN=127.0.0.1:7790\n"

    ended = outside.run(
        ["bash", "-eu", "-o", "pipefail", "-m", "-c", on_free_ports(guard + listening + script)],
        cwd=tmp_path,
        env=around(tmp_path / "home"),
        timeout_s=240,
    )

    logs = "".join(path.read_text() for path in sorted(tmp_path.glob("*.log")))
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}{logs}"
    assert pages.unseen(expected, ended.stdout) == [], ended.stdout
    assert len(expected) > 10
