"""What every generated page has."""

import inspect
import itertools
import re
from collections.abc import Iterable, Sequence

NOTICE = "<!-- Made by tools/reference_pages.py from the code: `make docs` writes it anew. -->\n\n"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def docs_below(classes: Iterable[type]) -> dict[str, str]:
    """The one-line docstrings in these classes, by the name that stands above each."""
    lines = [line for c in classes for line in inspect.getsource(c).splitlines()]
    docs = {}
    for above, below in itertools.pairwise(lines):
        name = re.split("[:=]", above.strip())[0].strip()
        if below.strip().startswith('"""') and name.isidentifier():
            docs[name] = below.strip().strip('"')
    return docs
