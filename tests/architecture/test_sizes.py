"""The size ratchet: hard limits on functions, modules, parameters and lines.

Reads source as text, imports nothing of ours. Branches are held by ruff (C901).
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from outside import ROOT

FUNCTION_LINES = "function lines"
MODULE_LINES = "module lines"
PARAMETERS = "parameters"
COLUMNS = "columns"

LIMITS: Final = {FUNCTION_LINES: 70, MODULE_LINES: 400, PARAMETERS: 6, COLUMNS: 100}

PAGE_LINES: Final = 190
"""What a file may have that is to be read like a page."""

READ_AS_PAGES: Final = ROOT / "docs/explanation/shard.md"
"""Where the files stand that a cycle passes through, each first in a line of a numbered list."""

EXEMPT: Final = ("src/mainstay/engine/compiled.py", "src/mainstay/wire/pb/")
"""Compiled kernels and generated code."""

EXCEPTIONS: Final[Mapping[tuple[str, str], int]] = {}
"""(place, kind) to the size it has today. This list may only shrink, and so may its numbers."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Size(NamedTuple):
    """One measure: `place` is a path, or path:function."""

    place: str
    kind: str
    value: int


def sizes(path: str, source: str) -> Iterator[Size]:
    lines = source.splitlines()
    yield Size(path, MODULE_LINES, len(lines))
    yield Size(path, COLUMNS, max(map(len, lines), default=0))
    for name, function in functions(ast.parse(source)):
        yield Size(f"{path}:{name}", FUNCTION_LINES, function_lines(function))
        yield Size(f"{path}:{name}", PARAMETERS, parameters(function))


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(tree):
        name = f"{prefix}{getattr(node, 'name', '')}"
        if isinstance(node, Function):
            yield name, node
        named = isinstance(node, Function | ast.ClassDef)
        yield from functions(node, f"{name}." if named else prefix)


def function_lines(function: Function) -> int:
    """From `def` to the end, less the docstring."""
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is None:
        return total
    docstring = function.body[0]
    return total - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def parameters(function: Function) -> int:
    taken = function.args
    plain = [*taken.posonlyargs, *taken.args]
    bound = bool(plain) and plain[0].arg in {"self", "cls"}
    starred = (taken.vararg is not None) + (taken.kwarg is not None)
    return len(plain) - bound + len(taken.kwonlyargs) + starred


def faults(measured: Iterable[Size], exceptions: Mapping[tuple[str, str], int]) -> list[str]:
    """What is over its limit, and which exceptions are wider than what they are for."""
    found = []
    needed = set()
    for place, kind, value in measured:
        limit = LIMITS[kind]
        allowed = exceptions.get((place, kind), limit)
        if value > limit:
            needed.add((place, kind))
        if value > allowed:
            found.append(f"{place}: {value} {kind}, the limit is {allowed}")
        elif limit < value < allowed:
            found.append(f"{place}: now {value} {kind}, lower its exception from {allowed}")
    unused = sorted(exceptions.keys() - needed)
    return found + [f"{place}: no longer needs its exception for {kind}" for place, kind in unused]


def is_exempt(path: str) -> bool:
    return path.startswith(EXEMPT)


