"""Capacity that is waited for: by whom, behind which need, and when it may come."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mainstay.dashboard.asking import Asking, refusal
from mainstay.dashboard.html import EMPTY, Child, Html, address, h, link
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.ending import asked_first
from mainstay.dashboard.parts import Column, facts, mark, section, table
from mainstay.dashboard.words import day_and_time, number, short
from mainstay.model.questions import NOTHING_EXPECTED, About, Expected, Question
from mainstay.shard.answers.when import expected_sentence
from mainstay.tenancy.expecting import After, after_of, expected_of, request_expected
from mainstay.tenancy.states import REQUEST_PREFIX, CapacityState

WAITED: Final = f"{REQUEST_PREFIX}_"
"""How the id of one begins."""

SHOWN: Final = 20

_KINDS: Final = {CapacityState.WAITING: "warn", CapacityState.PLACED: "good"}

COLUMNS: Final = (
    "Request", "Project", "SKU", Column("GPUs", True), "Region", "Why it waits",
    "Asked for at (UTC)", "At most until (UTC)",
)  # fmt: skip


async def waiting(asking: Asking, project: str = "") -> Html:
    """The last that still wait, of a project or of all; nothing where nobody does."""
    of = {"project_id": project} if project else {}
    told = await asking.tenancy("/admin/capacity-requests", state="waiting", limit=SHOWN, **of)
    if not isinstance(told.value, dict) or not told.value["items"]:
        return EMPTY
    rows = told.value["items"]
    caption = f"{number(len(rows))} of {number(told.value['waiting'])}, the newest first"
    made = table(caption, COLUMNS, [_row(each) for each in rows], "None.")
    return section("Waiting for room", made)


def _row(row: Mapping[str, Any]) -> Sequence[Child]:
    identity = str(row["request_id"])
    return (
        link(identity, address("allocations", identity)), str(row["project_id"]), str(row["sku"]),
        number(row["gpus"]), str(row["region"]), str(row["reason"]),
        day_and_time(row["created_at"]), day_and_time(row["expires_at"]),
    )  # fmt: skip


async def request(asking: Asking, seen: Seen) -> Page:
    """One of them; once it is placed it leads to its allocation."""
    name = seen.names["allocation"]
    told = await asking.tenancy(f"/admin/capacity-requests/{address(name)[1:]}")
    if not isinstance(told.value, dict):
        raise refusal([told])
    row = told.value
    path = f"/capacity-requests/{address(name)[1:]}/expected"
    answer = (await asking.tenancy(path, project_id=str(row["project_id"]))).value
    after = after_of(answer) if isinstance(answer, dict) else None
    expected = expected_of(answer) if isinstance(answer, dict) else NOTHING_EXPECTED
    if after is not None:
        expected = request_expected(after, await _need_expected(asking, after))
    return Page(
        title=f"Capacity request {name}",
        section="/allocations",
        fixed=EMPTY,
        live={
            "facts": _facts(row, after),
            "actions": _actions(row, seen),
            "when": _said(expected),
        },
    )


async def _need_expected(asking: Asking, after: After) -> Expected | None:
    """What the shard that knows the need says; None: none does."""
    question = Question(
        about=About.NEED, name=after.cluster, fingerprint=after.need, quick=True
    )  # fmt: skip
    told = await asking.explained(question)
    return next((each.value.expected for each in told if each.value is not None), None)


def when_part(answer: Any) -> Html:
    """When an allocation is where it is on its way to; nothing where it stays."""
    return _said(expected_of(answer)) if isinstance(answer, dict) else EMPTY


def _said(expected: Expected) -> Html:
    said = expected_sentence(expected).removeprefix("When: ")
    return section("When", h("p", said[:1].upper() + said[1:])) if said else EMPTY


def _facts(row: Mapping[str, Any], after: After | None) -> Html:
    became = str(row["allocation_id"] or "")
    need: Child = None
    if after is not None:
        to = address("needs", "explain", cluster=after.cluster, need=after.need)
        need = link(f"{after.cluster}/{short(after.need)}", to)
    return facts(
        ("State", mark(str(row["state"]), _KINDS.get(row["state"], "plain"))),
        ("Allocation", became and link(became, address("allocations", became))),
        ("Project", str(row["project_id"])), ("SKU", str(row["sku"])),
        ("GPUs", number(row["gpus"])), ("Region", str(row["region"])),
        ("Why it waits", str(row["reason"])), ("Behind the need", need),
        ("Asked for at (UTC)", day_and_time(row["created_at"])),
        ("At most until (UTC)", day_and_time(row["expires_at"])),
    )  # fmt: skip


def _actions(row: Mapping[str, Any], seen: Seen) -> Html:
    if not seen.may_change or row["state"] != CapacityState.WAITING:
        return EMPTY
    path = address("allocations", str(row["request_id"]), "cancel")
    return h("div", asked_first(path, "Wait no longer", "cancel"), class_="actions")
