"""The tutorial of tenancy, from its first line to its last, as a newcomer types it."""

import socket

import outside
from together import a_home, typed

PAGE = outside.ROOT / "docs/tutorial/first-allocation.md"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_tutorial_runs_and_prints_what_it_says() -> None:
    """With a home and ports of the test's own, in place of the usual ones."""
    api = f"127.0.0.1:{free_port()}"
    with a_home() as folder:
        said = typed(
            PAGE,
            cwd=folder,
            env={
                "MAINSTAY_API_LISTEN": api,
                "MAINSTAY_API_AGENTS": "127.0.0.1:0",
                "MAINSTAY_SERVER": f"http://{api}",
            },
        )

    assert "free now: 4 x h200-sxm-slice" in said
