"""A shard knows no coordinator: its tests pass in a process where none can be imported."""

import sys
from typing import Final

import outside

PROGRAM: Final = """
import sys
sys.modules["mainstay.coordinator"] = None  # importing it now raises
sys.modules["mainstay.uplink"] = None
import pytest
sys.exit(pytest.main(["-q", "-n0", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""

WITHOUT: Final = (
    "tests/unit/shard",
    "tests/simulation/test_whole_shard.py::test_demand_becomes_machines_that_serve",
)

FOLDERS: Final = ("tests/unit/shard", "tests/simulation")
BESIDE_ONE: Final = (
    "tests/unit/shard/test_ownership_strays.py",
    "tests/simulation/test_quota_of_strays.py",
    "tests/simulation/test_rebalancing.py",
    "tests/simulation/test_relabelled.py",
    "tests/simulation/test_shard_static_stability_sentences.py",
)
"""Tests of a shard beside a coordinator. This list may only shrink."""

IGNORED: Final = tuple(f"--ignore={each}" for each in BESIDE_ONE)


def without_coordinator(*tests: str, program: str = PROGRAM) -> int:
    return outside.run([sys.executable, "-c", program, *tests], timeout_s=300).returncode


def test_a_shard_works_where_no_coordinator_can_be_imported() -> None:
    assert without_coordinator(*WITHOUT, *IGNORED) == 0


def test_all_tests_of_a_shard_but_those_beside_a_coordinator_can_be_imported_there() -> None:
    assert without_coordinator("--collect-only", *FOLDERS, *IGNORED) == 0


def test_importing_it_there_would_fail() -> None:
    """Or the test above would say nothing."""
    importing = PROGRAM.replace("import pytest", "import mainstay.coordinator")

    assert without_coordinator(program=importing) == 1
