"""Before something ends: a page that says what goes with it, with a button and a way back."""

from collections.abc import Mapping
from typing import Any, Final

from mainstay.dashboard.asking import Asking, freshest, refusal
from mainstay.dashboard.html import Child, Html, address, h, link, together
from mainstay.dashboard.page import Page, Seen, once
from mainstay.dashboard.pages.machines import report_of
from mainstay.dashboard.parts import facts, field, order, state_mark
from mainstay.dashboard.words import dollars, number, plural
from mainstay.model import questions as q
from mainstay.model.state import State
from mainstay.tenancy.billing.charge import formatted
from mainstay.tenancy.states import CapacityState, Status

GIVEN_BACK: Final = frozenset({Status.REQUESTED, Status.PROVISIONING, Status.ACTIVE})
"""From where an allocation can be released."""

REASON_MAX: Final = 500


def asked_first(path: str, button: str, identity: str) -> Html:
    """The way to such a page, where an order would begin."""
    return link(button, path, class_="button", id=identity)


async def release(asking: Asking, seen: Seen) -> Page:
    """An allocation is given back."""
    name = seen.names["allocation"]
    told = await asking.tenancy(f"/admin/allocations/{address(name)[1:]}")
    if not isinstance(told.value, dict):
        raise refusal([told])
    row, title = told.value, f"Release {name}?"
    back = address("allocations", name)
    if row["status"] not in GIVEN_BACK:
        return _page(title, "/allocations", _nothing(f"It is {row['status']}.", back))
    price = row["price"]
    per_hour = formatted(price["gpu_hour_minor"] * row["gpus"], price["currency"])
    known = facts(
        ("Allocation", link(name, back)), ("Project", str(row["project_id"])),
        ("SKU", str(row["sku"])), ("GPUs", number(row["gpus"])),
        ("Node", str(row["node_id"] or "")), ("Per hour", per_hour),
    )  # fmt: skip
    said = (
        f"{_gpus(row)} given back and cleaned: all data there is lost, and"
        f" {per_hour} per hour are charged no longer."
    )
    form = _form(seen, once(seen), button="Release", back=back)
    return _page(title, "/allocations", together(known, h("p", said), form))


async def cancel(asking: Asking, seen: Seen) -> Page:
    """Room is waited for no longer."""
    name = seen.names["allocation"]
    told = await asking.tenancy(f"/admin/capacity-requests/{address(name)[1:]}")
    if not isinstance(told.value, dict):
        raise refusal([told])
    row, title = told.value, f"Wait for {name} no longer?"
    back = address("allocations", name)
    if row["state"] != CapacityState.WAITING:
        return _page(title, "/allocations", _nothing(f"It is {row['state']}.", back))
    per_hour = _price(await asking.tenancy("/catalog"), str(row["sku"]), int(row["gpus"]))
    known = facts(
        ("Request", link(name, back)), ("Project", str(row["project_id"])),
        ("SKU", str(row["sku"])), ("GPUs", number(row["gpus"])), ("Region", str(row["region"])),
        ("Would cost per hour", per_hour),
    )  # fmt: skip
    said = (
        f"Nobody waits for {plural(row['gpus'], 'GPU')} any more: its place in the order is lost."
        " Nothing that runs is touched."
    )
    form = _form(seen, once(seen), button="Wait no longer", back=back)
    return _page(title, "/allocations", together(known, h("p", said), form))


def _gpus(row: Mapping[str, Any]) -> str:
    return f"{plural(row['gpus'], 'GPU')} {'is' if row['gpus'] == 1 else 'are'}"


def _price(told: Any, sku: str, gpus: int) -> str:
    """Of so many; nothing where the catalogue does not say."""
    catalogue = told.value if isinstance(told.value, dict) else {"skus": []}
    return next(
        (formatted(each["gpu_hourly_price_minor"] * gpus, each["currency"])
         for each in catalogue["skus"] if each["sku"] == sku),
        "",
    )  # fmt: skip


async def retire(asking: Asking, seen: Seen) -> Page:
    """The record of a Failed machine is given up."""
    name = seen.names["machine"]
    told = await asking.explained(q.Question(about=q.About.MACHINE, name=name))
    known = [(each.source, each.value) for each in freshest(told) if each.value is not None]
    if not known:
        raise refusal(told)
    shard, report = known[0][0], report_of(known[0][1].document)
    title, back = f"Retire {name}?", address("machines", name)
    state, price = str(report.get("state", "")), report.get("price_per_hour")
    if state != str(State.FAILED):
        return _page(title, "/machines", _nothing(f"It is {state}, and not Failed.", back))
    shown = facts(
        ("Machine", link(name, back)), ("State", state_mark(state)),
        ("Type", str(report.get("instance_type", ""))), ("Zone", str(report.get("zone", ""))),
        ("Price per hour", dollars(price) if isinstance(price, float | int) else None),
        ("Shard", link(shard, address("shards", shard))),
    )  # fmt: skip
    said = (
        "Its record is given up, and it is admitted again as its provider reports it. Whether the"
        " hardware is still there, and still costs something, is for the provider to say."
    )
    form = _form(
        seen, h("input", type="hidden", name="shard", value=shard),
        field("reason", "Reason", required=True, maxlength=REASON_MAX), button="Retire", back=back,
    )  # fmt: skip
    return _page(title, "/machines", together(shown, h("p", said), form))


def _form(seen: Seen, *fields: Html, button: str, back: str) -> Html:
    """The button is posted to the path of the page itself."""
    keep: Child = link("No, go back", back, id="back")
    if not seen.may_change:
        return h("p", f"{seen.session.role} may look and not change. ", keep, class_="note")
    made = order(seen.path, seen.csrf, *fields, button=button, class_="ending", id="confirm")
    return h("div", made, keep, class_="actions")


def _nothing(why: str, back: str) -> Html:
    said = h("p", f"{why} There is nothing to do here.", class_="notice bad", role="alert")
    return together(said, h("p", link("Back", back, id="back")))


def _page(title: str, part: str, fixed: Html) -> Page:
    """It stands still: what somebody agrees to does not change under their hand."""
    return Page(title=title, section=part, fixed=fixed, live={})
