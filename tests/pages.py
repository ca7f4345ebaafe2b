"""Our markdown pages as data: fenced blocks, cited names, links, headings."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

RUN: Final = "sh run"
OUTPUT: Final = "text output"

_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<mark>`{3,}|~{3,}|:{3,})(?P<info>[^`]*)$")
_CODE: Final = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_NAME: Final = re.compile(r"(mainstay(?:\.[A-Za-z_]\w*)+)(?:\(.*\))?", re.DOTALL)
_LINK: Final = re.compile(r"\[[^\]]*\]\((<[^>]+>|[^)\s<]+)(?:\s+\"[^\"]*\")?\)")
_ELSEWHERE: Final = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)
_FILES: Final = ("toml", "md", "py", "json", "yaml", "txt")


class Block(NamedTuple):
    """A fenced block; `line` is that of its fence and `end` that after the closing one."""

    info: str
    text: str
    line: int
    end: int


class Example(NamedTuple):
    """A block marked to be run, and the lines its output must have."""

    script: str
    expected: list[str]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page; one that is never closed is an error."""
    found = []
    lines = page.splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            at += 1
            continue
        end = _closing(lines, at, fence["mark"])
        body = "".join(line.removeprefix(fence["indent"]) + "\n" for line in lines[at + 1 : end])
        found.append(Block(" ".join(fence["info"].split()), body, at, end + 1))
        at = end + 1
    return found


def _closing(lines: list[str], opening: int, mark: str) -> int:
    for number in range(opening + 1, len(lines)):
        line = lines[number].strip()
        if len(line) >= len(mark) and set(line) == {mark[0]}:
            return number
    raise ValueError(f"block is never closed: line {opening + 1}")


def examples(page: str) -> list[Example]:
    """The blocks marked to be run, each with the output block right after it, if there is one."""
    lines = page.splitlines()
    found = []
    fenced = blocks(page)
    for number, block in enumerate(fenced):
        if block.info != RUN:
            continue
        follower = fenced[number + 1] if number + 1 < len(fenced) else None
        expected = []
        if follower and follower.info == OUTPUT and not _between(lines, block.end, follower.line):
            expected = [line for line in follower.text.splitlines() if line.strip()]
        found.append(Example(block.text, expected))
    return found


def _between(lines: list[str], start: int, end: int) -> str:
    return "".join(lines[start:end]).strip()


def stray_outputs(page: str) -> int:
    """Output blocks that belong to no example, so that nothing would ever compare them."""
    wanted = sum(block.info == OUTPUT for block in blocks(page))
    return wanted - sum(bool(example.expected) for example in examples(page))


def unseen(expected: list[str], output: str) -> list[str]:
    """The expected lines that are not in the output; `...` stands for any characters."""
    lines = [line.strip() for line in output.splitlines()]
    return [wanted for wanted in expected if not any(_matches(wanted, line) for line in lines)]


def _matches(wanted: str, line: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in wanted.strip().split("..."))
    return re.fullmatch(pattern, line) is not None


def prose(page: str) -> str:
    """The page without its fenced blocks."""
    lines = page.splitlines()
    for block in blocks(page):
        lines[block.line : block.end] = [""] * (block.end - block.line)
    return "\n".join(lines)


def cited_names(page: str) -> list[str]:
    """Dotted names of ours in backticks; `mainstay.toml` is a file."""
    found = [_NAME.fullmatch(code[1].strip()) for code in _CODE.findall(prose(page))]
    names = {name[1] for name in found if name is not None}
    return sorted(name for name in names if name.rpartition(".")[2] not in _FILES)


def resolves(name: str) -> bool:
    """Import the longest prefix that is a module, then look up the rest."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        try:
            thing: object = importlib.import_module(prefix)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{prefix}.".startswith(f"{error.name}."):
                raise  # the module is there and broken: that is another fault
            continue
        return _has(thing, parts[length:])
    return False


def _has(thing: object, attributes: list[str]) -> bool:
    for attribute in attributes:
        fields = getattr(thing, "__annotations__", {})
        if not hasattr(thing, attribute) and attribute not in fields:
            return False
        thing = getattr(thing, attribute, None)
    return True


def relative_links(page: str) -> Iterator[str]:
    """Targets of links to files of ours, without their anchors."""
    without_code = _CODE.sub("", prose(page))
    for written in _LINK.findall(without_code):
        target = written.strip("<>")
        if not _ELSEWHERE.match(target):
            yield target.partition("#")[0]


def dead_links(page: str, folder: Path) -> list[str]:
    """Relative links that lead nowhere."""
    return [target for target in relative_links(page) if not (folder / target).exists()]


def headings(page: str) -> list[str]:
    """The headings of a page, of every level, without their marks."""
    lines = prose(page).splitlines()
    return [line.lstrip("#").strip() for line in lines if re.match(r"#{1,6} ", line)]


def placeholders(page: str) -> list[str]:
    """Lines of nothing but capitals, outside of blocks: they stand for what was to be written."""
    inside = {line for block in blocks(page) for line in range(block.line, block.end)}
    return [
        line
        for at, line in enumerate(page.splitlines())
        if at not in inside and re.fullmatch(r"[A-Z][A-Z _-]{2,}", line.strip())
    ]
