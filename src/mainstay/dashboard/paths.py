"""Which page is where."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mainstay.dashboard.asking import Asking
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages import (
    allocations,
    audit,
    clusters,
    controls,
    ending,
    find,
    machines,
    money,
    moves,
    needs,
    nodes,
    overview,
    quotas,
    racks,
    shards,
    whatif,
)

Maker = Callable[[Asking, Seen], Awaitable[Page]]

PAGES: Final[Mapping[str, Maker]] = {
    "/": overview.overview,
    "/find": find.find,
    "/shards": shards.shards,
    "/shards/{shard}": shards.shard,
    "/clusters": clusters.clusters,
    "/clusters/{cluster}": clusters.cluster,
    "/needs": needs.needs,
    "/needs/explain": needs.explained,
    "/whatif": whatif.whatif,
    "/machines": machines.machines,
    "/machines/{machine}": machines.machine,
    "/machines/{machine}/retire": ending.retire,
    "/racks": racks.racks,
    "/racks/one": racks.rack,
    "/nodes": nodes.nodes,
    "/nodes/{node}": nodes.node,
    "/allocations": allocations.allocations,
    "/allocations/{allocation}": allocations.allocation,
    "/allocations/{allocation}/release": ending.release,
    "/allocations/{allocation}/cancel": ending.cancel,
    "/money": money.page,
    "/quotas": quotas.quotas,
    "/moves": moves.moves,
    "/audit": audit.audit,
    "/controls": controls.controls,
}
