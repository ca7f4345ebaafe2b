"""The files of a new provider: the modules beside this one under its name, a page, a test."""

import re
from importlib import resources
from typing import Final

from mainstay.model.errors import Rejected

NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
NAME_LENGTH_MAX: Final = 24
"""So that no line of the template becomes longer than ours may be."""

_SOURCES: Final = ("toy_backend.py", "toy_hardware.py")
_OVERRIDE: Final = "from typing_extensions import override\n"
_OWN_IMPORT: Final = "from mainstay.providers.template.toy_hardware"

_README: Final = """\
# {name}

A provider for Mainstay. `{module}_backend.py` is what you write; `{module}_hardware.py`
pretends to be hardware until you call the real thing.

```sh
pytest                                                      # serve it, check it, restart it
mainstay provider serve {module}_backend:make_backend --insecure
mainstay conformance 127.0.0.1:9000 --torment               # in another terminal
```
"""

_TEST: Final = '''\
"""The provider {name} keeps the contract of the six calls, restarts included."""

import asyncio
from pathlib import Path

from mainstay.conformance.report import remarks
from mainstay.processes.own_backend import examined

from {module}_backend import make_backend


def test_it_keeps_the_contract_and_gives_hosts_back(tmp_path: Path) -> None:
    report = asyncio.run(examined(lambda: make_backend(tmp_path)))

    assert report.exit_code == 0, "\\n".join(remarks(report))
    # The suite sees calls, not hardware: what is left, the hardware itself must say. One host may
    # be: its Configure was broken off by the restart, so it is Failed and waits for a person.
    left = [slot for slot in asyncio.run(make_backend(tmp_path).slots()) if slot.host]
    assert len(left) <= 1
    assert [slot.name for slot in left if slot.cluster] == []
'''


def checked_name(text: str) -> str:
    """The name of a provider: it becomes the names of modules, classes and machines."""
    if not NAME.fullmatch(text) or len(text) > NAME_LENGTH_MAX:
        form = f"lower-case letters, digits and single dashes, at most {NAME_LENGTH_MAX}"
        raise Rejected(f"not a name for a provider: {text[:80]!r} ({form}, a letter first)")
    return text


def files(name: str) -> dict[str, str]:
    """Paths below the project's folder, and their text."""
    module = checked_name(name).replace("-", "_")
    words = {"name": name, "module": module}
    sources = {
        source.replace("toy", module): _renamed(_text(source), name, module) for source in _SOURCES
    }
    return {
        "README.md": _README.format(**words),
        **sources,
        f"test_{module}_backend.py": _TEST.format(**words),
    }


def _text(source: str) -> str:
    return resources.files(__package__).joinpath(source).read_text(encoding="utf-8")


def _renamed(text: str, name: str, module: str) -> str:
    """Modules, classes and texts each have a way of their own to write a name of two words."""
    camel = "".join(word.capitalize() for word in name.split("-"))
    for old, new in (
        (_OVERRIDE + "\n", ""),  # where mainstay is one package of many, it comes first
        (_OWN_IMPORT, f"{_OVERRIDE}\nfrom {module}_hardware"),
        ("Toy", camel),
        ("toy", name),
    ):
        text = text.replace(old, new)
    return text
