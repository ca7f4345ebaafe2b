"""The calls banned in pyproject.toml are refused by ruff, with our advice in the message."""

import json
from typing import Final

import pytest

import outside
from tree import BIN, project

BANNED: Final[dict[str, dict[str, str]]] = project()["tool"]["ruff"]["lint"]["flake8-tidy-imports"][
    "banned-api"
]

NEVER_UNBANNED: Final = {
    "os.environ", "os.getenv", "time.time", "datetime.datetime.now",
    "asyncio.create_task", "asyncio.gather", "unittest.mock",
}  # fmt: skip


def complaints(source: str, filename: str = "src/mainstay/x.py") -> list[str]:
    """What ruff says of `source`, were it in that file."""
    command = [str(BIN / "ruff"), "check", "--no-cache", "--output-format", "json"]
    ended = outside.run([*command, "--stdin-filename", filename, "-"], text=source)
    return [f"{fault['code']} {fault['message']}" for fault in json.loads(ended.stdout)]


@pytest.mark.parametrize("name", BANNED)
class TestBans:
    def test_using_a_banned_name_is_refused_with_our_advice(self, name: str) -> None:
        source = f"import {name.partition('.')[0]}\n\nVALUE = {name}\n"

        assert f"TID251 `{name}` is banned: {BANNED[name]['msg']}" in complaints(source)

    def test_importing_a_banned_name_is_refused_with_our_advice(self, name: str) -> None:
        module, _, leaf = name.rpartition(".")
        source = f"from {module} import {leaf}\n\nVALUE = {leaf}\n"

        assert f"TID251 `{name}` is banned: {BANNED[name]['msg']}" in complaints(source)


def test_no_ban_was_dropped() -> None:
    assert BANNED.keys() >= NEVER_UNBANNED


def test_names_that_are_not_banned_are_let_through() -> None:
    source = '"""Fine."""\n\nimport os\n\nNAME = os.sep\n'

    assert complaints(source) == []


def test_only_the_reader_of_settings_may_read_the_environment() -> None:
    source = '"""Reads."""\n\nimport os\n\nNAMES = list(os.environ)\n'

    assert complaints(source, "src/mainstay/config/load.py") == []
    assert len(complaints(source, "src/mainstay/config/up.py")) == 1
    assert len(complaints(source, "tests/unit/test_x.py")) == 1
