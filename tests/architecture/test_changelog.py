"""The changelog is all the fragments there are, each under its kind."""

import runpy
from typing import Any, Final

import pytest

import outside

TOOL: Final[dict[str, Any]] = runpy.run_path(str(outside.ROOT / "tools/changelog.py"))


def changelog(**found: str) -> str:
    named = {name.replace("_", "."): text for name, text in found.items()}
    return str(TOOL["changelog"](named, "1", docs="docs/"))


def test_every_fragment_is_told_once() -> None:
    found = TOOL["fragments"](outside.ROOT / "changes")
    lines = TOOL["changelog"](found, "1.2.3", docs="../docs/").splitlines()

    assert len(found) > 50
    assert "## 1.2.3" in lines
    told = [line for line in lines if line.startswith("- ")]
    assert len(told) == len(found)
    assert len({*told}) == len(found)


def test_kinds_come_in_one_order_and_one_without_fragments_is_left_out() -> None:
    page = changelog(b_fixed_md="Two\nlines.\n", a_added_md="New.\n")

    assert page == "# Changes\n\n## 1\n\n### Added\n\n- New.\n\n### Fixed\n\n- Two lines.\n"


@pytest.mark.parametrize("written", ["../docs/a.md", "docs/a.md"])
def test_a_link_leads_to_the_page_from_where_the_changelog_is(written: str) -> None:
    assert "- See [it](docs/a.md)." in changelog(a_added_md=f"See [it]({written}).")


def test_a_fragment_of_no_kind_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"changes/a.new.md: write NAME.added"):
        changelog(a_new_md="x")
