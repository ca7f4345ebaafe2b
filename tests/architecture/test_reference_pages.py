"""The reference pages say what the code says."""

import subprocess
import sys
from pathlib import Path

import outside
from mainstay.model.state import EDGES, State
from mainstay.tenancy.states import EDGES as ALLOCATION_EDGES
from mainstay.tenancy.states import Status


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


def test_the_diagram_of_allocations_draws_every_state_and_names_every_edge() -> None:
    drawn = Path(outside.ROOT, "docs/reference/allocation-states.svg").read_text(encoding="utf-8")

    assert drawn.count("<line ") == len(ALLOCATION_EDGES)
    assert [status for status in Status if f">{status}<" not in drawn] == []
    assert [edge.name for edge in ALLOCATION_EDGES if f">{edge.name}<" not in drawn] == []


def test_the_page_of_allocations_says_who_may_ask_for_what() -> None:
    said = Path(outside.ROOT, "docs/reference/allocation-states.md").read_text(encoding="utf-8")

    for edge in ALLOCATION_EDGES:
        (row,) = [line for line in said.splitlines() if line.startswith(f"| {edge.name} ")]
        assert f"| `{edge.new}` | {', '.join(sorted(edge.actors))} | `{edge.stamps}` |" in row
