"""The only reader of settings: built-in value, then TOML file, then environment, then flags.

A setting is named `section.field` in the file and MAINSTAY_<SECTION>_<FIELD> in the environment.
An unknown name is refused, never ignored: a typing error must not run with the default.
"""

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mainstay.config.api import ApiConfig
from mainstay.config.bridge import BridgeConfig
from mainstay.config.coordinator import CoordinatorConfig
from mainstay.config.dashboard import DashboardConfig
from mainstay.config.postgres import PostgresConfig
from mainstay.config.provider import (
    Ec2ProviderConfig,
    OwnProviderConfig,
    SimProviderConfig,
    StaticProviderConfig,
)
from mainstay.config.shard import ShardConfig
from mainstay.config.up import UpConfig
from mainstay.config.world import WorldConfig
from mainstay.model.errors import Rejected

SECTIONS: Final[dict[str, type[Any]]] = {
    "up": UpConfig,
    "world": WorldConfig,
    "shard": ShardConfig,
    "coordinator": CoordinatorConfig,
    "provider_sim": SimProviderConfig,
    "provider_static": StaticProviderConfig,
    "provider_ec2": Ec2ProviderConfig,
    "provider_serve": OwnProviderConfig,
    "postgres": PostgresConfig,
    "api": ApiConfig,
    "bridge": BridgeConfig,
    "dashboard": DashboardConfig,
}

FILE_VARIABLE: Final = "MAINSTAY_CONFIG"
"""Names the TOML file; without it `mainstay.toml` is read, if it is in the working directory or,
else, at home."""

DEFAULT_FILE: Final = "mainstay.toml"

TEXTS: Final = tuple[str, ...]
"""The kind of a setting that is a list: an array in the file, commas in the environment."""

OUTSIDE_SETTINGS: Final = frozenset({
    FILE_VARIABLE, "MAINSTAY_HOME", "MAINSTAY_DATA", "MAINSTAY_SERVER", "MAINSTAY_KEY",
    "MAINSTAY_TLS_CA", "MAINSTAY_INSECURE",
    "MAINSTAY_COORDINATOR", "MAINSTAY_REQUIRE_ALL", "MAINSTAY_SOAK",
})  # fmt: skip
"""Variables of ours that name places or modes and are not fields of a section."""

ConfigT = TypeVar("ConfigT")


class Origin(StrEnum):
    """Where a value comes from; later ones win."""

    BUILT_IN = "built in"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class Loaded(NamedTuple, Generic[ConfigT]):
    """A configuration with the origin of each of its fields."""

    config: ConfigT
    origins: Mapping[str, Origin]


class Said(NamedTuple):
    """What was said outside of one setting."""

    value: object
    origin: Origin


class Sources(NamedTuple):
    """What was said outside, read once."""

    file: Mapping[str, Mapping[str, object]]
    environment: Mapping[str, str]
    path: Path | None = None
    """Where the file is; None: there was none."""

    def handed_on(self) -> dict[str, str]:
        """The variables by which a process that we start has the same settings, wherever it runs.

        Whom to ask and as whom is no setting: that is for the command line alone.
        """
        named = {FILE_VARIABLE: str(self.path.absolute())} if self.path else {}
        told = {name: v for name, v in self.environment.items() if name not in OUTSIDE_SETTINGS}
        return told | named


def read_sources(
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    *,
    file: str | None = None,
) -> Sources:
    """Read the file and the environment; refuse names nobody knows.

    A `file` that was named by a flag is read instead of any other.
    """
    variables = dict(os.environ if environment is None else environment)
    ours = {name: value for name, value in variables.items() if name.startswith("MAINSTAY_")}
    known = {variable_name(s, f.name) for s, c in SECTIONS.items() for f in dataclasses.fields(c)}
    for name in sorted(ours.keys() - known - OUTSIDE_SETTINGS):
        raise Rejected(f"unknown setting in the environment: {name}")
    named = file or ours.get(FILE_VARIABLE)
    path = Path(named) if named else _usual_file(directory or Path(), home_directory(variables))
    return Sources(_read_file(path) if path else {}, ours, path)


