"""Every command that a page for hard moments names is one that there is, with its options."""

import importlib
import re
from functools import cache
from typing import Any, Final

import pytest
import typer.main

import outside
import pages
from mainstay.cli.main import COMMANDS

PAGES: Final = ("docs/how-to/runbook.md", "docs/how-to/come-from-bigfleet.md")
CODE: Final = re.compile(r"`(mainstay [^`]+)`")


def commands(page: str) -> list[str]:
    """Our commands in backticks, each on one line; `...` stands for what a reader fills in."""
    return [" ".join(code.split()) for code in CODE.findall(pages.prose(page))]


@cache
def command_of(name: str) -> Any:
    row = COMMANDS[name]
    app = getattr(importlib.import_module(row.module), row.app)
    return typer.main.get_command(app)


def complaint(line: str) -> str:
    """What `--help` would not know of a command; empty: nothing."""
    _, name, *words = line.split()
    if name not in COMMANDS:
        return f"no such command: {name}"
    command = command_of(name)
    for word in words:
        inner = getattr(command, "commands", {})
        if word in inner:
            command = inner[word]
        elif word.startswith("-"):
            known = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
            if word.partition("=")[0] not in known:
                return f"{command.name} has no option {word}"
        elif inner:
            return f"{name} has no {word}"
    return ""


@pytest.mark.parametrize("path", PAGES)
def test_every_command_of_the_page_parses(path: str) -> None:
    found = commands((outside.ROOT / path).read_text())

    assert len(found) > 3
    assert [(line, told) for line in found if (told := complaint(line))] == []


def test_a_command_that_is_not_there_is_seen() -> None:
    told = commands("`mainstay get machines --state\nFailed` and `mainstay gets` and `other`")

    assert told == ["mainstay get machines --state Failed", "mainstay gets"]
    assert [complaint(line) for line in told] == ["", "no such command: gets"]
    assert complaint("mainstay get nothing") == "get has no nothing"
    assert complaint("mainstay get machines --sate Failed") == "machines has no option --sate"
    assert complaint("mainstay pause --reason why --for 1m") == ""
