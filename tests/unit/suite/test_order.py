"""In which order the files of tests are begun, and what goes to one worker as a whole."""

from dataclasses import dataclass

import pytest

import conftest
import outside

TESTS = outside.ROOT / "tests"


@dataclass
class Item:
    """All that is asked of a test."""

    nodeid: str


def ordered(*nodeids: str) -> list[str]:
    items: list[pytest.Item] = [Item(nodeid) for nodeid in nodeids]  # type: ignore[misc]
    conftest.pytest_collection_modifyitems(items)
    return [item.nodeid for item in items]


def test_what_is_named_is_there() -> None:
    named = {*conftest.LONGEST, *conftest.TOGETHER, *conftest.FOLDERS}

    assert [name for name in sorted(named) if not (TESTS / name).exists()] == []


def test_the_longest_come_first_and_the_tests_of_a_file_in_their_order() -> None:
    quick = ["tests/unit/a/test_a.py::test_2", "tests/unit/a/test_a.py::test_1"]
    usual = "tests/integration/test_other.py::test_it"
    longest = [f"tests/{name}::test_it" for name in conftest.LONGEST if name.endswith(".py")]

    assert ordered(*quick, usual, *reversed(longest)) == [*longest, usual, *quick]


def test_a_file_is_a_unit_and_so_is_a_folder_whose_files_share_something() -> None:
    units = {
        conftest._unit(nodeid)
        for nodeid in (
            "tests/browser/test_a.py::test_1", "tests/browser/test_b.py::TestIt::test_2[a/b]",
            "tests/unit/test_a.py::test_1", "tests/unit/test_a.py::test_2",
        )
    }  # fmt: skip

    assert units == {"browser", "unit/test_a.py"}
