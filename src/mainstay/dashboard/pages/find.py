"""One box for everything that has a name: it leads there, or lists what begins like that."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.dashboard.asking import Asking
from mainstay.dashboard.html import address, h, link
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.racks import RACK_KEY
from mainstay.dashboard.pages.requests import WAITED
from mainstay.dashboard.parts import table
from mainstay.dashboard.words import plural, short
from mainstay.model import group_views as g
from mainstay.model import views as v

ALLOCATED: Final = "alc_"
"""How the id of an allocation begins."""

EACH_MAX: Final = 20
"""So many of each kind are listed."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something that is called like that."""

    kind: str
    name: str
    to: str
    where: str = ""


async def find(asking: Asking, seen: Seen) -> Page:
    """To the only one, or to the one that is called exactly so; else all of them."""
    text = seen.asked("q")
    if not text:
        return _page(text, [])
    kinds = (_shards, _clusters, _machines, _racks, _needs, _nodes, _tenants)
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(kind(asking, text)) for kind in kinds]
    found = list(dict.fromkeys(each for task in asked for each in task.result()))
    exact = [each for each in found if each.name == text]
    only = exact if len(exact) == 1 else found
    return _page(text, found, to=only[0].to if len(only) == 1 else "")


def _page(text: str, found: Sequence[Found], *, to: str = "") -> Page:
    if not text:
        said = "Write how something is called, or how that begins, into the box at the top."
        return Page(title="Find", section="", fixed=h("p", said), live={})
    rows = [(link(each.name, each.to), each.kind, each.where) for each in found]
    caption = f"{plural(len(rows), 'thing')} called {text}, or beginning so"
    none = "Nothing is called like that: no machine, cluster, need, gang, rack, node or allocation."
    made = table(caption, ("Name", "What", "Where"), rows, none)
    return Page(title="Find", section="", fixed=made, live={}, to=to)


async def _shards(asking: Asking, text: str) -> list[Found]:
    return [
        Found("shard", name, address("shards", name))
        for name in asking.names
        if name.startswith(text)
    ]


async def _clusters(asking: Asking, text: str) -> list[Found]:
    own, behind = await asking.clusters(text), await asking.clusters(after=text)
    names = {row.cluster for each in (*own, *behind) if each.value for row in each.value.rows}
    return [
        Found("cluster", name, address("clusters", name))
        for name in sorted(names)[:EACH_MAX]
        if name.startswith(text)
    ]


async def _machines(asking: Asking, text: str) -> list[Found]:
    """Ids are in order, so that those which begin like that stand right behind it."""
    own = await asking.machines(v.MachineQuery(ids=(text,), limit=1))
    behind = await asking.machines(v.MachineQuery(after=text, limit=EACH_MAX))
    rows = [(r, each.source) for each in (*own, *behind) if each.value for r in each.value.rows]
    return [
        Found("machine", row.id, address("machines", row.id), shard)
        for row, shard in rows
        if row.id.startswith(text)
    ]


async def _racks(asking: Asking, text: str) -> list[Found]:
    queries = (
        g.GroupQuery(attribute=RACK_KEY, value=text, limit=1),
        g.GroupQuery(attribute=RACK_KEY, after=text, limit=EACH_MAX),
    )
    told = [each for query in queries for each in await asking.groups(query)]
    names = {row.value for each in told if each.value for row in each.value.rows}
    return [
        Found("rack", name, address("racks", "one", value=name))
        for name in sorted(names)
        if name.startswith(text)
    ]


async def _needs(asking: Asking, text: str) -> list[Found]:
    queries = (
        v.NeedQuery(fingerprint=text, limit=EACH_MAX), v.NeedQuery(group=text, limit=EACH_MAX),
    )  # fmt: skip
    told = [each for query in queries for each in await asking.needs(query, {})]
    rows = [(each.source, row) for each in told if each.value for row in each.value.rows]
    return [
        Found(
            "gang" if row.group else "need",
            "/".join(filter(None, (short(row.fingerprint), row.group))),
            address("needs", "explain", shard=shard, cluster=row.cluster, need=row.fingerprint,
                    group=row.group),
            f"{row.cluster}, {shard}",
        )
        for shard, row in rows
        if row.fingerprint.startswith(text) or row.group == text
    ]  # fmt: skip


async def _nodes(asking: Asking, text: str) -> list[Found]:
    own = (await asking.tenancy(f"/admin/nodes/{address(text)[1:]}")).value
    behind = (await asking.tenancy("/admin/nodes", after=text, limit=EACH_MAX)).value
    rows: list[Any] = [own] if isinstance(own, dict) else []
    rows += behind["items"] if isinstance(behind, dict) else []
    return [
        Found("node", row["id"], address("nodes", row["id"]), str(row["region"]))
        for row in rows
        if row["id"].startswith(text)
    ]


async def _tenants(asking: Asking, text: str) -> list[Found]:
    """They are known by their whole name only."""
    for kind, prefix, path in (
        ("allocation", ALLOCATED, "/admin/allocations"),
        ("capacity request", WAITED, "/admin/capacity-requests"),
    ):
        if text.startswith(prefix):
            row = (await asking.tenancy(f"{path}/{address(text)[1:]}")).value
            where = str(row["project_id"]) if isinstance(row, dict) else ""
            return [Found(kind, text, address("allocations", text), where)] if where else []
    return []