def sources(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    for folder in ("src/mainstay", "tools"):
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not is_exempt(name):
                yield name, path.read_text()


def test_every_function_and_module_is_within_its_limits() -> None:
    measured = [size for path, source in sources() for size in sizes(path, source)]

    assert len(measured) > 20
    assert faults(measured, EXCEPTIONS) == []


def files_of_a_cycle(page: str) -> list[str]:
    """The paths of the modules with which the lines of its numbered list begin."""
    names = re.findall(r"^\d+\. `([\w.]+)`", page, flags=re.MULTILINE)
    return [f"src/{name.replace('.', '/')}.py" for name in names]


def test_each_of_the_eight_files_of_a_cycle_reads_like_a_page() -> None:
    lines = {
        path: len((ROOT / path).read_text().splitlines())
        for path in files_of_a_cycle(READ_AS_PAGES.read_text())
    }

    assert len(lines) == 8
    assert {path: count for path, count in lines.items() if count > PAGE_LINES} == {}


def test_only_the_first_module_of_a_numbered_line_is_a_file_of_a_cycle() -> None:
    page = "See `a`.\n\n1. `m.shard`: one (`m.b`).\n   `m.c`\n2. `m.shard.cycle`: two\n- `m.d`\n"

    assert files_of_a_cycle(page) == ["src/m/shard.py", "src/m/shard/cycle.py"]


def measure(source: str) -> dict[tuple[str, str], int]:
    return {(place, kind): value for place, kind, value in sizes("m.py", source)}


class TestMeasuring:
    def test_a_docstring_is_not_counted_as_lines_of_a_function(self) -> None:
        source = 'def f():\n    """One.\n\n    Two.\n    """\n    a = 1\n\n    return a\n'

        assert measure(source)["m.py:f", FUNCTION_LINES] == 4

    def test_a_signature_of_many_lines_is_counted(self) -> None:
        source = "def f(\n    a,\n    b,\n):\n    return a\n"

        assert measure(source)["m.py:f", FUNCTION_LINES] == 5

    def test_methods_and_inner_functions_are_measured_under_their_full_name(self) -> None:
        source = (
            "class C:\n    if True:\n        async def f(self):\n            def g(): ...\n"
            "            return g\n"
        )

        names = {place for place, kind in measure(source) if kind == FUNCTION_LINES}
        assert names == {"m.py:C.f", "m.py:C.f.g"}

    @pytest.mark.parametrize(
        ("signature", "count"),
        [("", 0), ("self, a", 1), ("cls", 0), ("a, /, b, *c, d, **e", 5), ("a, self", 2)],
    )
    def test_every_parameter_counts_but_self_and_cls(self, signature: str, count: int) -> None:
        assert measure(f"def f({signature}): ...\n")["m.py:f", PARAMETERS] == count

    def test_the_longest_line_and_the_number_of_lines_are_measured(self) -> None:
        measured = measure("a = 1\n" + "b" * 120 + "\n\n")

        assert measured["m.py", COLUMNS] == 120
        assert measured["m.py", MODULE_LINES] == 3

    def test_an_empty_module_has_no_size(self) -> None:
        assert set(measure("").values()) == {0}


class TestLimits:
    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("def f():\n" + "    a = 1\n" * 70, "m.py:f: 71 function lines, the limit is 70"),
            ("a = 1\n" * 401, "m.py: 401 module lines, the limit is 400"),
            ("def f(a, b, c, d, e, f, g): ...\n", "m.py:f: 7 parameters, the limit is 6"),
            ("a = " + "1" * 97 + "\n", "m.py: 101 columns, the limit is 100"),
        ],
    )
    def test_one_more_than_the_limit_is_a_fault(self, source: str, message: str) -> None:
        assert faults(sizes("m.py", source), {}) == [message]

    def test_exactly_the_limit_is_allowed(self) -> None:
        source = "def f(a, b, c, d, e, f):\n" + "    a = 1\n" * 69 + "# " + "c" * 98 + "\n"

        assert faults(sizes("m.py", source), {}) == []

    def test_an_exception_of_exactly_its_size_is_allowed(self) -> None:
        assert faults([Size("m.py", COLUMNS, 120)], {("m.py", COLUMNS): 120}) == []

    def test_what_outgrows_its_exception_is_a_fault(self) -> None:
        assert faults([Size("m.py", COLUMNS, 121)], {("m.py", COLUMNS): 120}) == [
            "m.py: 121 columns, the limit is 120"
        ]

    def test_what_shrinks_takes_its_exception_with_it(self) -> None:
        assert faults([Size("m.py", COLUMNS, 110)], {("m.py", COLUMNS): 120}) == [
            "m.py: now 110 columns, lower its exception from 120"
        ]

    @pytest.mark.parametrize("measured", [[Size("m.py", COLUMNS, 100)], []])
    def test_an_exception_nobody_needs_is_a_fault(self, measured: list[Size]) -> None:
        assert faults(measured, {("m.py", COLUMNS): 120}) == [
            "m.py: no longer needs its exception for columns"
        ]

    def test_kernels_and_generated_code_are_exempt_and_nothing_else(self, tmp_path: Path) -> None:
        for name in ("engine/compiled.py", "wire/pb/a.py", "engine/cover.py", "wire/pbx.py"):
            path = tmp_path / "src/mainstay" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")

        read = [path for path, _ in sources(tmp_path)]

        assert read == ["src/mainstay/engine/cover.py", "src/mainstay/wire/pbx.py"]
