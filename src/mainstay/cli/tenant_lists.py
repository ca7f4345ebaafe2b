"""Lists that the API answers: allocations, capacity requests, nodes; the same for every verb."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mainstay.cli.listing import Listing, Printer
from mainstay.cli.options import Option
from mainstay.cli.streaming import Column

if TYPE_CHECKING:
    from mainstay.cli.client import Client

SERVER: Final = Option("server", str, "The API; else MAINSTAY_SERVER, else this machine.")
STATUS: Final = Option("status", str, "Only those in this state.")
RETIRED: Final = Option("retired", bool, "Retired ones, too.", False, ("--retired",))

Said = Mapping[str, Any]


def _listing(*names: str) -> Listing:
    """Rows that are shown as they are said, the first column their name."""
    columns = tuple(Column(name.replace("_", " "), _said(name)) for name in names)
    return Listing(columns, lambda row: str(row[names[0]]), dict)


def _said(name: str) -> Callable[[Any], object]:
    return lambda row: row[name]


ALLOCATIONS: Final = _listing("allocation", "status", "sku", "gpus", "region", "created", "why")
WAITING: Final = _listing(
    "request_id", "state", "sku", "gpus", "region", "allocation_id", "reason"
)  # fmt: skip
NODES: Final = _listing(
    "id", "region", "sku", "status", "slots", "slots_available", "slots_blocked", "last_seen_at"
)  # fmt: skip


def allocation_row(found: Said) -> dict[str, object]:
    """An allocation in a list."""
    return {
        "allocation": found["allocation_id"],
        "status": found["status"],
        "sku": found["sku"],
        "gpus": found["gpus"],
        "region": found["region"],
        "created": found["created_at"],
        "why": (found["failure"] or {}).get("message"),
    }


def show_allocations(given: Mapping[str, Any], names: Sequence[str] = ()) -> int:
    """Allocations of the project, newest first."""

    def rows(client: "Client") -> Iterator[Said]:
        return map(allocation_row, _allocations(client, given["status"]))

    return _shown(given, ("tenant", "allocation"), ALLOCATIONS, rows, names)


def show_waiting(given: Mapping[str, Any]) -> int:
    """Requests for capacity of the project, newest first."""

    def rows(client: "Client") -> Iterator[Said]:
        found = client.get("/capacity-requests")["items"]
        return ({column: row[column] for column in _names(WAITING)} for row in found)

    return _shown(given, ("tenant", "request"), WAITING, rows)


def show_nodes(given: Mapping[str, Any], names: Sequence[str] = ()) -> int:
    """All nodes, by id; retired ones if asked, or named."""
    retired = given["retired"] or bool(names)

    def rows(client: "Client") -> Iterator[Said]:
        found = _nodes(client, retired=retired)
        return ({column: row[column] for column in _names(NODES)} for row in found)

    return _shown(given, ("admin", "node"), NODES, rows, names)


def _shown(
    given: Mapping[str, Any],
    who: tuple[str, str],
    listing: Listing,
    rows: "Callable[[Client], Iterable[Said]]",
    names: Sequence[str] = (),
) -> int:
    from mainstay.cli.client import client

    role, noun = who
    printer = Printer.of(listing, given)

    def once() -> int:
        api = client(role, given["server"])  # looked up at each look: it may have moved
        found = [row for row in rows(api) if not names or listing.name(row) in names]
        printer.write(found)
        printer.close()
        return printer.missing(noun, names, list(map(listing.name, found)), f"{noun}s")

    return printer.repeat(once)


def _names(listing: Listing) -> list[str]:
    return [column.name.replace(" ", "_") for column in listing.columns]


def _allocations(client: "Client", status: str | None) -> Iterator[Said]:
    cursor = None
    while True:
        page = client.get("/allocations", status=status, cursor=cursor)
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _nodes(client: "Client", *, retired: bool) -> Iterator[Said]:
    after = ""
    while page := client.get("/admin/nodes", after=after, retired=retired)["items"]:
        yield from page
        after = page[-1]["id"]
