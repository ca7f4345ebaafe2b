"""`mainstay up --reset` begins anew where root's folders are closed, too; what it prints is so."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

import outside
from mainstay.bench.tree_memory import pss_mb
from mainstay.bench.up import BUDGET, PROMISED_AT
from mainstay.processes.database import running_at
from mainstay.tenancy.database.cluster import ELSEWHERE, _named
from running import until
from tree import BIN
from ups import PATIENCE_S, Up, all_gone, an_up, home_below

FLEET: Final = PROMISED_AT


@pytest.fixture
def home() -> Iterator[Path]:
    """Below a folder that only we can enter."""
    with home_below(0o700) as path:
        yield path


def note(home: Path, statement: str) -> list[tuple[object, ...]]:
    url = running_at(home)
    assert url is not None
    with psycopg.connect(url, autocommit=True) as connection:
        done = connection.execute(statement)
        return done.fetchall() if done.description else []


def elsewhere(home: Path) -> list[Path]:
    return sorted(ELSEWHERE.glob(f"{_named(home / 'postgres')}*"))


def test_reset_forgets_tenants_and_their_database_and_what_is_printed_can_be_tried(
    home: Path,
) -> None:
    with an_up(home) as up:
        up.ready()
        note(home, "create table notes (note text)")
        keys = (home / "tenancy" / "credentials.json").read_text()
        before, pids = elsewhere(home), up.pids()
        assert up.fact("postgres")["server_pid"] in pids
        assert up.stop() == 0
        assert all_gone(pids)
    with an_up(home, "--reset", fleet=FLEET) as anew:
        anew.ready()
        assert sum(pss_mb(anew.process.pid, {anew.process.pid: "all"}).values()) < BUDGET["pss_mb"]
        assert note(home, "select to_regclass('notes')") == [(None,)]
        assert (home / "tenancy" / "credentials.json").read_text() != keys
        assert len(elsewhere(home)) == len(before)
        assert not {*elsewhere(home)} & {*before}
        assert anew.rows("alloc", "list") == []
        until(lambda: len(anew.rows("get", "machines", "--limit", "0")) == FLEET)
        _try_what_is_printed(anew)
        pids = anew.pids()
        anew.kill()
        until(lambda: all_gone(pids))
    with an_up(home, "--reset", "--no-tenancy", "--once") as last:
        assert last.process.wait(PATIENCE_S) == 0
        assert elsewhere(home) == []


def _try_what_is_printed(up: Up) -> None:
    lines = up.said.partition("In another terminal, try:\n")[2].splitlines()
    (setting, *things) = [line.strip() for line in lines[: lines.index("Ctrl-C stops everything.")]]
    assert setting == f"export MAINSTAY_HOME={up.home}"
    seen = dict(zip(things, ("machines", "ensemble", "Nothing was done."), strict=True))
    for thing, word in seen.items():
        said = _typed(f"{setting}\n{thing}", up.home / "typed.log", until_seen=word)
        assert word in said, f"{thing}: {said}"


def _typed(script: str, log: Path, *, until_seen: str) -> str:
    """What a shell prints for it; `top` goes on until it is told to stop, once it was seen."""
    env = outside.environment(NO_COLOR="1", COLUMNS="200")
    env["PATH"] = f"{BIN}:{env['PATH']}"
    with log.open("wb") as written:
        shell = subprocess.Popen(
            ["bash", "-e", "-c", script.replace("\nmainstay", "\nexec mainstay")],
            env=env, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
        )  # fmt: skip
    try:
        until(lambda: until_seen in log.read_text() or shell.poll() is not None)
    finally:
        shell.kill()
        shell.wait()
    return log.read_text()
