"""How docs/ is rendered: `make docs` writes site/."""

from mainstay import __version__

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
