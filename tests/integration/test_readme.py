"""The README, from its first command to its last, as a stranger types them."""

import re
import shlex

import pytest

import outside
import pages
from together import TYPED, a_home, typed

PAGE = outside.ROOT / "README.md"

UP = """mainstay up > up.log 2>&1 &
until grep -q "Ctrl-C stops everything" up.log; do sleep 1; done
cat up.log
"""
"""What `make up` does once all is installed, which is another test's."""


def as_a_person(script: str) -> str:
    return re.sub(r"^make up\n", UP, script, flags=re.MULTILINE)


def test_five_minutes_lead_from_a_node_to_a_reason_a_what_if_an_allocation_and_its_bill() -> None:
    with a_home() as folder:
        said = typed(
            PAGE,
            cwd=folder,
            env={
                "MAINSTAY_HOME": str(folder / ".mainstay"),
                "MAINSTAY_UP_FREE_PORTS": "true",
            },
            timeout_s=480.0,
            change=as_a_person,
        )

    for seen in (
        "The first node serves after",
        "The page: http://",
        "Configured",
        "ensemble",
        "Nothing was done.",
        "Dollars per hour:",
        "active",
        "released",
        "h200-sxm-slice   8",
    ):
        assert seen in said
    charged = re.search(r", charges \$([\d.]+)", said)
    assert charged is not None
    assert float(charged[1]) > 0, "the bill is whole when `released` is seen"


@pytest.mark.needs("make")
def test_make_up_hands_on_what_the_readme_gives_it() -> None:
    given = re.findall(r"`make\s+up\s+UP_FLAGS=([^`]+)`", PAGE.read_text())
    assert [shlex.split(words)[0].split()[0] for words in given] == ["--reset", "--fleet"]
    for words in given:
        (flags,) = shlex.split(words)
        verb = ["make", "-n", "-o", "install", "up", f"UP_FLAGS={flags}"]
        ended = outside.run(verb, cwd=outside.ROOT)
        assert ended.stdout.endswith(f"/mainstay up {flags}\n"), ended.stderr


def test_every_command_of_the_readme_is_run() -> None:
    blocks = [block for block in pages.blocks(PAGE.read_text()) if block.info.startswith("sh")]

    assert [block.text for block in blocks if block.info != TYPED] == []
