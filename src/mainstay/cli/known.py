"""What of the running servers could be meant by a word: asked at a Tab, at once or not at all."""

import tomllib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from mainstay.cli.words import reasons
from mainstay.model import views as v
from mainstay.model.errors import MainstayError
from mainstay.model.state import State

if TYPE_CHECKING:
    from mainstay.processes.finding import Server
    from mainstay.wire.shard_view_client import RemoteShard

DEADLINE_S: Final = 0.8
"""So long nobody minds waiting for a Tab; after it there is nothing to offer."""

SHOWN: Final = 200

Said = Mapping[str, str]
"""Options that say whom to ask, as far as they were typed."""


def known(what: str, begun: str, said: Said) -> list[str]:
    """The names of this kind that are there now; none when nobody answers in time."""
    source = SOURCES.get(what)
    if source is None:
        return []
    with suppress(MainstayError, OSError, TimeoutError):
        return sorted(set(source(begun, said)))
    return []


def _of_shards(
    question: "Callable[[RemoteShard, str], Awaitable[Iterable[str]]]",
) -> Callable[[str, Said], Iterable[str]]:
    def asked(begun: str, said: Said) -> Iterable[str]:
        import asyncio

        from mainstay.cli import servers

        found = _shards(said)
        answers = asyncio.run(
            asyncio.wait_for(
                servers.ask_all(found, lambda shard: question(shard, begun)), DEADLINE_S
            )
        )
        return [name for answer in answers.given for name in answer.value]

    return asked


def _shards(said: Said) -> "Sequence[Server]":
    from mainstay.config.load import contexts_file, home_directory, read_sources
    from mainstay.processes.finding import SHARD, Where, find

    return find(
        Where(
            process=SHARD,
            home=home_directory(),
            contexts=contexts_file(),
            environment=read_sources().environment,
            server=said.get("--server", ""),
            context=said.get("--context", ""),
        )
    )


async def _machines(shard: "RemoteShard", begun: str) -> list[str]:
    """Those behind what was typed, and that one: names go by their order."""
    found = [] if not begun else [row async for row in _rows(shard, v.MachineQuery(ids=(begun,)))]
    query = v.MachineQuery(limit=SHOWN, after=begun)
    return [row.id for row in [*found, *[row async for row in _rows(shard, query)]]]


async def _rows(shard: "RemoteShard", query: v.MachineQuery) -> Any:
    async for chunk in shard.machines(query):
        for row in chunk.rows:
            yield row


async def _clusters(shard: "RemoteShard", _: str) -> list[str]:
    return [row.cluster for row in (await shard.clusters(v.ClusterQuery())).rows]


async def _needs(shard: "RemoteShard", begun: str) -> list[str]:
    from mainstay.cli.get_columns import Of, need_name

    cluster, slash, _ = begun.partition("/")
    query = v.NeedQuery(cluster=cluster if slash else "", limit=SHOWN)
    return [need_name(Of("", row)) for row in (await shard.needs(query)).rows]


async def _gangs(shard: "RemoteShard", _: str) -> list[str]:
    return [row.group for row in (await shard.needs(v.NeedQuery())).rows if row.group]


async def _providers(shard: "RemoteShard", _: str) -> list[str]:
    return [row.name for row in (await shard.providers(v.ProviderQuery())).rows]


def _shard_names(_: str, said: Said) -> Iterable[str]:
    return [server.name for server in _shards(said)]


def _contexts(_: str, __: Said) -> Iterable[str]:
    from mainstay.config.load import contexts_file

    try:
        told = tomllib.loads(contexts_file().read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return []
    contexts = told.get("contexts", {})
    return list(contexts) if isinstance(contexts, dict) else []


def _of_api(role: str, path: str, name: str) -> Callable[[str, Said], Iterable[str]]:
    def asked(_: str, said: Said) -> Iterable[str]:
        from mainstay.cli.client import client

        api = client(role, said.get("--server"), patience_s=DEADLINE_S)
        return [str(row[name]) for row in api.get(path)["items"]]

    return asked


def _states(_: str, __: Said) -> Iterable[str]:
    return [str(state) for state in State if state]


def _reasons(_: str, __: Said) -> Iterable[str]:
    return reasons()


SOURCES: Final[Mapping[str, Callable[[str, Said], Iterable[str]]]] = {
    "machine": _of_shards(_machines),
    "cluster": _of_shards(_clusters),
    "need": _of_shards(_needs),
    "gang": _of_shards(_gangs),
    "provider": _of_shards(_providers),
    "shard": _shard_names,
    "state": _states,
    "short_for": _reasons,
    "context": _contexts,
    "allocation": _of_api("tenant", "/allocations", "allocation_id"),
    "request": _of_api("tenant", "/capacity-requests", "request_id"),
    "node": _of_api("admin", "/admin/nodes", "id"),
}
"""By kind of name."""
