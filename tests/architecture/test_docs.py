"""The documentation is true: its examples run, its names and links exist, its ADRs are whole."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

import outside
import pages
from tree import BIN

PAGES: Final = sorted(
    path.relative_to(outside.ROOT)
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md")
    for path in outside.ROOT.glob(pattern)
    if path.name != "changelog.md"  # made of fragments: what they name may be gone since
)
ADRS: Final = [path for path in PAGES if path.parent == Path("docs/adr") and path.stem[0].isdigit()]
ADR_HEADINGS: Final = (
    "Status", "Context", "Decision", "Consequences", "What would change our mind",
)  # fmt: skip

page_by_page = pytest.mark.parametrize("path", PAGES, ids=str)


def page(path: Path) -> str:
    return (outside.ROOT / path).read_text()


EXAMPLES: Final = {
    f"{path}:{number}": example
    for path in PAGES
    for number, example in enumerate(pages.examples(page(path)), start=1)
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_documentation_runs_and_prints_what_it_says(name: str) -> None:
    script, expected = EXAMPLES[name]
    path = f"{BIN}:{outside.environment()['PATH']}"

    ended = outside.run(
        ["bash", "-eu", "-o", "pipefail", "-c", script], env=outside.environment(PATH=path)
    )

    assert ended.returncode == 0, f"{script}{ended.stdout}{ended.stderr}"
    assert pages.unseen(expected, ended.stdout) == [], ended.stdout


def recurses(script: str) -> bool:
    return re.search(r"\bmake\b[^\n;&|]*\btest\b", script) is not None


def test_no_example_runs_the_tests_from_within_the_tests() -> None:
    assert [name for name, example in EXAMPLES.items() if recurses(example.script)] == []


@page_by_page
def test_every_expected_output_belongs_to_an_example(path: Path) -> None:
    assert pages.stray_outputs(page(path)) == 0


@page_by_page
def test_every_name_of_ours_that_a_page_cites_exists(path: Path) -> None:
    cited = pages.cited_names(page(path))

    assert [name for name in cited if not pages.resolves(name)] == []


@page_by_page
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    assert pages.dead_links(page(path), outside.ROOT / path.parent) == []


@page_by_page
def test_no_page_has_a_line_that_stands_for_what_was_to_be_written(path: Path) -> None:
    assert pages.placeholders(page(path)) == []


@pytest.mark.parametrize("path", ADRS, ids=str)
def test_a_decision_has_all_its_parts(path: Path) -> None:
    assert missing_headings(page(path)) == []


def test_decisions_are_numbered_without_gaps_or_doubles() -> None:
    assert misnumbered(path.name for path in ADRS) == []


def missing_headings(text: str) -> list[str]:
    return [heading for heading in ADR_HEADINGS if heading not in pages.headings(text)]


def misnumbered(names: Iterable[str]) -> list[str]:
    ordered = sorted(names)
    return [name for number, name in enumerate(ordered, start=1)
            if re.match(rf"{number:04}-[a-z0-9-]+\.md$", name) is None]  # fmt: skip


class TestDecisions:
    def test_a_missing_part_is_seen(self) -> None:
        text = "# ADR\n## Status\n## Context\n```\n## Decision\n```\n## Consequences\n"

        assert missing_headings(text) == ["Decision", "What would change our mind"]

    def test_a_gap_a_double_and_a_bad_name_are_seen(self) -> None:
        assert misnumbered(["0001-a.md", "0002-b.md"]) == []
        assert misnumbered(["0001-a.md", "0003-b.md"]) == ["0003-b.md"]
        assert misnumbered(["0001-a.md", "0001-b.md"]) == ["0001-b.md"]
        assert misnumbered(["0001_a.md"]) == ["0001_a.md"]


class TestRecursion:
    @pytest.mark.parametrize(
        "script", ["make test\n", "cd . && make -j2 test", "make PYTHON=x test"]
    )
    def test_running_the_tests_is_seen(self, script: str) -> None:
        assert recurses(script)

    @pytest.mark.parametrize("script", ["make\n", "make unit; test -d docs", "mainstay --help"])
    def test_other_commands_are_not_taken_for_it(self, script: str) -> None:
        assert not recurses(script)
