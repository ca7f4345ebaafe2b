"""What every test may use: the markers `needs` and `data`, the fixture `data_dir`, the summary.

No magic: a test that is skipped says why on a line, and the summary lists them all.
"""

import signal
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from typing_extensions import override
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

import outside
from tree import load_tool

EXAMPLES: Final = 100

TOGETHER: Final = ("browser", "integration/coordinator")
"""Files of such a folder share what lives as long as a worker does: a fleet, a cluster of etcd."""

LONGEST: Final = (
    "integration/coordinator",
    "integration/bridge/test_bridge_kills.py",
    "integration/tenancy/test_event_crashes.py",
    "integration/test_one_pool.py",
    "integration/test_up.py",
    "integration/bridge/test_bridge.py",
    "integration/test_readme.py",
    "integration/test_the_parts.py",
    "integration/test_ec2_on_moto.py",
    "integration/tenancy/test_temporal.py",
    "integration/tenancy/test_worker_kills.py",
    "integration/test_everything_down.py",
    "integration/test_soak_shard.py",
    "integration/test_first_fleet.py",
    "integration/test_first_allocation.py",
    "integration/test_sessions.py",
    "integration/test_conformance.py",
    "property/test_engine_agrees_with_the_oracle.py",
    "property/test_inventory_agrees_with_plain_model.py",
    "property/test_listing.py",
    "property/test_coordinator_handover.py",
)
"""What takes longest is begun first, so that at the end no worker is waited for."""

FOLDERS: Final = ("integration", "property", "simulation", "browser", "scenarios", "architecture")
"""Then these, and what is quick at the end."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As it is in the background of a script: whoever is started here must hear Ctrl-C all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # As `nohup` has it: whoever is started here must hear that its terminal is closed all the same.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--failed-to", type=Path, help="write the ids of what failed here, a line each"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _turn(_unit(item.nodeid)))


def _unit(nodeid: str) -> str:
    """What goes to one worker as a whole: a file, or a folder of which all is done together."""
    path = _below(nodeid)
    return next((folder for folder in TOGETHER if path.startswith(f"{folder}/")), path)


def _turn(unit: str) -> int:
    """When it is begun."""
    if unit in LONGEST:
        return LONGEST.index(unit)
    folder = unit.partition("/")[0]
    return len(LONGEST) + (FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS))


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Each unit to one worker, in the order in which we want them begun."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        return _unit(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    config.option.loadscopereorder = False
    return ByFile(config, log)


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
    for name in ("nursery", "postgres"):
        if name in sys.modules:
            sys.modules[name].stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    path: Path | None = terminalreporter.config.getoption("--failed-to")
    if path is not None and exitstatus == pytest.ExitCode.TESTS_FAILED:
        stats = terminalreporter.stats
        failed = {each.nodeid for each in (*stats.get("failed", ()), *stats.get("error", ()))}
        path.write_text("".join(f"{nodeid}\n" for nodeid in sorted(failed)), encoding="utf-8")
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("skipped")
        rows = sorted((report.nodeid, _reason(report.longrepr)) for report in skipped)
        width = max(len(test) for test, _ in rows)
        for test, reason in rows:
            terminalreporter.line(f"{test:<{width}}  {reason}")
    measured = [
        (report.nodeid, value)
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "measured"
    ]
    if measured:
        terminalreporter.section("measured, on a busy machine")
        for test, value in sorted(measured):
            terminalreporter.line(f"{_below(test)}  {value}")
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
    folder, below, _ = _below(nodeid).partition("/")
    return folder if below else "tests"


def _below(nodeid: str) -> str:
    """The path of its file below tests/."""
    parts = Path(nodeid.partition("::")[0]).parts
    return "/".join(parts[parts.index("tests") + 1 :] if "tests" in parts else parts)
