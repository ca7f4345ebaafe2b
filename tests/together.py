"""Pages whose commands belong together: one shell runs all of them, as a newcomer types them."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import outside
import pages
from tree import BIN

TYPED: Final = "sh together"
SHOWN: Final = "text together"
GUARD: Final = "trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT\n"


@contextmanager
def a_home() -> Iterator[Path]:
    """Where a database can run as anybody, and which is gone afterwards with all that is in it."""
    folder = Path(tempfile.mkdtemp(prefix="mainstay-home-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _as_it_is(script: str) -> str:
    return script


def tried(
    page: Path, *, cwd: Path, env: Mapping[str, str],
    change: Callable[[str], str] = _as_it_is, timeout_s: float = 240.0,
) -> "subprocess.CompletedProcess[str]":  # fmt: skip
    """How the commands of a page end; `change` is made to the script before."""
    blocks = pages.blocks(page.read_text())
    script = "".join(block.text for block in blocks if block.info == TYPED)
    return outside.run(
        ["bash", "-eu", "-o", "pipefail", "-m", "-c", change(GUARD + script)],
        cwd=cwd,
        env={
            **outside.environment(
                PATH=f"{BIN}:{outside.environment()['PATH']}",
                PYTHONPATH=str(outside.ROOT / "src"),
            ),
            **env,
        },
        timeout_s=timeout_s,
    )


def typed(
    page: Path,
    *,
    cwd: Path,
    env: Mapping[str, str],
    change: Callable[[str], str] = _as_it_is,
    timeout_s: float = 240.0,
) -> str:
    """What the commands of a page print, on both streams, if all of them end well and show all that
    the page says they do.
    """
    blocks = pages.blocks(page.read_text())
    expected = [
        line
        for block in blocks
        if block.info == SHOWN
        for line in block.text.splitlines()
        if line.strip()
    ]
    ended = tried(page, cwd=cwd, env=env, change=change, timeout_s=timeout_s)
    logs = "".join(path.read_text() for path in sorted(cwd.glob("*.log")))
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}{logs}"
    assert expected
    assert pages.unseen(expected, ended.stdout) == [], ended.stdout
    return ended.stdout + ended.stderr
