"""Write the reference pages that are derived from the code, or check that they have not drifted.

usage: python tools/reference_pages.py {--write|--check}
"""

import dataclasses
import inspect
import itertools
import json
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from access_pages import access_page
from api_pages import api_page
from cli_pages import cli_page
from coordinator_pages import coordinator_metrics_page
from drawing import WIDTH, arrow, box, drawing
from mainstay.config.load import SECTIONS, variable_name
from mainstay.inventory.columns import COLD, HOT, Column
from mainstay.model import errors
from mainstay.model.machine import MachineRule
from mainstay.model.state import EDGES, NEXT, RULES, State
from mainstay.processes.up_settings import REFUSED
from mainstay.tenancy import events_doc
from mainstay.tenancy.http.app import bare
from mainstay.tenancy.states import EDGES as ALLOCATION_EDGES
from mainstay.tenancy.states import HOLDING, Edge, Status
from mainstay.tenancy.states import NEXT as ALLOCATION_NEXT
from page_parts import NOTICE, docs_below, table
from proto_pages import proto_page
from registry_pages import provider_metrics_page, tenancy_metrics_page
from shard_pages import events_page, metrics_page

PAGES = Path(__file__).resolve().parent.parent / "docs" / "reference"


def main() -> int:
    """Write or check every page."""
    if sys.argv[1:] not in (["--write"], ["--check"]):
        print("usage: reference_pages.py {--write|--check}", file=sys.stderr)
        return 2
    drifted = [name for name, make in MAKERS.items() if current(name) != make()]
    if sys.argv[1] == "--write":
        for name in drifted:
            (PAGES / name).write_text(MAKERS[name](), encoding="utf-8")
        return 0
    for name in drifted:
        print(f"docs/reference/{name} has drifted from the code: run make docs", file=sys.stderr)
    return 1 if drifted else 0


def current(name: str) -> str | None:
    """What the page says now."""
    path = PAGES / name
    return path.read_text(encoding="utf-8") if path.exists() else None


def states() -> str:
    """The states, what a machine carries in each, and the edges."""
    carried = table(
        ("state", "number", "kind", "host", "cluster", "assignment", "meaning"),
        (
            (s, int(s), r.kind.value, r.host.value, r.cluster.value, r.assignment.value, r.meaning)
            for s, r in RULES.items()
        ),
    )
    edges = table(
        ("from", "to"),
        ((s, ", ".join(map(str, sorted(NEXT[s]))) or "nowhere") for s in State if s),
    )
    return STATES_PAGE.format(notice=NOTICE, count=len(EDGES), carried=carried, edges=edges)


STATES_PAGE = """{notice}# States and edges of a machine

![The states and the {count} legal edges](states.svg)

A *stable* machine is at rest and may be chosen. In a *transitional* state a provider is at work,
and only there can a machine fail. Failed has no way out. From one cluster to another the way leads
through Idle. Idle to Speculative is walked only where hardware can be given back.

## What a machine carries

{carried}
A Failed machine must have a diagnosis in `last_error`. The table is `mainstay.model.state.RULES`,
the check is `mainstay.model.machine.check`.

## The {count} legal edges

{edges}
The table is `mainstay.model.state.NEXT`. A write in the same state changes fields and needs no
edge.
"""

# Two rings that meet in Idle; no line crosses a box it has nothing to do with.
PLACES = {
    State.SPECULATIVE: (90, 200), State.CREATING: (250, 55), State.DELETING: (230, 345),
    State.IDLE: (490, 200), State.FAILED: (490, 55),
    State.CONFIGURING: (730, 55), State.DRAINING: (750, 345), State.CONFIGURED: (890, 200),
}  # fmt: skip
FILLS = {"stable": "#d7f0df", "transitional": "#fdf0cf", "terminal": "#f8d7d7"}


def diagram() -> str:
    """The same, drawn."""
    edges = "".join(
        arrow(PLACES, (old, new), (new, old) in EDGES, dashed=new is State.FAILED)
        for old, new in EDGES
    )
    boxes = "".join(
        box(str(state), at, FILLS[RULES[state].kind.value]) for state, at in PLACES.items()
    )
    return drawing("States of a machine and the legal edges between them", 400, edges + boxes)


