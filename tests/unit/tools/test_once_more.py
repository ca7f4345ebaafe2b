"""tools/once_more.py: which tests that have failed are run once more, and what is said of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tree import load_tool

tool = load_tool("once_more")

REAL = "tests/integration/test_up.py::test_it_starts[a b]"


class Runs:
    """Keeps what it is told to run, and ends with this code."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> int:
        self.commands.append(command)
        return self.code


def ended(tmp_path: Path, failed: Sequence[str], *, code: int = 0) -> tuple[int, Runs]:
    path = tmp_path / "failed.txt"
    path.write_text("".join(f"{test}\n" for test in failed))
    runs = Runs(code)
    return tool.main([str(path)], runs), runs


def test_a_test_of_real_processes_is_run_by_itself_and_named_when_it_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, runs = ended(tmp_path, [REAL])

    assert code == 0
    (command,) = runs.commands
    assert command[-1] == REAL
    assert "-n" not in command
    assert capsys.readouterr().out.endswith(f"passed alone; find out why:\n  {REAL}\n")


def test_what_fails_again_has_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, runs = ended(tmp_path, [REAL], code=1)

    assert (code, len(runs.commands)) == (1, 1)
    assert "passed alone" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("failed", "why"),
    [
        ([], "the tests did not come to their end"),
        ([REAL] * 6, "6 tests failed, more than 5"),
        ([REAL, "tests/unit/test_a.py::test_b"], "it would fail again: tests/unit/test_a.py"),
    ],
)
def test_what_gets_no_second_chance_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], failed: list[str], why: str
) -> None:
    code, runs = ended(tmp_path, failed)

    assert (code, runs.commands) == (1, [])
    assert why in capsys.readouterr().out


def test_a_run_that_wrote_nothing_has_failed(tmp_path: Path) -> None:
    assert tool.main([str(tmp_path / "none.txt")], Runs(0)) == 1
