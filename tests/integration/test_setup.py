"""Set-up as a newcomer meets it: on a clone, with nothing installed."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import outside
import tree
from running import until
from ups import all_gone, below

pytestmark = [pytest.mark.needs("git"), pytest.mark.needs("make")]

VERBS = ("install", "install-dev", "packages", "up", "check", "test", "unit", "soak", "bench",
         "docs", "wheel", "lock", "clean")  # fmt: skip

OLD_PYTHON = """\
#!{python}
import runpy, sys
sys.version_info = (3, 9, 2, "final", 0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


IS_INSTALLED = "import install, sys; sys.exit(not any(map(install.is_current, install.LOCKS)))"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a clone of this work would hold, committed or not."""
    root = tmp_path / "clone"
    for path in tree.files():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(outside.ROOT / path, root / path)
    return root


@pytest.fixture
def old_machine(tmp_path: Path) -> dict[str, str]:
    """An environment whose only Python says it is 3.9."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("make", "sh", "awk", "git"):
        (commands / name).symlink_to(shutil.which(name) or name)
    python = commands / "python3"
    python.write_text(OLD_PYTHON.format(python=sys.executable))
    python.chmod(0o755)
    return outside.environment(PATH=str(commands))


def test_make_alone_prints_the_verbs(clone: Path) -> None:
    ended = outside.run(["make"], cwd=clone)

    assert (ended.returncode, ended.stderr) == (0, "")
    shown = [line.split()[:2] for line in ended.stdout.splitlines()]
    assert [["make", verb] for verb in VERBS if ["make", verb] not in shown] == []
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize("verb", ["install", "install-dev", "up", "test"])
def test_an_old_python_gets_one_clear_line(
    clone: Path, old_machine: dict[str, str], verb: str
) -> None:
    ended = outside.run(["make", verb], cwd=clone, env=old_machine)

    ours = [line for line in ended.stderr.splitlines() if not line.startswith("make: ")]
    assert ended.returncode != 0
    assert ended.stdout == ""
    assert ours == [
        "mainstay set-up: Mainstay needs Python 3.11 or later, this is 3.9: install one, or name"
        " it: make PYTHON=/path/to/python3"
    ]
    assert not (clone / ".venv").exists()


def test_the_installer_itself_ends_with_one(clone: Path, old_machine: dict[str, str]) -> None:
    ended = outside.run(["python3", "tools/install.py", "dev"], cwd=clone, env=old_machine)

    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1


def test_a_clone_needs_nothing_that_is_not_in_it(clone: Path) -> None:
    """The installer runs from the files of a clone, with the standard library alone."""
    ended = outside.run([sys.executable, "-I", "tools/install.py", "nonsense"], cwd=clone)

    assert ended.returncode == 1
    assert ended.stderr == "mainstay set-up: usage: python3 tools/install.py {runtime|dev}\n"


def test_make_up_comes_to_a_first_node_and_ctrl_c_ends_it_all(tmp_path: Path) -> None:
    """In this very tree, whose set-up is done; what a terminal tells, it tells all of them."""
    installed = outside.run([sys.executable, "-c", IS_INSTALLED], cwd=outside.ROOT / "tools")
    if installed.returncode:
        told = "`.venv` is not what `make install-dev` would make now"
        (pytest.fail if outside.require_all() else pytest.skip)(told)
    log, home = tmp_path / "up.log", tmp_path / "home"
    env = outside.environment(
        MAINSTAY_HOME=str(home), MAINSTAY_UP_FREE_PORTS="true", MAINSTAY_UP_FLEET="120",
        MAINSTAY_UP_TENANCY="false",
    )  # fmt: skip
    with log.open("wb") as written:
        make = subprocess.Popen(
            ["make", "up", f"PYTHON={sys.executable}"], cwd=outside.ROOT, env=env,
            stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True,
        )  # fmt: skip
    try:
        until(
            lambda: "Ctrl-C stops everything." in log.read_text() or make.poll() is not None,
            patience_s=240.0,
        )
        assert "The first node serves after" in log.read_text()
        pids = below(make.pid)
        assert len(pids) > 5
        os.killpg(make.pid, signal.SIGINT)
        make.wait(120.0)
        until(lambda: all_gone(pids))
        assert log.read_text().count("Stopped.") == 1
    finally:
        if make.poll() is None:
            os.killpg(make.pid, signal.SIGKILL)
            make.wait()