def allocation_states() -> str:
    """The states of an allocation, its edges, and what is written with each."""
    meanings = member_docs(Status)
    statuses = table(
        ("state", "meaning", "holds its slots or node", "is charged", "goes to"),
        (
            (
                f"`{status}`",
                meanings[status.name],
                "yes" if status in HOLDING else "no",
                "yes" if status is Status.ACTIVE else "no",
                ", ".join(f"`{new}`" for new in ALLOCATION_NEXT[status]) or "nowhere",
            )
            for status in Status
        ),
    )
    edges = table(
        ("edge", "from", "to", "asked for by", "time", "event", "and"),
        (
            (
                edge.name,
                f"`{edge.old}`" if edge.old else "nothing",
                f"`{edge.new}`",
                ", ".join(sorted(edge.actors)),
                f"`{edge.stamps}`",
                f"`{edge.event}`" if edge.event else "none",
                edge.writes,
            )
            for edge in ALLOCATION_EDGES
        ),
    )
    count = len(ALLOCATION_EDGES)
    return ALLOCATIONS_PAGE.format(notice=NOTICE, count=count, statuses=statuses, edges=edges)


ALLOCATIONS_PAGE = """{notice}# States and edges of an allocation

![The states of an allocation and its {count} edges](allocation-states.svg)

{statuses}
What failed without a clean undo leaves its slots or its node blocked: they are nobody's until they
are known to be clean.

## The {count} edges

What stands in one row is written in one transaction, or not at all.

{edges}
The table is `mainstay.tenancy.states.EDGES`. `mainstay.tenancy.transition.move` is the one function
that takes an edge; the database refuses all others, whoever asks. Why, and how a crash ends:
[tenancy](../explanation/tenancy.md).
"""

ALLOCATION_PLACES = {
    Status.REQUESTED: (130, 70), Status.PROVISIONING: (315, 70), Status.ACTIVE: (500, 70),
    Status.RELEASING: (685, 70), Status.RELEASED: (870, 70),
    Status.FAILED: (315, 200), Status.RELEASE_FAILED: (685, 200),
}  # fmt: skip
ALLOCATION_FILLS = {
    Status.ACTIVE: FILLS["stable"], Status.RELEASED: FILLS["stable"],
    Status.FAILED: FILLS["terminal"], Status.RELEASE_FAILED: FILLS["terminal"],
}  # fmt: skip


def allocation_diagram() -> str:
    """The same, drawn, each edge with its name."""
    lines = "".join(allocation_arrow(edge) for edge in ALLOCATION_EDGES)
    boxes = "".join(
        box(status, at, ALLOCATION_FILLS.get(status, FILLS["transitional"]))
        for status, at in ALLOCATION_PLACES.items()
    )
    return drawing("States of an allocation and its edges", 250, lines + boxes)


