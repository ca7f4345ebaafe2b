"""A tutorial whose start fails says why, and does not wait for ever for what has died."""

import socket
from collections.abc import Mapping

import pytest

import outside
from together import a_home, tried

TUTORIALS = outside.ROOT / "docs/tutorial"


WAITED = "waited"


def the_start(script: str) -> str:
    """As far as it waits for what was started."""
    before, wait, after = script.partition("; do sleep 1; done\n")
    assert wait
    shown = "cat up.log\n" if after.startswith("cat up.log\n") else ""
    return f"{before}{wait}{shown}echo {WAITED}\n"


def started(name: str, env: Mapping[str, str]) -> str:
    with a_home() as folder:
        page = TUTORIALS / f"{name}.md"
        ended = tried(page, cwd=folder, env=env, change=the_start, timeout_s=240.0)
    assert WAITED in ended.stdout
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("name", ["first-fleet", "one-pool"])
def test_the_wait_for_a_fleet_that_cannot_start_ends_with_why(name: str) -> None:
    assert "up.seed must not be negative" in started(name, {"MAINSTAY_UP_SEED": "-1"})


def test_the_wait_for_an_api_whose_port_is_taken_ends_with_why() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        at = "{}:{}".format(*taken.getsockname())
        env = {
            "MAINSTAY_API_LISTEN": at,
            "MAINSTAY_API_AGENTS": "127.0.0.1:0",
            "MAINSTAY_SERVER": f"http://{at}",
        }
        said = started("first-allocation", env)

    assert said.splitlines()[-1].startswith(f"mainstay: cannot listen at {at}: ")


def test_every_tutorial_is_tried() -> None:
    found = {path.stem for path in TUTORIALS.glob("*.md")}
    assert found == {"first-fleet", "one-pool", "first-allocation"}
