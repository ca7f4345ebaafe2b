"""How docs/ is rendered: `make docs` writes site/."""

import runpy
from pathlib import Path

from mainstay import __version__

HERE = Path(__file__).resolve().parent
TOOL = runpy.run_path(str(HERE.parent / "tools" / "changelog.py"))

# Made at each build and not kept: whoever adds a fragment has nothing else to write.
(HERE / "reference" / "changelog.md").write_text(
    TOOL["changelog"](TOOL["fragments"](HERE.parent / "changes"), __version__, docs="../"),
    encoding="utf-8",
)

project = "Mainstay"
copyright = "2026, The Mainstay Authors"
release = __version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"Mainstay {__version__}"
html_show_sphinx = False
exclude_patterns: list[str] = []
suppress_warnings = ["misc.highlighting_failure"]
