"""Set-up as a newcomer meets it: on a clone, with nothing installed."""

import shutil
import sys
from pathlib import Path

import pytest

import outside
import tree

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
