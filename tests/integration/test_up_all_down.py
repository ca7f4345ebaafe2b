"""Every process of `mainstay up` is killed at once, its supervisor among them."""

import os
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

import down_and_up
from down_and_up import AT_REST, GONE, STEPS
from mainstay.model.state import State
from running import until
from ups import Up, all_gone, an_up, home_below

SETTINGS: Final = """
[up]
cycle_interval_s = 0.5

[world]
every_s = 3600.0
day_s = 7200.0

[bridge]
every_s = 0.2
settle_s = 1.0
simulate_phase_s = 0.01

[api]
simulate_phase_s = 0.01
"""
"""Demand that stays as it is: whatever is given back then is given back by mistake."""

ORDER: Final = ("--sku", "h200-sxm-baremetal-8g", "--gpus", "8", "--region", "region-1")


@pytest.fixture
def home() -> Iterator[Path]:
    with home_below(0o755) as path:
        path.mkdir()
        (path / "mainstay.toml").write_text(SETTINGS)
        yield path


def page(up: Up, process: str, path: str) -> str:
    """Of its only one, or of the one of this id."""
    kind, _, name = process.partition("/")
    facts = up.facts(kind)[name] if name else up.fact(kind)
    at = facts["addresses"]["http"].removeprefix("http://")
    with urllib.request.urlopen(f"http://{at}{path}", timeout=10) as answer:
        return str(answer.read().decode())


def steps(up: Up) -> dict[tuple[str, str], float]:
    """Calls that change a machine, by provider."""
    found = down_and_up.calls(lambda path: page(up, "world", path), *STEPS)
    return {call: count for call, count in found.items() if count}


def cycles(up: Up) -> list[float]:
    """How many each shard has had in this life."""
    name = "\nmainstay_shard_cycle_seconds_count "
    return [float(text.partition(name)[2].split("\n")[0]) for text in metrics(up)]


def metrics(up: Up) -> list[str]:
    """A page of each shard."""
    return [page(up, f"shard/{shard}", "/metrics") for shard in ("shard-a", "shard-b")]


def settled(up: Up) -> bool:
    """Every machine is where it stays, and nobody is on the way to another."""
    before, seen = steps(up), cycles(up)
    until(lambda: all(now >= at + 4 for now, at in zip(cycles(up), seen, strict=True)))
    if any(map(down_and_up.under_way, metrics(up))):
        return False
    states = {state for state, _ in down_and_up.machines(up.home).values()}
    return states <= AT_REST and steps(up) == before


def statuses(up: Up) -> dict[str, str]:
    return {each["allocation"]: each["status"] for each in up.rows("alloc", "list")}


def test_when_every_process_is_killed_at_once_nobody_loses_anything_by_it(home: Path) -> None:
    config = ("--config", str(home / "mainstay.toml"))
    with an_up(home, *config) as up:
        up.ready()
        held = {up.run("alloc", "create", *ORDER).strip() for _ in range(2)}
        until(lambda: statuses(up) == dict.fromkeys(held, "active"))
        until(lambda: settled(up))
        assert steps(up)
        pids = up.pids()
        for pid in pids:
            with suppress(ProcessLookupError):  # gone with the one above it
                os.kill(pid, signal.SIGKILL)
        up.kill()
        until(lambda: all_gone(pids))
    machines, lines = down_and_up.machines(home), down_and_up.audited(home)
    serving = {name: bound for name, bound in machines.items() if bound[0] is State.CONFIGURED}
    assert {cluster for _, cluster in serving.values()} >= {"blue", "green", "red"}

    with an_up(home, *config) as again:
        again.ready()
        until(lambda: statuses(again) == dict.fromkeys(held, "active"))
        until(lambda: settled(again))
        assert steps(again) == {}
        now = down_and_up.machines(home)
        assert {name: now[name] for name in serving} == serving
        for shard, all_ in down_and_up.audited(home).items():
            since = all_[len(lines[shard]) :]
            assert [line for line in since if line["kind"] in GONE] == []
        assert again.stop() == 0
