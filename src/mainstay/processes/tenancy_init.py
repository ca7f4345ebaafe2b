"""`mainstay tenancy init`: a catalogue, a project with funds, and keys to begin with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mainstay.config.api import ApiConfig
from mainstay.model.errors import Rejected
from mainstay.processes.tenancy import Around, Ground, standing
from mainstay.tenancy import api_keys, catalogue, credentials
from mainstay.tenancy.api_keys import NewKey, Role
from mainstay.tenancy.attempts import Who
from mainstay.tenancy.catalogue import Loaded

WHO: Final = Who(name="mainstay tenancy init", role="admin", correlation_id="init")


@dataclass(frozen=True, slots=True)
class Begun:
    """What there is now."""

    loaded: Loaded
    project: str
    nodes: tuple[str, ...]
    credentials: Path
    fresh: bool
    """Whether the keys were made now; else they are those of an earlier time."""


async def begin(config: ApiConfig, around: Around, document: Mapping[str, Any]) -> Begun:
    """Load the catalogue and make keys for its first project. A second time changes nothing."""
    projects = [str(entry.get("id")) for entry in _entries(document, "project")]
    if not projects:
        raise Rejected("the catalogue has no project: add a [[project]]")
    async with standing(config, around) as ground:
        loaded = await catalogue.load(ground.pool, document)
        path = credentials.path_of(around.home)
        fresh = not path.exists()
        if fresh:
            credentials.keep(around.home, await _new_keys(ground, projects[0]))
    nodes = tuple(str(entry.get("id")) for entry in _entries(document, "node"))
    return Begun(loaded, projects[0], nodes, path, fresh)


async def _new_keys(ground: Ground, project: str) -> dict[str, str]:
    made = {"project": project}
    for role in (Role.TENANT, Role.ADMIN):
        new = NewKey(role=role, project=project if role is Role.TENANT else None, name="init")
        _, secret = await api_keys.create(ground.pool, ground.ids, new, WHO)
        made[str(role)] = secret
    return made


def _entries(document: Mapping[str, Any], table: str) -> list[Mapping[str, Any]]:
    found = document.get(table, [])
    entries = found if isinstance(found, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]
