"""The reference pages say what the code says."""

import subprocess
import sys
from pathlib import Path

import outside
from mainstay.model.state import EDGES, State


def test_the_reference_pages_have_not_drifted_from_the_code() -> None:
    ended = subprocess.run(
        [sys.executable, "tools/reference_pages.py", "--check"],
        cwd=outside.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr


def test_the_diagram_draws_every_state_and_every_edge() -> None:
    drawn = Path(outside.ROOT, "docs/reference/states.svg").read_text(encoding="utf-8")

    assert drawn.count("<line ") == len(EDGES)
    assert [state for state in State if state and f">{state}<" not in drawn] == []
