"""Nodes of tenants with their slots drawn."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mainstay.dashboard.asking import Asking, refusal
from mainstay.dashboard.draw_slots import Slot, slot_key, slot_tree
from mainstay.dashboard.html import EMPTY, Html, address, h, link, together
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.paging import pager
from mainstay.dashboard.parts import Column, facts, mark, section, table, told_by
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import day_and_time, number, plural

SIZE: Final = 24
"""So many nodes are drawn on a page: each is one question."""


async def nodes(asking: Asking, seen: Seen) -> Page:
    """Racks of slots."""
    told = await asking.tenancy("/admin/nodes", after=seen.asked("after"), limit=SIZE)
    rows = _items(told.value)
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_slots(asking, str(row["id"]))) for row in rows]
    drawn = [_drawn(row, each.result()) for row, each in zip(rows, asked, strict=True)]
    more = pager("nodes", seen.query, str(rows[-1]["id"]) if len(rows) == SIZE else "")
    free = sum(int(row["slots_available"]) for row in rows)
    count = h("p", f"{plural(len(rows), 'node')} here, {plural(free, 'slot')} free.")
    none = h("p", "No node is registered: `mainstay admin` does that.", class_="none")
    made = (
        together(told_by(told, seen.now_s), count, h("div", *drawn, class_="racks"), more)
        if rows
        else none
    )
    return Page(
        title="Nodes and slots",
        section="/nodes",
        fixed=slot_key(),
        live={"nodes": made if told.value else EMPTY},
    )


async def _slots(asking: Asking, node: str) -> Sequence[Mapping[str, Any]]:
    told = await asking.tenancy(f"/admin/nodes/{_safe(node)}/resource-slots")
    return _items(told.value)


def _safe(identity: str) -> str:
    return address(identity)[1:]


def _items(value: Any) -> Sequence[Mapping[str, Any]]:
    return value["items"] if isinstance(value, dict) else ()


def _slot(row: Mapping[str, Any]) -> Slot:
    return Slot(int(row["slot_index"]), str(row["status"]), int(row["numa_node"]))


def _drawn(row: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> Html:
    name = str(row["id"])
    return h(
        "article",
        h("h2", link(name, address("nodes", name)), " ", _status(row)),
        slot_tree(name, map(_slot, found)),
        h("p", f"{row['sku']} in {row['region']}: {row['slots_available']} of {row['slots']} slots"
               f" free, mode {row['mode']}", class_="note"),
        class_="rack",
    )  # fmt: skip


def _status(row: Mapping[str, Any]) -> Html:
    status = str(row["status"])
    return mark(status, "good" if status == "active" else "warn")


async def node(asking: Asking, seen: Seen) -> Page:
    """One of them."""
    name = seen.names["node"]
    told: Told[Any] = await asking.tenancy(f"/admin/nodes/{_safe(name)}")
    if not isinstance(told.value, dict):
        raise refusal([told])
    row = told.value
    found = await _slots(asking, name)
    rows = [
        (number(each["slot_index"]), mark(str(each["status"]).replace("_", " ")),
         number(each["numa_node"]), each["pci_address"], each["nvme_device"],
         each["private_ip"], ", ".join(f"{k}: {v}" for k, v in each["health_detail"].items()))
        for each in sorted(found, key=lambda each: int(each["slot_index"]))
    ]  # fmt: skip
    columns = ("Slot", "Status", Column("NUMA node", True), "PCI", "NVMe", "Address", "Health")
    return Page(
        title=f"Node {name}",
        section="/nodes",
        fixed=EMPTY,
        live={
            "facts": together(told_by(told, seen.now_s), facts(
                ("Status", _status(row)), ("Sold as", str(row["sku"])),
                ("Region", str(row["region"])), ("Mode", str(row["mode"])),
                ("GPUs", number(row["gpus_total"])), ("Agent", str(row["agent_version"])),
                ("Agent heard", day_and_time(row["last_seen_at"])),
            )),
            "slots": section("Slots", slot_key(), slot_tree(name, map(_slot, found)),
                             table("Each slot", columns, rows, "None is known yet.")),
        },
    )  # fmt: skip