def load(
    section: str, config_type: type[ConfigT], sources: Sources, flags: Mapping[str, object]
) -> Loaded[ConfigT]:
    """Build one section; a flag that is None, or a list of nothing, was not given."""
    values: dict[str, object] = {}
    origins: dict[str, Origin] = {}
    for field in dataclasses.fields(config_type):  # type: ignore[arg-type] # every section is one
        name = field.name
        origins[name] = Origin.BUILT_IN
        if (told := _said(section, name, field.type, sources)) is not None:
            values[name], origins[name] = told
        if (flag := flags.get(name)) is not None and flag not in ([], ()):
            values[name] = tuple(flag) if isinstance(flag, list) else flag
            origins[name] = Origin.FLAG
    return Loaded(config_type(**values), origins)


def said(section: str, field: str, sources: Sources) -> Said | None:
    """What file and environment say of one setting, without its section; None: nothing."""
    kinds = {each.name: each.type for each in dataclasses.fields(SECTIONS[section])}
    return _said(section, field, kinds[field], sources)


def _said(section: str, name: str, kind: object, sources: Sources) -> Said | None:
    found = None
    if name in (table := sources.file.get(section, {})):
        found = Said(_of_kind(table[name], kind, name), Origin.FILE)
    if (text := sources.environment.get(variable_name(section, name))) is not None:
        found = Said(_parse(text, kind, name), Origin.ENVIRONMENT)
    return found


def home_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Where state lives: MAINSTAY_HOME, or /var/lib for root, or the user's state directory."""
    variables = os.environ if environment is None else environment
    if named := variables.get("MAINSTAY_HOME"):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/lib/mainstay")
    base = variables.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local/state") / "mainstay"


def contexts_file(environment: Mapping[str, str] | None = None) -> Path:
    """Where a user's contexts are: which servers the command line asks."""
    variables = os.environ if environment is None else environment
    base = variables.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "mainstay" / "contexts.toml"


def outside(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """One of `OUTSIDE_SETTINGS`, if it is set and not empty."""
    if name not in OUTSIDE_SETTINGS:
        raise AssertionError(f"not a variable of ours: {name}")
    return (os.environ if environment is None else environment).get(name) or None


def variable_name(section: str, field: str) -> str:
    """The environment name of a setting."""
    return f"MAINSTAY_{section}_{field}".upper()


def _usual_file(*directories: Path) -> Path | None:
    """The first there is."""
    paths = (directory / DEFAULT_FILE for directory in directories)
    return next((path for path in paths if _is_there(path)), None)


def _is_there(path: Path) -> bool:
    """Where we may not look there is none."""
    try:
        return path.exists()
    except OSError:
        return False


def _read_file(path: Path) -> Mapping[str, Mapping[str, object]]:
    try:
        with path.open("rb") as stream:
            tables = tomllib.load(stream)
    except OSError as error:
        raise Rejected(f"cannot read the settings file: {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Rejected(f"not a TOML file: {path}: {error}") from error
    for section, table in tables.items():
        _check_table(section, table, path)
    return tables


def _check_table(section: str, table: object, path: Path) -> None:
    if section not in SECTIONS:
        raise Rejected(f"unknown section in {path}: {section}")
    if not isinstance(table, dict):
        raise Rejected(f"not a section in {path}: {section}")
    known = {field.name for field in dataclasses.fields(SECTIONS[section])}
    for name in sorted(table.keys() - known):
        raise Rejected(f"unknown setting in {path}: {section}.{name}")


def _of_kind(value: object, kind: object, name: str) -> object:
    """Settings are of the plain kinds; bool is an int to Python and not to us."""
    if kind == TEXTS:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise Rejected(f"wrong kind of value for {name}: {value!r} (a list of texts)")
        return tuple(value)
    allowed = (int, float) if kind is float else (kind,)
    if type(value) not in allowed:
        raise Rejected(f"wrong kind of value for {name}: {value!r}")
    return value


def _parse(text: str, kind: object, name: str) -> object:
    if kind == TEXTS:
        return tuple(part for each in text.split(",") if (part := each.strip()))
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text) if callable(kind) else text
    except (ValueError, KeyError) as error:
        raise Rejected(f"wrong kind of value for {name}: {text!r}") from error
