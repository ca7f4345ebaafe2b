"""What every test may use: the markers `needs` and `data`, the fixture `data_dir`, the summary.

No magic: a test that is skipped says why on a line, and the summary lists them all.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

import outside
from tree import load_tool

EXAMPLES: Final = 100

packages = load_tool("system_packages")
PACKAGES: Final[dict[str, Any]] = {
    package.name: package
    for package in packages.read((outside.ROOT / "system-packages.txt").read_text())
}

settings.register_profile(
    "mainstay",
    max_examples=outside.examples(EXAMPLES),
    derandomize=outside.soak_factor() == 1,  # `make test` passes or fails, the same each time
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no fault of the code
)
settings.load_profile("mainstay")


@pytest.fixture
def data_dir() -> Path:
    """Where recorded data is; the test is skipped when there is none."""
    directory = outside.data_directory()
    if directory is None:
        pytest.skip("no data: MAINSTAY_DATA names no folder")
    return directory


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            _check_package(name)
    for mark in item.iter_markers("data"):
        for path in mark.args:
            _check_data(path)


def _check_package(name: str) -> None:
    if name not in PACKAGES:
        pytest.fail(f"not in system-packages.txt: {name}", pytrace=False)
    if packages.is_present(PACKAGES[name]):
        return
    if outside.require_all():
        pytest.fail(f"system package is absent: {name} (MAINSTAY_REQUIRE_ALL)", pytrace=False)
    pytest.skip(f"system package is absent: {name}")


def _check_data(path: str) -> None:
    directory = outside.data_directory()
    if directory is None or not (directory / path).exists():
        pytest.skip(f"data is absent: {path}")


def pytest_sessionfinish() -> None:
    """Stop the servers that tests have started, in every worker."""
    if "postgres" in sys.modules:
        sys.modules["postgres"].stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("skipped")
        rows = sorted((report.nodeid, _reason(report.longrepr)) for report in skipped)
        width = max(len(test) for test, _ in rows)
        for test, reason in rows:
            terminalreporter.line(f"{test:<{width}}  {reason}")
    reports = (report for group in terminalreporter.stats.values() for report in group)
    terminalreporter.section("seconds per folder")
    for folder, seconds in _seconds_per_folder(reports):
        terminalreporter.line(f"{seconds:9.2f}  {folder}")


def _reason(longrepr: object) -> str:
    text = str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ")


def _seconds_per_folder(reports: Iterable[object]) -> list[tuple[str, float]]:
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        if isinstance(report, pytest.TestReport):
            seconds[_folder(report.nodeid)] += report.duration
    return sorted(seconds.items(), key=lambda row: row[1], reverse=True)


def _folder(nodeid: str) -> str:
    """The first folder under tests/, or `tests` for a file that is in none."""
    parts = Path(nodeid.partition("::")[0]).parts
    below = parts[parts.index("tests") + 1 :] if "tests" in parts else parts
    return below[0] if len(below) > 1 else "tests"
