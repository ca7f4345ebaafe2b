"""`mainstay up` hands settings on: what is said where it is started is so in its processes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from running import until
from ups import PATIENCE_S, an_up, home_below

FILE: Final = """
[world]
gang = 9
machines = 77

[shard]
audit_log = false
domains = ["topology.kubernetes.io/zone=nowhere"]
"""


@pytest.fixture
def home() -> Iterator[Path]:
    with home_below(0o755) as path:
        yield path


def test_the_file_and_the_environment_reach_the_processes_and_what_up_decides_wins(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "mainstay.toml").write_text(FILE)
    settings = {
        "MAINSTAY_WORLD_GANG": "7",
        "MAINSTAY_WORLD_PKI": str(tmp_path),
        "MAINSTAY_SHARD_REPORT_INTERVAL_S": "3600",
        "MAINSTAY_COORDINATOR_COORDINATOR_ID": "of-another-fleet",
        "MAINSTAY_COORDINATOR_STORE_FILE": str(tmp_path / "other.db"),
    }
    with an_up(home, "--no-tenancy", fleet=60, here=tmp_path, settings=settings) as up:
        up.ready()

        gangs = ("get", "needs", "--cluster", "blue", "--unmet")
        (gang,) = until(lambda: [row for row in up.rows(*gangs) if row["group"] == "ensemble"])
        assert int(gang["asked"]["cpu"]) == 7 * int(gang["min_unit"]["cpu"])
        assert list(home.glob("shards/*")) != []
        assert list(home.glob("shards/*/audit")) == []

        assert up.fact("coordinator")["id"] == "coordinator-0"
        assert (home / "coordinator.db").exists()
        assert not list(tmp_path.glob("other.db*"))

        assert up.first_node_s() > 0
        assert {row["state"] for row in up.rows("get", "domains")} == {"held"}
        assert len(up.rows("get", "machines", "--limit", "0")) == 60
        assert up.stop() == 0


def test_a_setting_that_there_is_not_is_one_line_before_anything_is_started(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "wrong.toml").write_text("[world]\nshares = 0.9\n")
    with an_up(home, "--config", "wrong.toml", here=tmp_path) as up:
        assert up.process.wait(PATIENCE_S) == 1
    assert up.said == "mainstay: unknown setting in wrong.toml: world.shares\n"


def test_settings_of_another_fleet_are_one_line_before_anything_is_started(
    home: Path, tmp_path: Path
) -> None:
    """Not even what there was is forgotten."""
    (tmp_path / "mainstay.toml").write_text('[coordinator]\netcd = ["http://127.0.0.1:1"]\n')
    home.mkdir()
    (home / "coordinator.db").write_text("kept")
    with an_up(home, "--reset", here=tmp_path) as up:
        assert up.process.wait(PATIENCE_S) == 1

    assert up.said == (
        "mainstay: not for `mainstay up`: coordinator.etcd in mainstay.toml: its coordinator would"
        " stand for election in the fleet that is there; leave it out of what up reads, or run"
        " `mainstay coordinator` alone\n"
    )
    assert [path.name for path in home.iterdir()] == ["coordinator.db"]
    assert (home / "coordinator.db").read_text() == "kept"
