"""The tutorial of tenancy, from its first line to its last, as a newcomer types it."""

import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import outside
import pages
from tree import BIN

PAGE: Final = outside.ROOT / "docs/tutorial/first-allocation.md"
TOGETHER: Final = "sh together"
SHOWN: Final = "text together"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def around(home: Path) -> dict[str, str]:
    """A home and ports of the test's own, in place of the usual ones."""
    api = f"127.0.0.1:{free_port()}"
    return outside.environment(
        PATH=f"{BIN}:{outside.environment()['PATH']}",
        PYTHONPATH=str(outside.ROOT / "src"),
        MAINSTAY_HOME=str(home),
        MAINSTAY_API_LISTEN=api,
        MAINSTAY_API_AGENTS="127.0.0.1:0",
        MAINSTAY_SERVER=f"http://{api}",
    )


@pytest.fixture
def home() -> Iterator[Path]:
    """Where a database can run as anybody, and which is gone afterwards with all that is in it."""
    folder = Path(tempfile.mkdtemp(prefix="mainstay-home-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_the_tutorial_runs_and_prints_what_it_says(tmp_path: Path, home: Path) -> None:
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

    ended = outside.run(
        ["bash", "-eu", "-o", "pipefail", "-m", "-c", guard + script],
        cwd=tmp_path,
        env=around(home),
        timeout_s=240,
    )

    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"
    assert pages.unseen(expected, ended.stdout) == [], ended.stdout
    assert "free now: 4 x h200-sxm-slice" in ended.stderr
    assert len(expected) > 15
