"""Machines: a list with filters, and one with its life."""

import json
from collections.abc import Mapping
from typing import Any, Final

from mainstay.dashboard.asking import Asking, freshest, refusal
from mainstay.dashboard.data import data_of, ways
from mainstay.dashboard.draw import lifecycle
from mainstay.dashboard.html import EMPTY, Child, Html, address, h, link, together
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.rows import ACTION_COLUMNS, action_rows, machine_link
from mainstay.dashboard.paging import ASKED, merged_by_key, pager
from mainstay.dashboard.parts import (
    Choice,
    Column,
    facts,
    field,
    filters,
    section,
    select,
    sentences,
    state_mark,
    table,
)
from mainstay.dashboard.words import dollars, of_old, plural, short
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.state import State

HISTORY: Final = 50

COLUMNS: Final = (
    "Machine", "State", "Cluster", "Type", "Zone", "Capacity", "Provider",
    Column("$/hour", True), "Need", "Plan", "Shard",
)  # fmt: skip

_STATES: Final[Mapping[str, State]] = {str(state): state for state in State if state}


async def machines(asking: Asking, seen: Seen) -> Page:
    """A page of them, in the order of their ids over all shards; each counts its own."""
    state = _STATES.get(seen.asked("state"))
    query = v.MachineQuery(
        states=(state,) if state else (),
        cluster=seen.asked("cluster"),
        instance_type=seen.asked("type"),
        zone=seen.asked("zone"),
        provider=seen.asked("provider"),
        limit=ASKED,
        after=seen.asked("after"),
    )
    told = await asking.machines(query)
    paged = merged_by_key(told, machine_id, sole=True)
    matched = sum(each.value.matched for each in told if each.value)
    rows = [machine_row(shard, row) for shard, row in paged.rows]
    old = sum(each.value.matched for each in told if each.value and each.is_stale)
    made = table(
        plural(matched, "machine") + of_old(old), COLUMNS, rows, "No machine is like that."
    )
    offered = ways("machines", seen.query)
    return Page(
        title="Machines",
        section="/machines",
        fixed=_filters(seen),
        live={"machines": together(made, pager("machines", seen.query, paged.after), offered)},
        data=data_of(paged.rows, paged.after),
    )


def machine_id(row: v.MachineRow) -> str:
    """What orders machines."""
    return row.id


def _filters(seen: Seen) -> Html:
    any_state = Choice("", "any")
    return filters(
        "/machines",
        select("state", "State", [any_state, *(Choice(each, each) for each in _STATES)],
               seen.asked("state")),
        field("cluster", "Cluster", seen.asked("cluster")),
        field("type", "Instance type", seen.asked("type")),
        field("zone", "Zone", seen.asked("zone")),
        field("provider", "Provider", seen.asked("provider")),
    )  # fmt: skip


def machine_row(shard: str, row: v.MachineRow) -> list[Child]:
    """One of a list."""
    cluster: Child = row.cluster and link(row.cluster, address("clusters", row.cluster))
    return [
        machine_link(row.id), state_mark(row.state), cluster, row.instance_type, row.zone,
        row.capacity_type, row.provider, dollars(row.price_per_hour), short(row.need),
        row.action, shard,
    ]  # fmt: skip


async def machine(asking: Asking, seen: Seen) -> Page:
    """One of them: where it is in its life, why, and what was done with it."""
    name = seen.names["machine"]
    told = await asking.explained(q.Question(about=q.About.MACHINE, name=name))
    known = [(each.source, each.value) for each in freshest(told) if each.value is not None]
    if not known:
        raise refusal(told)
    shard, answer = known[0]
    done = await asking.actions(v.ActionQuery(machine=name, limit=HISTORY))
    report = report_of(answer.document)
    history = table("What was done with it, the newest first", ACTION_COLUMNS, action_rows(done),
                    "Nothing, as far back as the shard remembers.")  # fmt: skip
    return Page(
        title=f"Machine {name}",
        section="/machines",
        fixed=EMPTY,
        live={
            "facts": _facts(report, shard),
            "actions": _actions(name, report, seen),
            "life": section("Where it is in its life", lifecycle(str(report.get("state", "")))),
            "why": section("Why", sentences(answer.sentences)),
            "history": section("Recent actions", history),
        },
    )


def _actions(name: str, report: Mapping[str, Any], seen: Seen) -> Html:
    """A machine that has failed can be given up."""
    if not seen.may_change or report.get("state") != str(State.FAILED):
        return EMPTY
    way = link("Retire", address("machines", name, "retire"), class_="button", id="retire")
    return h("div", way, class_="actions")


def report_of(document: str) -> Mapping[str, Any]:
    """What a shard tells of a machine as data."""
    try:
        found = json.loads(document)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _facts(report: Mapping[str, Any], shard: str) -> Html:
    cluster, claimed = str(report.get("cluster") or ""), report.get("claimed_by")
    need: Child = None
    if isinstance(claimed, dict):
        fingerprint = str(claimed.get("fingerprint", ""))
        to = address("needs", "explain", shard=shard, cluster=str(claimed.get("cluster", "")),
                     need=fingerprint, group=str(claimed.get("group", "")))  # fmt: skip
        need = link(short(fingerprint), to)
    price = report.get("price_per_hour")
    return facts(
        ("State", state_mark(str(report.get("state", "")))),
        ("Cluster", cluster and link(cluster, address("clusters", cluster))),
        ("Type", str(report.get("instance_type", ""))),
        ("Zone", str(report.get("zone", ""))),
        ("Price per hour", dollars(price) if isinstance(price, float | int) else None),
        ("Claimed by need", need),
        ("Shard", link(shard, address("shards", shard))),
    )
