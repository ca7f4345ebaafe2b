"""All of `mainstay up` dies at once, without the providers and with them: nobody loses a machine.

The processes are those of `up`'s own plan, each started alone, so that the world can outlive them
and count who calls it.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg.rows import dict_row

import down_and_up
from down_and_up import AT_REST, GONE, STEPS
from mainstay.cli.client import Client
from mainstay.config.up import UpConfig
from mainstay.model.state import State
from mainstay.processes.database import running_at
from mainstay.processes.up_ground import certified, free_ports
from mainstay.processes.up_plan import SHARDS, Part, Stage, parts
from mainstay.runtime.clock import SystemClock
from mainstay.tenancy.credentials import kept
from running import Home, Process, at_home, until

SETTINGS: Final = """
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

ORDER: Final = {"sku": "h200-sxm-baremetal-8g", "gpus": 8, "region": "region-1"}


@dataclass(slots=True)
class Whole:
    """The processes of `up`, by name."""

    home: Home
    stage: Stage
    running: dict[str, Process] = field(default_factory=dict)

    def start(self) -> None:
        """Those that do not run, each when what it stands on does."""
        for part in sorted(parts(self.stage), key=lambda each: len(each.after)):
            if part.name not in self.running:
                self._begin(part)

    def _begin(self, part: Part) -> None:
        if part.ends:
            assert self.home.run(*part.words).returncode == 0
        else:
            self.running[part.name] = self.home.start(part.words[0], *part.words)

    def kill_all_but(self, *left: str) -> None:
        """At once; the server dies with the process that runs it."""
        server = self.running["postgres"].facts["server_pid"]
        dying = [each for name, each in self.running.items() if name not in left]
        for process in dying:
            process.popen.send_signal(signal.SIGKILL)
        for process in dying:
            process.popen.wait()
        until(lambda: not is_alive(server))
        self.running = {name: self.running[name] for name in left}

    def calls(self, *kinds: str) -> dict[tuple[str, str], float]:
        """How often each call came to each provider: these kinds, or all."""
        return down_and_up.calls(lambda path: self.running["world"].page(path)[1], *kinds)

    def machines(self) -> dict[str, tuple[State, str]]:
        return down_and_up.machines(self.home.path)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        url = running_at(self.home.path)
        assert url is not None
        with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
            return connection.execute(statement).fetchall()

    def nodes(self) -> list[dict[str, Any]]:
        return self.rows(
            "select node_id, machine, incarnation, state from bridge_nodes order by node_id"
        )

    def client(self) -> Client:
        key = kept(self.home.path, "tenant")
        assert key is not None
        return Client(self.running["tenancy"].facts["addresses"]["api"], key)

    def statuses(self) -> dict[str, str]:
        found = self.client().get("/allocations")["items"]
        return {each["allocation_id"]: each["status"] for each in found}

    def audited(self) -> dict[str, list[dict[str, Any]]]:
        return down_and_up.audited(self.home.path)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def whole() -> Iterator[Whole]:
    folder = Path(tempfile.mkdtemp(prefix="mainstay-home-"))
    folder.chmod(0o755)
    with at_home(folder / "home") as home:
        (home.path / "mainstay.toml").write_text(SETTINGS)
        config = UpConfig(fleet=120, cycle_interval_s=0.5)
        stage = Stage(config, home.path, free_ports())
        certified(home.path, SystemClock())
        yield Whole(home, stage)
    until(lambda: _is_gone(folder))


def _is_gone(folder: Path) -> bool:
    """A database that was killed may still be writing."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def settled(whole: Whole) -> bool:
    """Every machine is where it stays, and nobody is on the way to another."""
    before = whole.calls(*STEPS)
    seen = [each.metric("mainstay_shard_cycle_seconds_count") for each in shards(whole)]
    until(lambda: all(
        each.metric("mainstay_shard_cycle_seconds_count") >= at + 4
        for each, at in zip(shards(whole), seen, strict=True)
    ))  # fmt: skip
    if any(down_and_up.under_way(each.page("/metrics")[1]) for each in shards(whole)):
        return False
    states = {state for state, _ in whole.machines().values()}
    return states <= AT_REST and whole.calls(*STEPS) == before


def shards(whole: Whole) -> list[Process]:
    return [whole.running[name] for name in SHARDS]


def all_answer(whole: Whole) -> bool:
    return (
        whole.running["tenancy"].metric("mainstay_bridge_connected") == 1
        and whole.running["tenancy"].metric("mainstay_bridge_nodes", state="open") == 1
        and whole.running["dashboard"].page("/")[0] == 200
        and all(each.page("/readyz")[0] == 200 for each in shards(whole))
    )


def test_when_all_is_down_nobody_loses_a_machine_and_nothing_is_done_to_any(whole: Whole) -> None:
    """First all but the providers, who count who calls them; then they, too."""
    whole.start()
    held = {str(whole.client().post("/allocations", ORDER)["allocation_id"]) for _ in range(2)}
    request = whole.client().post("/capacity-requests", ORDER)["request_id"]  # from the pool
    asked = f"/capacity-requests/{request}"
    held.add(str(until(lambda: whole.client().get(asked)["allocation_id"])))
    until(lambda: whole.statuses() == dict.fromkeys(held, "active"))
    until(lambda: settled(whole))

    nodes, machines = whole.nodes(), whole.machines()
    assert [node["state"] for node in nodes] == ["open"]
    serving = {name: bound for name, bound in machines.items() if bound[0] is State.CONFIGURED}
    assert {cluster for _, cluster in serving.values()} == {"blue", "green", "red", "tenants"}
    steps, lines = whole.calls(*STEPS), whole.audited()
    assert sum(steps.values()) > 0
    for left, counted in ((("world",), steps), ((), {})):
        lists = sum(whole.calls("list").values()) if left else 0.0
        whole.kill_all_but(*left)
        assert whole.machines() == machines
        whole.start()

        # Up again: the same allocations, the same nodes, and nothing was done to any machine.
        until(lambda: all_answer(whole))
        until(lambda: settled(whole))
        assert sum(whole.calls("list").values()) > lists  # they were asked, and nothing else
        assert {call: count for call, count in whole.calls(*STEPS).items() if count} == counted
        assert whole.statuses() == dict.fromkeys(held, "active")
        assert whole.nodes() == nodes
        assert {name: whole.machines()[name] for name in serving} == serving
        for shard, now in whole.audited().items():
            since = now[len(lines[shard]) :]
            assert [line for line in since if line["kind"] in GONE] == []
