"""SQL of tenancy never takes the time at which its transaction began for the time of an event."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from outside import ROOT

TENANCY: Final = ROOT / "src" / "mainstay" / "tenancy"

FROZEN: Final = re.compile(
    r"\b(?:now|transaction_timestamp)\s*\(\s*\)"
    r"|\b(?:current_timestamp|current_date|current_time|localtime|localtimestamp)\b"
    r"|'now'",
    re.IGNORECASE,
)
"""Times that stand still while a transaction goes on; clock_timestamp() does not."""


def texts(path: Path) -> Iterator[str]:
    """What could be SQL in a file: all of it, or the strings of a module but its docstrings."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".sql":
        yield re.sub(r"--.*", "", source)
        return
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def frozen_times(root: Path) -> list[str]:
    files = [*root.rglob("*.py"), *root.rglob("*.sql")]
    return [
        f"{path.relative_to(root)}: {found.group()}"
        for path in sorted(files)
        for text in texts(path)
        for found in FROZEN.finditer(text)
    ]


def test_no_time_in_tenancy_is_the_beginning_of_a_transaction() -> None:
    assert frozen_times(TENANCY) == []


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("a.sql", "update t set active_at = now();", "now()"),
        ("a.sql", "create table t (at date default CURRENT_TIMESTAMP);", "CURRENT_TIMESTAMP"),
        ("a.sql", "insert into t values ('now');", "'now'"),
        ("a.py", 'SET = "set at = now( )"\n', "now( )"),
        ("a.py", 'def set(name):\n    return f"set {name} = transaction_timestamp()"\n',
         "transaction_timestamp()"),
    ],
)  # fmt: skip
def test_a_frozen_time_is_found(tmp_path: Path, name: str, source: str, found: str) -> None:
    (tmp_path / name).write_text(source)

    assert frozen_times(tmp_path) == [f"{name}: {found}"]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.sql", "-- never now()\nupdate t set active_at = clock_timestamp();"),
        ("a.py", '"""Never now()."""\nSET = "set at = clock_timestamp()"\nNOW = clock.now()\n'),
        ("a.py", 'NAME = "known (by now)"\n'),
    ],
)
def test_what_is_no_frozen_time_is_let_through(tmp_path: Path, name: str, source: str) -> None:
    (tmp_path / name).write_text(source)

    assert frozen_times(tmp_path) == []


NOTIFYING: Final = re.compile(r"\bpg_notify\b|^\s*notify\s", re.IGNORECASE | re.MULTILINE)


def notifying(root: Path) -> list[str]:
    """Modules whose SQL notifies."""
    files = [*root.rglob("*.py"), *root.rglob("*.sql")]
    return sorted(
        str(path.relative_to(root))
        for path in files
        if any(NOTIFYING.search(text) for text in texts(path))
    )


def test_only_the_module_of_connections_notifies_and_it_does_so_after_the_commit() -> None:
    """A commit that notifies holds a lock of the whole server until it is on disk."""
    assert notifying(TENANCY) == ["database/connect.py"]


def test_sql_that_notifies_is_found(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text('SQL = "select pg_notify(%s, %s)"\n')
    (tmp_path / "rings.sql").write_text("notify bell;\n")
    (tmp_path / "quiet.py").write_text('"""Says that pg_notify is not used."""\n')

    assert notifying(tmp_path) == ["rings.sql", "tasks.py"]
