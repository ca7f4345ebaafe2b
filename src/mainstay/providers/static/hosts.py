"""The file of hosts: TOML, one table a host, and the commands that touch them."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mainstay.model.errors import Rejected
from mainstay.model.profile import CapacityType, Profile, labels_of
from mainstay.model.resources import Resources
from mainstay.providers.kit.backend import Slot

COMMANDS: Final = ("configure", "drain", "ready")

_HOST_KEYS: Final[Mapping[str, type]] = {
    "name": str, "type": str, "zone": str, "address": str,
    "resources": dict, "allocatable": dict, "labels": dict,
}  # fmt: skip
_REQUIRED: Final = ("name", "type", "zone", "resources")


@dataclass(frozen=True, slots=True)
class HostsFile:
    """What the file says."""

    slots: tuple[Slot, ...]
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Words of a program for each step that has one."""


def read(path: Path) -> HostsFile:
    """Read it whole, or say which line, host or key is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(f"the file of hosts cannot be read: {path} ({error})") from error
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Rejected(f"the file of hosts is not TOML: {path} ({error})") from error
    _known_keys(parsed, {"host", "commands"}, f"the file of hosts {path}")
    hosts = parsed.get("host", [])
    if not isinstance(hosts, list) or not all(isinstance(host, dict) for host in hosts):
        raise Rejected(f"hosts are written as [[host]] tables: {path}")
    return HostsFile(tuple(map(_slot, hosts)), _commands(parsed.get("commands", {})))


def _slot(host: Mapping[str, Any]) -> Slot:
    shown = f"host {host.get('name', '?')!r}"
    _known_keys(host, _HOST_KEYS.keys(), shown)
    for key in _REQUIRED:
        if not host.get(key):
            raise Rejected(f"{shown} has no {key}")
    for key, value in host.items():
        if not isinstance(value, _HOST_KEYS[key]):
            raise Rejected(f"{key} of {shown} must be a {_HOST_KEYS[key].__name__}: {value!r}")
    profile = Profile(
        host["type"],
        host["zone"],
        CapacityType.BARE_METAL,
        Resources(_texts(host["resources"], f"resources of {shown}")),
        labels_of(_texts(host.get("labels", {}), f"labels of {shown}")),
    )
    return Slot(
        name=host["name"],
        profile=profile,
        host=host.get("address") or host["name"],
        allocatable=Resources(_texts(host.get("allocatable", {}), f"allocatable of {shown}")),
    )


def _texts(table: Mapping[str, Any], what: str) -> dict[str, str]:
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise Rejected(f"{what} must be text or whole numbers: {key} = {value!r}")
    return {key: str(value) for key, value in table.items()}


def _commands(table: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(table, dict):
        raise Rejected(f"commands must be a table: {table!r}")
    _known_keys(table, {*COMMANDS}, "the table of commands")
    for name, words in table.items():
        if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
            raise Rejected(f"a command is a list of words: {name} = {words!r}")
    return {name: tuple(words) for name, words in table.items()}


def _known_keys(table: Mapping[str, Any], known: Any, what: str) -> None:
    for key in table:
        if key not in known:
            raise Rejected(f"{what} has an unknown key: {key} (known: {', '.join(sorted(known))})")
