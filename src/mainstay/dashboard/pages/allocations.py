"""Allocations: who has what, since when, and what happened to it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mainstay.dashboard.asking import Asking, refusal
from mainstay.dashboard.data import Data, ways
from mainstay.dashboard.html import EMPTY, Child, Html, address, h, link, together
from mainstay.dashboard.page import Page, Seen, once
from mainstay.dashboard.pages.ending import GIVEN_BACK, asked_first
from mainstay.dashboard.pages.ordering import create_form
from mainstay.dashboard.pages.requests import WAITED, request, waiting, when_part
from mainstay.dashboard.paging import pager
from mainstay.dashboard.parts import (
    Choice,
    Column,
    facts,
    field,
    filters,
    mark,
    order,
    section,
    select,
    table,
    told_by,
)
from mainstay.dashboard.words import day_and_time, lasting, number
from mainstay.tenancy.billing.charge import formatted
from mainstay.tenancy.states import Status

SIZE: Final = 50
UNCHARGED: Final = (
    "Nothing was charged for it yet: active time is, every minute and when it is given back."
)

_KINDS: Final = {
    Status.ACTIVE: "good", Status.FAILED: "bad", Status.RELEASE_FAILED: "bad",
    Status.RELEASED: "plain",
}  # fmt: skip

_LIFE: Final = (
    (Status.REQUESTED, "created_at"), (Status.PROVISIONING, "provisioning_started_at"),
    (Status.ACTIVE, "active_at"), (Status.RELEASING, "releasing_at"),
    (Status.RELEASED, "released_at"),
)  # fmt: skip

COLUMNS: Final = (
    "Allocation", "Status", "Project", "SKU", Column("GPUs", True), "Node",
    Column("Per hour", True), "Asked for at (UTC)",
)  # fmt: skip


_NO_BILL: Final[Mapping[str, Any]] = {"lines": (), "currency": "", "is_whole": False}


async def allocations(asking: Asking, seen: Seen) -> Page:
    """A page of them, newest first."""
    status = seen.asked("status") if seen.asked("status") in set(Status) else ""
    given = {"status": status, "project_id": seen.asked("project"), "cursor": seen.asked("cursor")}
    query = {name: value for name, value in given.items() if value}
    told = await asking.tenancy("/admin/allocations", limit=SIZE, **query)
    value = told.value if isinstance(told.value, dict) else {"items": [], "next_cursor": None}
    rows = [_row(each) for each in value["items"]]
    made = table("Allocations, the newest first", COLUMNS, rows, "There is none like that.")
    more = pager("allocations", seen.query, value["next_cursor"] or "", "cursor")
    refused = h("p", told.error, class_="notice bad") if told.refused else None
    return Page(
        title="Allocations",
        section="/allocations",
        fixed=_filters(status, seen.asked("project")),
        live={
            "new": await create_form(asking, seen),  # comes when the API answers at last
            "waiting": await waiting(asking, seen.asked("project")),
            "allocations": together(
                told_by(told, seen.now_s), refused, made, more, ways("allocations", seen.query)
            ),
        },
        data=Data(rows=value["items"], after=value["next_cursor"] or ""),
    )


def _filters(status: str, project: str) -> Html:
    states = [Choice("", "any"), *(Choice(str(each), _said(each)) for each in Status)]
    return filters(
        "/allocations",
        select("status", "Status", states, status),
        field("project", "Project", project),
    )


def _said(status: str) -> str:
    return str(status).replace("_", " ")


def _row(row: Mapping[str, Any]) -> Sequence[Child]:
    price = row["price"]
    identity = str(row["allocation_id"])
    return (
        link(identity, address("allocations", identity)), _status(row), str(row["project_id"]),
        str(row["sku"]), number(row["gpus"]), str(row["node_id"]),
        formatted(price["gpu_hour_minor"] * row["gpus"], price["currency"]),
        day_and_time(row["created_at"]),
    )  # fmt: skip


def _status(row: Mapping[str, Any]) -> Html:
    return mark(_said(row["status"]), _KINDS.get(row["status"], "warn"))


async def allocation(asking: Asking, seen: Seen) -> Page:
    """One of them with its timeline, or one that is still waited for."""
    name = seen.names["allocation"]
    if name.startswith(WAITED):
        return await request(asking, seen)
    told = await asking.tenancy(f"/admin/allocations/{address(name)[1:]}")
    if not isinstance(told.value, dict):
        raise refusal([told])
    row = told.value
    path = f"/allocations/{address(name)[1:]}/timeline"
    timeline = (await asking.tenancy(path, project_id=str(row["project_id"]))).value
    moments = timeline["moments"] if isinstance(timeline, dict) else ()
    bill = await asking.tenancy(
        f"/allocations/{address(name)[1:]}/bill", project_id=str(row["project_id"])
    )
    expected = await asking.tenancy(
        f"/allocations/{address(name)[1:]}/expected", project_id=str(row["project_id"])
    )
    return Page(
        title=f"Allocation {name}",
        section="/allocations",
        fixed=EMPTY,
        live={
            "facts": together(told_by(told, seen.now_s), _facts(row)),
            "actions": _actions(row, seen),
            "life": section("Where it is in its life", _life(row)),
            "when": when_part(expected.value),
            "timeline": section("Timeline", _timeline(moments)),
            "bill": _bill(bill.value),
            "claims": section("What it holds", _claims(row["claims"])),
            "proof": _proof(row["proof"]),
        },
    )


def _facts(row: Mapping[str, Any]) -> Html:
    price, failure = row["price"], row["failure"] or {}
    node = str(row["node_id"] or "")
    why = ": ".join(
        str(failure[part]) for part in ("code", "phase", "message") if failure.get(part)
    )
    named = str(row["allocation_id"])
    connection = ", ".join(
        f"{_said(key)} {value}" for key, value in row["connection"].items() if value != named
    )
    return facts(
        ("Status", _status(row)), ("Project", str(row["project_id"])), ("SKU", str(row["sku"])),
        ("GPUs", number(row["gpus"])), ("Region", str(row["region"])),
        ("Node", node and link(node, address("nodes", node))),
        ("Per hour", formatted(price["gpu_hour_minor"] * row["gpus"], price["currency"])),
        ("Asked for by", str(row["requested_by"])), ("Connection", connection), ("Why", why),
        ("Clean-up proved", "yes" if row["proof"] else None),
    )  # fmt: skip


def _actions(row: Mapping[str, Any], seen: Seen) -> Html:
    """What may be done with it in its present state."""
    if not seen.may_change:
        return EMPTY
    path, status = address("allocations", str(row["allocation_id"])), row["status"]
    nonce, made = once(seen), list[Html]()
    if status in GIVEN_BACK and not row["cancel_requested"]:
        made.append(asked_first(f"{path}/release", "Release", "release"))
    if status == Status.RELEASE_FAILED:
        made.append(order(f"{path}/retry", seen.csrf, nonce, button="Try the clean-up again",
                          id="retry"))  # fmt: skip
    if status == Status.FAILED:
        made.append(order(f"{path}/retry", seen.csrf, nonce, button="Ask for the same again",
                          id="retry"))  # fmt: skip
    return h("div", *made, class_="actions") if made else EMPTY


def _life(row: Mapping[str, Any]) -> Html:
    """The usual way, the present step marked; what went wrong stands at its end."""
    steps = [
        h("li", h("b", _said(status)), h("small", day_and_time(row[column]) or "not yet"),
          class_=_step(row, status, column),
          aria_current="step" if row["status"] == status else None)
        for status, column in _LIFE
    ]  # fmt: skip
    wrong = [
        h("li", h("b", _said(status)), h("small", day_and_time(row[column])), class_="now wrong",
          aria_current="step")
        for status, column in ((Status.FAILED, "failed_at"),
                               (Status.RELEASE_FAILED, "release_failed_at"))
        if row["status"] == status
    ]  # fmt: skip
    return h("ol", *steps, *wrong, class_="steps")


def _step(row: Mapping[str, Any], status: Status, column: str) -> str:
    if row["status"] == status:
        return "now"
    return "past" if row[column] else "to-come"


def _timeline(moments: Sequence[Mapping[str, Any]]) -> Html:
    items = [
        h("li", h("time", day_and_time(each["at"]), datetime=str(each["at"])),
          h("b", _said(each["what"])), mark(str(each["layer"])),
          h("span", str(each["detail"])))
        for each in moments
    ]  # fmt: skip
    return h("ol", *items, class_="timeline", id="timeline") if items else h("p", "Nothing yet.")


def _bill(told: Any) -> Html:
    """What was charged for it, by month; lines appear as time is charged."""
    bill = told if isinstance(told, dict) else _NO_BILL
    rows = [
        (day_and_time(line["start"]), day_and_time(line["end"]), lasting(line["seconds"]),
         number(line["gpus"]), formatted(line["price_minor"], bill["currency"]),
         formatted(line["amount_minor"], bill["currency"]))
        for line in bill["lines"]
    ]  # fmt: skip
    columns = (
        "From (UTC)", "To (UTC)", "Lasting", Column("GPUs", True),
        Column("Per GPU and hour", True), Column("Amount", True),
    )  # fmt: skip
    none = "It costs nothing." if bill["is_whole"] else UNCHARGED
    made = table("What it has cost, by month", columns, rows, none)
    return section("Bill", made, _charged(bill) if rows else None)


def _charged(bill: Mapping[str, Any]) -> Html:
    if bill["is_whole"]:
        return h("p", f"{bill['amount']} in all: it is charged to its end.", class_="note")
    charged_to = day_and_time(bill["charged_to"])
    return h("p", f"{bill['amount']} so far, charged up to {charged_to} UTC.", class_="note")


def _proof(proof: Any) -> Html:
    """What its node has proved about the clean-up."""
    if not isinstance(proof, dict):
        return EMPTY
    rows = [(str(key).replace("_", " "), _plain(value)) for key, value in sorted(proof.items())]
    return section("Proof of clean-up", table("As its node has sent it", ("What", "Proof"), rows,
                                              "Nothing."))  # fmt: skip


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value)


def _claims(claims: Sequence[Mapping[str, Any]]) -> Html:
    rows = [
        (str(each["node_id"]), "whole node" if each["slot_index"] is None
         else f"slot {each['slot_index']}", _said(each["status"]), _said(each["slot_status"] or ""),
         "proved" if each["last_proof"] else "nobody had it before")
        for each in claims
    ]  # fmt: skip
    columns = ("Node", "What", "Claim", "Slot", "Left clean by who had it before")
    return table("Claims", columns, rows, "Nothing.")