def allocation_arrow(edge: Edge) -> str:
    """One edge with its name beside it; the first comes from nowhere."""
    x2, y2 = ALLOCATION_PLACES[edge.new]
    if edge.old is None:
        border_x = x2 - WIDTH // 2
        return (
            f'<circle cx="{border_x - 40}" cy="{y2}" r="6" fill="#444"/>\n'
            f'<line x1="{border_x - 40}" y1="{y2}" x2="{border_x}" y2="{y2}" stroke="#444" '
            'stroke-width="1.5" marker-end="url(#tip)"/>\n'
        ) + label(edge.name, border_x - 20, y2 - 8)
    x1, y1 = ALLOCATION_PLACES[edge.old]
    is_pair = edge.old in ALLOCATION_NEXT[edge.new]
    dashed = edge.new in {Status.FAILED, Status.RELEASE_FAILED}
    line = arrow(ALLOCATION_PLACES, (edge.old, edge.new), is_pair, dashed=dashed)
    if y1 == y2:
        return line + label(edge.name, (x1 + x2) // 2, y1 - 8)
    beside = -28 if is_pair and edge.old > edge.new else 28
    return line + label(edge.name, x1 + beside, (y1 + y2) // 2)


def label(name: str, x: int, y: int) -> str:
    """The name of an edge."""
    return f'<text x="{x}" y="{y}" text-anchor="middle" font-size="12">{name}</text>\n'


def member_docs(kind: type[StrEnum]) -> dict[str, str]:
    """The docstring under each member of an enumeration."""
    lines = inspect.getsource(kind).splitlines()
    return {
        above.strip().partition(" = ")[0]: below.strip().strip('"')
        for above, below in itertools.pairwise(lines)
        if " = " in above and below.strip().startswith('"""')
    }


def error_page() -> str:
    """Every error class, its code and what to do."""
    found = [c for _, c in inspect.getmembers(errors, inspect.isclass)]
    classes = [c for c in found if issubclass(c, errors.MainstayError)]
    rows = [
        (f"`{c.__name__}`", f"`{c.code}`", (inspect.getdoc(c) or "").splitlines()[0], c.what_to_do)
        for c in sorted(classes, key=lambda c: (len(c.__mro__), c.__name__))
        if c is not errors.MainstayError
    ]
    rules = ", ".join(f"`{rule}`" for rule in MachineRule)
    return (
        f"{NOTICE}# Errors\n\nAn error is named for what to do about it. Codes are stable.\n\n"
        + table(("class", "code", "meaning", "what to do"), rows)
        + f"\n`InvalidMachine` also names the rule that was broken: {rules}.\n"
    )


SETTINGS_INTRODUCTION = """# Settings

Built in, then the file, then the environment, then flags: the last one said wins. The file is
what `MAINSTAY_CONFIG` names; else `mainstay.toml` in the working directory; else
`$MAINSTAY_HOME/mainstay.toml`. One file is read, and a section is a table in it.
A list is an array in the file and a text with commas in the environment.
`mainstay config show` prints what is in effect.

`mainstay up` hands its file and these variables on to all that it starts. What it decides itself
goes there as flags, and wins: who each process is, where it listens, where its state is, whom
shards, clusters and tenants call, certificates, the domains of its shards, how often they decide
(`up.cycle_interval_s`) and report, and how large the fleet is (`up.fleet`, `up.seed`). Its
processes run in `$MAINSTAY_HOME`: write a path in a setting whole.

These are for a process that runs alone, as they lead to another fleet or keep processes of `up`
from working together. `mainstay up` refuses them in one line, before anything is started:

"""


def config_page() -> str:
    """Every setting with its default and meaning."""
    refused = [(f"`{setting}`", why) for setting, why in REFUSED.items()]
    parts = [NOTICE + SETTINGS_INTRODUCTION + table(("setting", "why not"), refused)]
    for section, kind in SECTIONS.items():
        docs = field_docs(kind)
        rows = [
            (
                f"`{section}.{field.name}`",
                f"`{built_in(field.default)}`",
                f"`{variable_name(section, field.name)}`",
                docs[field.name],
            )
            for field in dataclasses.fields(kind)
        ]
        header = ("setting", "built in", "environment", "meaning")
        parts.append(f"\n## {section}\n\n" + table(header, rows))
    return "".join(parts)


def built_in(default: object) -> object:
    """As the environment would take it."""
    return ",".join(default) if isinstance(default, tuple) else default


def field_docs(kind: type) -> dict[str, str]:
    """The docstring under each field of a configuration, inherited ones included."""
    return docs_below([c for c in reversed(kind.__mro__) if dataclasses.is_dataclass(c)])


def column_page() -> str:
    """What a machine is in memory."""

    def rows(columns: dict[str, Column]) -> list[tuple[str, str, str]]:
        return [(f"`{n}`", c.dtype.__name__, c.meaning) for n, c in columns.items()]

    header = ("column", "type", "meaning")
    return (
        f"{NOTICE}# Columns of the inventory\n\n## Hot: what a decision reads\n\n"
        + table(header, rows(HOT)) + "\n## Cold\n\n" + table(header, rows(COLD))
        + "\nIds and host references lie in byte arenas beside these.\n"
    )  # fmt: skip


def openapi() -> str:
    """The API, for programs."""
    return json.dumps(bare().openapi(), indent=1, sort_keys=True) + "\n"


MAKERS: dict[str, Callable[[], str]] = {
    "states.md": states,
    "states.svg": diagram,
    "allocation-states.md": allocation_states,
    "allocation-states.svg": allocation_diagram,
    "errors.md": error_page,
    "config.md": config_page,
    "cli.md": cli_page,
    "columns.md": column_page,
    "access.md": access_page,
    "metrics.md": metrics_page,
    "coordinator-metrics.md": coordinator_metrics_page,
    "tenancy-metrics.md": tenancy_metrics_page,
    "provider-metrics.md": provider_metrics_page,
    "events.md": events_page,
    "api.md": api_page,
    "mainstay-v1.md": proto_page,
    "openapi.json": openapi,
    "events.asyncapi.json": events_doc.text,
}

if __name__ == "__main__":
    sys.exit(main())
