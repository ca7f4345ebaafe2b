"""Each part started by hand, as the page says it."""

import socket

import outside
from together import a_home, typed

PAGE = outside.ROOT / "docs/how-to/run-the-parts.md"
USUAL = ("127.0.0.1:9000", "127.0.0.1:7780", "127.0.0.1:7790")


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_every_part_runs_alone_as_the_page_says() -> None:
    """At ports of the test's own, in place of the usual ones."""
    own = {usual: free_address() for usual in USUAL}

    def elsewhere(script: str) -> str:
        for usual, address in own.items():
            script = script.replace(usual, address)
        return script

    with a_home() as folder:
        typed(
            PAGE,
            cwd=folder,
            env={
                "MAINSTAY_SHARD_LISTEN": own["127.0.0.1:7780"],
                "MAINSTAY_SHARD_HTTP": "127.0.0.1:0",
                "MAINSTAY_COORDINATOR_LISTEN": own["127.0.0.1:7790"],
                "MAINSTAY_COORDINATOR_HTTP": "127.0.0.1:0",
            },
            change=elsewhere,
        )
