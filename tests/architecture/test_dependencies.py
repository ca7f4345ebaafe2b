"""The wheel says all that it needs: whoever installs it by pip gets what its modules import."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import metadata
from typing import Final

from packaging.requirements import Requirement

from mainstay.tenancy.database.binaries import PACKAGE
from outside import ROOT
from tree import project

SOURCE: Final = ROOT / "src/mainstay"

OF_EXTRAS: Final[Mapping[str, str]] = {
    "nats": "tenancy/bus_nats.py",
    "temporalio": "tenancy/worker/engine_temporal.py",
}
"""What only an extra brings, and the only module that may import it."""


@cache
def imported() -> dict[str, set[str]]:
    """Top-level packages of others, and the modules of ours that import each."""
    found = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for name in _names(ast.parse(path.read_text())):
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top != "mainstay":
                found[top].add(str(path.relative_to(SOURCE)))
    return dict(found)


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def installed_with(declared: Iterable[str]) -> set[str]:
    """Everything that pip installs for these requirements, by normal names."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(each) for each in declared]
    while waiting:
        wanted = waiting.pop()
        for extra in {"", *wanted.extras}:
            if (wanted.name, extra) not in seen:
                seen.add((wanted.name, extra))
                waiting += _needed_by(wanted.name, extra)
        found.add(_normal(wanted.name))
    return found


def _needed_by(name: str, extra: str) -> Iterator[Requirement]:
    try:
        told = metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # another operating system's
        return
    for each in map(Requirement, told):
        if each.marker is None or each.marker.evaluate({"extra": extra}):
            yield each


@cache
def packaged() -> Mapping[str, list[str]]:
    """Who brings each top-level package that is installed here."""
    return metadata.packages_distributions()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def undeclared(declared: Iterable[str]) -> dict[str, set[str]]:
    """What is imported and would not be there, with the modules that import it."""
    there, whose = installed_with(declared), packaged()
    wanted = {**imported(), PACKAGE: {"tenancy/database/binaries.py"}}  # found, never imported
    return {
        name: modules
        for name, modules in wanted.items()
        if there.isdisjoint(map(_normal, whose.get(name, [])))
        and modules != {OF_EXTRAS.get(name, "")}
    }


def test_pip_installs_everything_that_is_imported() -> None:
    assert undeclared(project()["project"]["dependencies"]) == {}


def test_what_is_missing_is_named_with_who_imports_it() -> None:
    declared = project()["project"]["dependencies"]
    without = [each for each in declared if not each.startswith(("psycopg", "pixeltable", "dbos"))]

    assert undeclared(without).keys() == {"psycopg", "psycopg_pool", "dbos", PACKAGE}


def test_an_extra_is_imported_only_where_it_may_be() -> None:
    found = imported()

    assert {name: found[name] for name in OF_EXTRAS} == {
        name: {module} for name, module in OF_EXTRAS.items()
    }
