"""The form for a new allocation: what the catalogue allows, with its price, and whose key."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mainstay.dashboard.asking import Asking
from mainstay.dashboard.html import EMPTY, Html, h
from mainstay.dashboard.page import Seen, once
from mainstay.dashboard.parts import Choice, check, order, select
from mainstay.dashboard.words import plural
from mainstay.tenancy.billing.charge import formatted

PROJECTS_MAX: Final = 20
"""So many projects are asked for their keys."""

NO_KEY: Final = Choice("", "none")


async def create_form(asking: Asking, seen: Seen) -> Html:
    """It offers what there are nodes for, in the numbers in which it is sold."""
    if not seen.may_change:
        return EMPTY
    catalogue, projects = await asking.tenancy("/catalog"), await asking.tenancy("/projects")
    if not isinstance(catalogue.value, dict) or not isinstance(projects.value, dict):
        why = catalogue.error or projects.error
        return h("p", f"Nothing can be asked for now: {why}", class_="notice bad", role="status")
    found = projects.value["items"]
    form = order(
        "/allocations/create", seen.csrf,
        once(seen),
        select("project", "Project", [Choice(p["id"], p["name"]) for p in found], of="new"),
        select("offer", "What", list(offers(catalogue.value))),
        select("key", "SSH key", [NO_KEY, *await _keys(asking, found[:PROJECTS_MAX])]),
        check("wait", "Wait if there is no room", checked=False),
        button="Create allocation",
    )  # fmt: skip
    return h("details", h("summary", "New allocation"), form, id="new-allocation", data_stays=True)


def offers(catalogue: Mapping[str, Any]) -> Iterator[Choice]:
    """Each number of each SKU in each region, with what it costs per hour."""
    sold = {sku["sku"]: sku for sku in catalogue["skus"]}
    for room in catalogue["rooms"]:
        sku = sold.get(room["sku"])
        if sku is None:
            continue
        each, currency = sku["gpu_hourly_price_minor"], sku["currency"]
        for count in sorted(sku["allowed_gpu_counts"]):
            price = f"{formatted(each * count, currency)} per hour"
            if count > 1:
                price += f" ({formatted(each, currency)} per GPU)"
            yield Choice(
                f"{room['sku']}@{room['region']}@{count}",
                f"{plural(count, 'GPU')}: {sku['display_name']}, {room['region']}, {price};"
                f" {room['free_gpus']} free",
            )


async def _keys(asking: Asking, projects: Sequence[Mapping[str, Any]]) -> list[Choice]:
    """Of each project; the project is named where there are several."""
    async with asyncio.TaskGroup() as group:
        asked = [
            group.create_task(asking.tenancy("/ssh-keys", project_id=str(each["id"])))
            for each in projects
        ]
    told = [(project, each.result().value) for project, each in zip(projects, asked, strict=True)]
    return [
        Choice(f"{project['id']}@{key['id']}",
               key["name"] if len(projects) == 1 else f"{key['name']} of {project['name']}")
        for project, value in told if isinstance(value, dict) for key in value["items"]
    ]  # fmt: skip
