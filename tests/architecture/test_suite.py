"""How the suite itself behaves: tests/conftest.py run by another pytest, in a copy."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

import pytest

import outside

PACKAGE_LIST = """\
shell    command:sh                     there on every machine
unicorn  command:no-such-command-at-all  nowhere
"""

COPIED = (
    "tests/conftest.py", "tests/outside.py", "tests/tree.py",
    "tools/system_packages.py", "pyproject.toml",
)  # fmt: skip

PLUGINS = ("-p", "xdist", "-p", "_hypothesis_pytestplugin")
"""All that these runs need: others take seconds to import."""


class Suite:
    """A tiny project with our conftest and a few tests: path under tests/ to what is in it."""

    def __init__(self, root: Path, tests: Mapping[str, str]) -> None:
        for name in COPIED:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(outside.ROOT / name, root / name)
        (root / "system-packages.txt").write_text(PACKAGE_LIST)
        for name, text in tests.items():
            (root / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "tests" / name).write_text(text)
        self.root = root

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", *PLUGINS, "-q", "--color=no", "-rA", *arguments]
        env = outside.environment(COLUMNS="200", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", **variables)
        return outside.run(command, cwd=self.root, env=env)


MARKED = """\
import pytest

@pytest.mark.needs("shell")
def test_shell(): ...

@pytest.mark.needs("unicorn")
def test_unicorn(): ...

@pytest.mark.needs("griffin")
def test_griffin(): ...

@pytest.mark.data("kept")
def test_kept(data_dir): assert (data_dir / "kept").exists()

@pytest.mark.data("gone")
def test_gone(): assert False
"""

TESTS = {
    "unit/deep/test_marked.py": MARKED,
    "test_top.py": "def test_top(): ...\n",
    "slow/test_slow.py": "def test_slow(): assert sum(range(10_000_000))\n",
}

NO_UNICORN = "test_marked.py::test_unicorn  system package is absent: unicorn\n"
NO_DATA = "test_marked.py::test_gone     data is absent: gone\n"


def run_marked(root: Path, *arguments: str, **variables: str) -> str:
    (root / "data/kept").mkdir(parents=True)
    ended = Suite(root, TESTS).run(*arguments, MAINSTAY_DATA=str(root / "data"), **variables)
    assert ended.returncode == 1, ended.stdout + ended.stderr  # the griffin
    return ended.stdout


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints on a machine without unicorns."""
    return run_marked(tmp_path_factory.mktemp("usual"))


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same where every package is required."""
    return run_marked(tmp_path_factory.mktemp("strict"), MAINSTAY_REQUIRE_ALL="1")


def seconds_per_folder(printed: str) -> dict[str, float]:
    """The table of seconds, in its order."""
    lines = printed.split(" seconds per folder ")[1].splitlines()[1:]
    rows = [line.split() for line in takewhile(lambda line: line.startswith(" "), lines)]
    return {folder: float(seconds) for seconds, folder in rows}


class TestNeeds:
    def test_a_test_whose_package_is_there_runs(self, usual: str) -> None:
        assert "PASSED tests/unit/deep/test_marked.py::test_shell\n" in usual

    def test_a_missing_package_is_a_skip_that_names_it(self, usual: str) -> None:
        assert NO_UNICORN in usual

    def test_a_missing_package_is_a_failure_when_all_are_required(self, strict: str) -> None:
        assert "system package is absent: unicorn (MAINSTAY_REQUIRE_ALL)\n" in strict
        assert NO_UNICORN not in strict

    def test_a_package_that_is_not_on_the_list_is_an_error(self, usual: str) -> None:
        assert "not in system-packages.txt: griffin\n" in usual
        assert "1 error in" in usual


class TestWhatFailed:
    @pytest.mark.parametrize("workers", [[], ["-n", "2"]])
    def test_what_failed_is_written_where_it_is_asked_for(
        self, tmp_path: Path, workers: list[str]
    ) -> None:
        failed = tmp_path / "failed.txt"

        run_marked(tmp_path / "clone", "--failed-to", str(failed), *workers)

        assert failed.read_text() == "tests/unit/deep/test_marked.py::test_griffin\n"

    def test_nothing_is_written_when_nothing_failed(self, tmp_path: Path) -> None:
        failed = tmp_path / "failed.txt"

        ended = Suite(tmp_path / "clone", TESTS).run("--failed-to", str(failed), "-k", "shell")

        assert (ended.returncode, failed.exists()) == (0, False)


class TestData:
    def test_a_test_whose_data_is_there_runs(self, usual: str) -> None:
        assert "PASSED tests/unit/deep/test_marked.py::test_kept\n" in usual

    def test_missing_data_is_a_skip_that_names_it(self, usual: str) -> None:
        assert NO_DATA in usual

    def test_missing_data_is_a_skip_even_when_all_are_required(self, strict: str) -> None:
        """It is no part of the repository."""
        assert "test_marked.py::test_gone  data is absent: gone\n" in strict

    def test_without_a_name_the_folder_beside_the_clone_is_used(self, tmp_path: Path) -> None:
        (tmp_path / "shared/data/kept").mkdir(parents=True)

        ended = Suite(tmp_path / "clone", TESTS).run("-k", "kept")

        assert "1 passed" in ended.stdout

    def test_the_fixture_skips_when_there_is_no_folder_at_all(self, tmp_path: Path) -> None:
        suite = Suite(tmp_path, {"test_it.py": "def test_it(data_dir): ...\n"})

        ended = suite.run(MAINSTAY_DATA=str(tmp_path / "nowhere"))

        assert "test_it  no data: MAINSTAY_DATA names no folder\n" in ended.stdout


class TestSummary:
    def test_seconds_are_summed_per_folder_the_slowest_first(self, usual: str) -> None:
        table = seconds_per_folder(usual)

        assert table.keys() == {"slow", "tests", "unit"}
        assert table["slow"] > 0
        assert [*table.values()] == sorted(table.values(), reverse=True)

    def test_it_is_the_same_with_workers(self, tmp_path: Path) -> None:
        printed = run_marked(tmp_path, "-n", "2")

        assert seconds_per_folder(printed).keys() == {"slow", "tests", "unit"}
        assert NO_UNICORN in printed
        assert NO_DATA in printed


PROPERTY = """\
import pathlib
from hypothesis import given, settings, strategies as st

@given(st.integers())
def test_it(number):
    with pathlib.Path('seen.txt').open('a') as seen:
        print(number, file=seen)

def test_profile():
    assert settings.default.deadline is None
    assert settings.default.print_blob
"""


def seen(root: Path) -> list[str]:
    path = root / "seen.txt"
    lines = path.read_text().splitlines()
    path.unlink()
    return lines


class TestBudget:
    def test_random_tests_are_the_same_in_every_run_of_make_test(self, tmp_path: Path) -> None:
        suite = Suite(tmp_path, {"property/test_it.py": PROPERTY})

        first, second = [(suite.run(), seen(tmp_path)) for _ in range(2)]

        assert first[0].returncode == 0
        assert first[1] == second[1]
        assert len(first[1]) == 100
        assert " skipped " not in first[0].stdout  # nothing is said of skips where there are none

    def test_a_soak_tries_that_many_times_more_and_differs(self, tmp_path: Path) -> None:
        suite = Suite(tmp_path, {"property/test_it.py": PROPERTY})

        first, second = [(suite.run(MAINSTAY_SOAK="3"), seen(tmp_path)) for _ in range(2)]

        assert first[0].returncode == 0
        assert len(first[1]) == 300
        assert first[1] != second[1]
