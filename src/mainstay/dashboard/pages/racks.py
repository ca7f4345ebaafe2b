"""Racks, zones and pools: machines counted on the server by an attribute, drawn by state."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from mainstay.dashboard.asking import Asking, refusal
from mainstay.dashboard.draw import STATES, grid, states_bar
from mainstay.dashboard.html import Html, address, h, link, together
from mainstay.dashboard.page import Page, Seen
from mainstay.dashboard.pages.machines import COLUMNS, machine_id, machine_row
from mainstay.dashboard.paging import ASKED, merged_by_key, pager
from mainstay.dashboard.parts import Choice, card, cards, field, filters, section, select, table
from mainstay.dashboard.told import Told
from mainstay.dashboard.words import dollars, number, plural
from mainstay.model import group_views as g
from mainstay.model import views as v
from mainstay.model.errors import Unknown
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.state import State

RACK_KEY: Final = "topology.bigfleet/rack"
KEYS: Final[Mapping[str, str]] = {
    RACK_KEY: "rack", ZONE_KEY: "zone", INSTANCE_TYPE_KEY: "instance type",
}  # fmt: skip
"""Attributes that have a name of their own; any other label is called as it is."""

SIZE: Final = 48
"""So many are drawn on a page."""

CELLS_MAX: Final = 98
"""So many boxes one drawing has; in a larger group a box stands for several machines."""


def key_in(seen: Seen) -> str:
    """By what the machines are grouped."""
    return seen.asked("by") or RACK_KEY


def called(key: str) -> str:
    """What a group of this attribute is called."""
    return KEYS.get(key, key)


async def racks(asking: Asking, seen: Seen) -> Page:
    """A page of them by name. What is drawn was counted by the shards."""
    key, zone = key_in(seen), seen.asked("zone")
    told = await asking.groups(
        g.GroupQuery(attribute=key, zone=zone, limit=SIZE + 1, after=seen.asked("after"))
    )
    paged = merged_by_key(told, _value, SIZE)
    drawn = [_drawn(key, row) for row in _together(row for _, row in paged.rows)]
    count = h("p", _counted(told, key), class_="note")
    none = h("p", f"No machine says in which {called(key)} it is.", class_="none")
    made = h("div", *drawn, class_="racks small") if drawn else none
    return Page(
        title="Racks" if key == RACK_KEY else f"Machines by {called(key)}",
        section="/racks",
        fixed=together(_filters(key, zone), legend()),
        live={"racks": together(count, made, pager("racks", seen.query, paged.after))},
    )


def _value(row: g.GroupRow) -> str:
    return row.value


def _counted(told: Iterable[Told[g.GroupRows]], key: str) -> str:
    """How many there are; one that two shards have is counted by both."""
    parts = [f"{each.source} has {number(each.value.matched)}" for each in told if each.value]
    return f"Machines by {called(key)}: {', '.join(parts)}. Each box is a machine, or several."


def _filters(key: str, zone: str) -> Html:
    choices = [Choice(each, name) for each, name in KEYS.items()]
    if key not in KEYS:
        choices.append(Choice(key, key))
    return filters(
        "/racks", select("by", "Grouped by", choices, key), field("zone", "Zone", zone),
        button="Show",
    )  # fmt: skip


def legend() -> Html:
    """Which colour is which state."""
    keys = [
        h("span", h("span", class_=f"swatch fill-{str(state).lower()}", aria_hidden="true"),
          str(state))
        for state in STATES
    ]  # fmt: skip
    return h("p", *keys, class_="key")


def _together(rows: Iterable[g.GroupRow]) -> list[g.GroupRow]:
    """One for each value: what two shards have of it is added up."""
    found: dict[str, g.GroupRow] = {}
    for row in rows:
        before = found.get(row.value, g.GroupRow(value=row.value))
        found[row.value] = g.GroupRow(
            value=row.value,
            machines=Counter(before.machines) + Counter(row.machines),
            spend_per_hour=before.spend_per_hour + row.spend_per_hour,
        )
    return list(found.values())


def _drawn(key: str, row: g.GroupRow) -> Html:
    total = sum(row.machines.values())
    real = total - row.machines.get(str(State.SPECULATIVE), 0)
    return h(
        "article",
        h("h2", link(row.value, address("racks", "one", by=key, value=row.value))),
        grid(f"{called(key)} {row.value}", row.machines, CELLS_MAX),
        h("p", f"{plural(real, 'machine')}, {plural(total - real, 'quota slot')},"
               f" {dollars(row.spend_per_hour)}/h", class_="note"),
        class_="rack",
    )  # fmt: skip


async def rack(asking: Asking, seen: Seen) -> Page:
    """One of them, with a page of its machines."""
    key, value = key_in(seen), seen.asked("value")
    if not value:
        raise Unknown(f"which {called(key)}? The page of racks has all of them")
    query = v.MachineQuery(attribute=key, value=value, limit=ASKED, after=seen.asked("after"))
    told = await asking.machines(query)
    this = await asking.groups(g.GroupQuery(attribute=key, value=value, limit=1))
    counted = [(each.source, row) for each in this if each.value for row in each.value.rows]
    if not counted:
        if not any(each.value for each in told):
            raise refusal(told)
        raise Unknown(f"no machine is in {called(key)} {value[:80]}")
    (whole,) = _together(row for _, row in counted)
    paged = merged_by_key(told, machine_id)
    rows = [machine_row(shard, row) for shard, row in paged.rows]
    caption = f"{plural(sum(whole.machines.values()), 'machine')} in the order of their ids"
    return Page(
        title=f"{called(key).capitalize()} {value}",
        section="/racks",
        fixed=_ways_on(key, value),
        live={
            "figures": _figures(whole, [source for source, _ in counted]),
            "drawn": _all_drawn(key, whole),
            "machines": section("Machines", table(caption, COLUMNS, rows, "None."),
                                pager("racks/one", seen.query, paged.after)),
        },
    )  # fmt: skip


def _ways_on(key: str, value: str) -> Html:
    ways = [link(f"All by {called(key)}", address("racks", by="" if key == RACK_KEY else key))]
    if key == RACK_KEY:
        ways.append(link("What if it were drained?", address("whatif", rack=value)))
    if key == ZONE_KEY:
        ways.append(link("Its racks", address("racks", zone=value)))
        ways.append(link("What if it were lost?", address("whatif", zone=value)))
    return h("p", *ways, class_="ways")


def _figures(whole: g.GroupRow, shards: Iterable[str]) -> Html:
    slots = whole.machines.get(str(State.SPECULATIVE), 0)
    real = sum(whole.machines.values()) - slots
    return cards(
        card("Machines", number(real), f"and {number(slots)} quota slots"),
        card("Serving", number(whole.machines.get(str(State.CONFIGURED), 0)),
             "in state Configured"),
        card("Spend per hour", dollars(whole.spend_per_hour)),
        card("Shard", ", ".join(shards)),
    )  # fmt: skip


def _all_drawn(key: str, whole: g.GroupRow) -> Html:
    name = f"{called(key)} {whole.value}"
    return section("Drawn by state", grid(name, whole.machines, 4 * CELLS_MAX, across=28),
                   states_bar(f"Machines of {name}", whole.machines))  # fmt: skip
