"""Write CHANGELOG.md from the fragments in changes/: grouped by kind, the version on top.

usage: python tools/changelog.py [PATH]
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from mainstay import __version__

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "safety": "Safety"}
"""By the ending of a fragment's name, in the order of the page."""

LINK = re.compile(r"\]\((?:\.\./)?docs/")
"""Fragments link from where they are, or from the root."""


def main() -> int:
    """Write it where it is wanted; beside the README by default."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "CHANGELOG.md"
    found = fragments(ROOT / "changes")
    path.write_text(changelog(found, __version__, docs="docs/"), encoding="utf-8")
    return 0


def fragments(folder: Path) -> dict[str, str]:
    """Every fragment, by name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}


def changelog(found: Mapping[str, str], version: str, *, docs: str) -> str:
    """The page; `docs` leads from it to our documentation.

    A fragment of no kind is refused: it would be lost.
    """
    by_kind: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name, text in found.items():
        kind = name.removesuffix(".md").rpartition(".")[2]
        if kind not in KINDS:
            raise SystemExit(f"changes/{name}: write NAME.{'|'.join(KINDS)}.md")
        by_kind[kind].append("- " + LINK.sub(f"]({docs}", " ".join(text.split())))
    parts = [f"# Changes\n\n## {version}\n"]
    parts += [f"\n### {KINDS[kind]}\n\n" + "\n".join(lines) + "\n"
              for kind, lines in by_kind.items() if lines]  # fmt: skip
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(main())
