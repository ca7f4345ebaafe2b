"""The reference pages say what the code says."""

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

import outside
from mainstay.cli.main import COMMANDS
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


def verbs(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """All that `mainstay` can be told, with the commands that take it."""
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from verbs(f"{name} {word}", inner)


def test_the_page_of_the_command_has_every_verb_with_all_that_it_takes() -> None:
    page = Path(outside.ROOT, "docs/reference/cli.md").read_text(encoding="utf-8")
    _, *parts = page.split("\n#")
    found = {part.partition("\n")[0].lstrip("# "): part for part in parts}

    for name, row in COMMANDS.items():
        app = getattr(importlib.import_module(row.module), row.app)
        for verb, command in verbs(f"mainstay {name}", typer.main.get_command(app)):
            section = found[verb]
            shown = [each for each in command.params if not each.hidden]
            flags = {flag for each in shown for flag in each.opts if flag.startswith("--")}
            assert [flag for flag in flags if flag not in section] == [], verb
    assert "`--lose-zone TEXT" in found["mainstay whatif"]
    assert "| `[MACHINE]...` |  | Only these. |" in found["mainstay get machines"]
    assert "| `--limit INTEGER` | `100` | " in found["mainstay get machines"]
    assert [line for line in page.splitlines() if line.endswith(" |  |")] == []


MADE = re.compile(r'(?:Counter|Gauge|Histogram)\(\s*"(mainstay_\w+)"')


def test_every_metric_that_is_made_by_name_is_on_a_page_with_its_meaning() -> None:
    """Those of a table are made from it, and so are their pages."""
    sources = Path(outside.ROOT, "src/mainstay").rglob("*.py")
    made = {name for path in sources for name in MADE.findall(path.read_text())}
    pages = Path(outside.ROOT, "docs/reference").glob("*metrics.md")
    rows = [line.split(" | ") for page in pages for line in page.read_text().splitlines()]
    told = {row[0].strip("| `"): row[-1].strip("| ") for row in rows if "`mainstay_" in row[0]}

    assert {"mainstay_bridge_connected", "mainstay_outbox_oldest_seconds"} <= made
    assert sorted(made - told.keys()) == []
    assert [name for name, meaning in told.items() if not meaning] == []
    assert {"mainstay_shard_uplink_silence_seconds", "mainstay_coordinator_leads"} <= told.keys()
