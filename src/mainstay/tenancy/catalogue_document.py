"""The catalogue as a document: what it may say, checked before the database is asked.

A table of the document is a list of entries, named for one of them: `[[region]]`, `[[node]]`. Keys
are the names of columns. What an entry does not say stays as it is, or is what the schema says.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from mainstay.model.errors import Rejected
from mainstay.tenancy.states import SlotStatus

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
WHOLE_MAX: Final = 2**31 - 1
MINOR_MAX: Final = 2**53 - 1
"""Money goes out as JSON: what another reader would round is refused."""


class CatalogueRefused(Rejected):
    """An entry that is wrong, or that would break what somebody holds; nothing was loaded."""

    code = "catalogue_refused"
    what_to_do = "correct the entry that the message names; nothing of the document was loaded"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value may be."""

    called: str
    holds: Callable[[object], bool]


def _is_whole(value: object, largest: int = WHOLE_MAX) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -1 < value <= largest


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_name(value: object) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _is_list(value: object, holds: Callable[[object], bool]) -> bool:
    return isinstance(value, list) and bool(value) and all(map(holds, value))


TEXT: Final = Kind("a text", _is_text)
NAMED: Final = Kind("a name: letters, digits, '.', '_', '-', at most 63", _is_name)
WHOLE: Final = Kind(f"a whole number from 0 to {WHOLE_MAX}", _is_whole)
MINOR: Final = Kind(
    f"a whole number of minor units from 0 to {MINOR_MAX}", lambda v: _is_whole(v, MINOR_MAX)
)
FLAG: Final = Kind("true or false", lambda v: isinstance(v, bool))
COUNTS: Final = Kind("a list of whole numbers from 1", lambda v: _is_list(v, _is_count))
NAMES: Final = Kind("a list of names", lambda v: _is_list(v, _is_name))
TABLES_OF: Final = Kind(
    "a list of tables", lambda v: _is_list(v, lambda one: isinstance(one, dict))
)


def _is_count(value: object) -> bool:
    return _is_whole(value) and value != 0


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its name in the document and in the database, its key, and what it may say."""

    name: str
    stored: str
    key: str
    required: Mapping[str, Kind]
    optional: Mapping[str, Kind]
    first_only: frozenset[str] = frozenset()
    """Said of a new one alone: afterwards others move it."""


REGION: Final = Table("region", "regions", "code", {"code": NAMED, "name": TEXT}, {"active": FLAG})
IMAGE: Final = Table(
    "image", "os_images", "slug", {"slug": NAMED, "address": TEXT, "sha256": TEXT},
    {"driver_strategy": TEXT, "active": FLAG},
)  # fmt: skip
SKU: Final = Table(
    "sku", "skus", "sku",
    {"sku": NAMED, "capacity_shape": TEXT, "gpus_total": WHOLE, "allowed_gpu_counts": COUNTS,
     "gpu_hourly_price_minor": MINOR},
    {"vendor": TEXT, "display_name": TEXT, "currency": TEXT, "cpu_milli_per_gpu": WHOLE,
     "memory_mib_per_gpu": WHOLE, "image_slug": NAMED, "active": FLAG},
)  # fmt: skip
ACCOUNT: Final = Table(
    "account", "accounts", "id", {"id": NAMED},
    {"name": TEXT, "currency": TEXT, "low_balance_minor": MINOR, "opening_credit_minor": MINOR},
)  # fmt: skip
PROJECT: Final = Table(
    "project", "projects", "id", {"id": NAMED, "account_id": NAMED},
    {"name": TEXT, "priority": WHOLE, "interruption_penalty_bucket": WHOLE,
     "reclamation_penalty_bucket": WHOLE},
)  # fmt: skip
SSH_KEY: Final = Table(
    "ssh_key", "ssh_keys", "id", {"id": NAMED, "project_id": NAMED, "public_key": TEXT},
    {"name": TEXT},
)  # fmt: skip
NODE: Final = Table(
    "node", "nodes", "id",
    {"id": NAMED, "region": NAMED, "sold_as": NAMES, "slots": TABLES_OF},
    {"status": TEXT, "cpu_milli": WHOLE, "memory_mib": WHOLE, "partitioned": FLAG},
    first_only=frozenset({"status"}),
)  # fmt: skip
SLOT: Final = Table(
    "slot", "slots", "id", {},
    {"status": TEXT, "numa_node": WHOLE, "pci_address": TEXT, "nvme_device": TEXT,
     "mac_address": TEXT, "private_ip": TEXT, "fabric_claim_mode": TEXT,
     "fabric_vf_pci_address": TEXT},
)  # fmt: skip

NODE_KIND: Final = Table(
    "node_kind", "node_kinds", "kind",
    {"kind": NAMED, "region": NAMED, "instance_types": NAMES, "sold_as": NAMES,
     "slots": TABLES_OF},
    {"zones": NAMES, "accelerator": TEXT, "cpu_milli": WHOLE, "memory_mib": WHOLE,
     "partitioned": FLAG, "head_room": WHOLE, "active": FLAG},
)  # fmt: skip

PLAIN: Final = (REGION, IMAGE, SKU, ACCOUNT, PROJECT, SSH_KEY, NODE_KIND)
"""In the order in which one stands on another; nodes come after all of them."""

TABLES: Final[Mapping[str, Table]] = MappingProxyType({t.name: t for t in (*PLAIN, NODE)})
SLOT_STATUSES: Final = (SlotStatus.DISCOVERED, SlotStatus.AVAILABLE, SlotStatus.DISABLED)
"""What a document may say of a slot; the others come from what is held."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One row to be: its table, its key, and the columns that are said of it."""

    table: Table
    key: str
    columns: Mapping[str, Any]

    @property
    def shown(self) -> str:
        """How a message calls it."""
        return f"{self.table.name} {self.key}"


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node with all its slots, and the further names it is sold under."""

    entry: Entry
    offers: tuple[str, ...]
    slots: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A document that is right in itself."""

    plain: tuple[Entry, ...]
    nodes: tuple[NodeEntry, ...]
    credits: Mapping[str, int]
    """What an account begins with."""


def read(path: Path) -> Mapping[str, Any]:
    """The document of a TOML file, as it is; `parse` says whether it is right."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueRefused(f"cannot read {path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise CatalogueRefused(f"not TOML: {path} ({error})") from error


def parse(document: Mapping[str, Any]) -> Document:
    """The whole document, or CatalogueRefused with the table and the key that is wrong."""
    for name in document:
        if name not in TABLES:
            raise CatalogueRefused(f"no such table: {name} (there are: {', '.join(TABLES)})")
    said = {name: _entries(table, document.get(name, [])) for name, table in TABLES.items()}
    for sku in said["sku"]:
        _check_counts(sku)
    accounts = said["account"]
    said["node_kind"] = [_kind(entry) for entry in said["node_kind"]]
    _check_apart(said["node_kind"])
    return Document(
        plain=tuple(
            _without(entry, "opening_credit_minor") for table in PLAIN for entry in said[table.name]
        ),
        nodes=tuple(_node(entry) for entry in sorted(said["node"], key=lambda one: one.key)),
        credits={
            entry.key: entry.columns["opening_credit_minor"]
            for entry in accounts
            if entry.columns.get("opening_credit_minor")
        },
    )


def _entries(table: Table, told: object) -> list[Entry]:
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        raise CatalogueRefused(f"write {table.name} as a list of tables: [[{table.name}]]")
    found = [_entry(table, one, position) for position, one in enumerate(told, start=1)]
    seen: set[str] = set()
    for entry in found:
        if entry.key in seen:
            raise CatalogueRefused(f"{entry.shown} is there twice")
        seen.add(entry.key)
    return found


def _entry(table: Table, told: Mapping[str, Any], position: int) -> Entry:
    key = told.get(table.key)
    shown = f"{table.name} {key}" if _is_name(key) else f"{table.name} number {position}"
    _check_keys(table, told, shown)
    return Entry(table, str(key), dict(told))


def _check_keys(table: Table, told: Mapping[str, Any], shown: str) -> None:
    kinds = {**table.required, **table.optional}
    for name in table.required:
        if name not in told:
            raise CatalogueRefused(f"{shown} has no {name}")
    for name, value in told.items():
        if name not in kinds:
            known = ", ".join(kinds)
            raise CatalogueRefused(f"{shown} has an unknown key: {name} (known: {known})")
        if not kinds[name].holds(value):
            raise CatalogueRefused(f"{shown}: {name} must be {kinds[name].called}: {value!r}")


def _check_counts(sku: Entry) -> None:
    largest = sku.columns["gpus_total"]
    for count in sku.columns["allowed_gpu_counts"]:
        if count > largest:
            message = f"{sku.shown}: allowed_gpu_counts has {count}, more than gpus_total {largest}"
            raise CatalogueRefused(message)


def _node(said: Entry) -> NodeEntry:
    names: Sequence[str] = said.columns["sold_as"]
    slots = tuple(_slot(said.key, at, one) for at, one in enumerate(said.columns["slots"]))
    plain = _without(_without(said, "sold_as"), "slots")
    columns = {**plain.columns, "sku": names[0], "gpus_total": len(slots)}
    return NodeEntry(Entry(NODE, said.key, columns), tuple(sorted(set(names[1:]))), slots)


def _kind(said: Entry) -> Entry:
    """Its slots are kept as text: the slots of every node that is made of such a machine."""
    slots = [
        {**_slot(said.key, at, one).columns, "id": None, "node_id": None}
        for at, one in enumerate(said.columns["slots"])
    ]
    kept = [{name: value for name, value in slot.items() if value is not None} for slot in slots]
    text = json.dumps(kept, sort_keys=True)
    return Entry(NODE_KIND, said.key, {**said.columns, "slots": text, "gpus_total": len(slots)})


def _check_apart(kinds: Sequence[Entry]) -> None:
    """A machine becomes a node of one kind: no two may want the same."""
    for place, one in enumerate(kinds):
        for other in kinds[:place]:
            shared = sorted(
                set(one.columns["instance_types"]) & set(other.columns["instance_types"])
            )
            zones = [set(each.columns.get("zones", ())) for each in (one, other)]
            if shared and (not all(zones) or zones[0] & zones[1]):
                message = f"{one.shown}: {shared[0]} is a {other.key} already"
                raise CatalogueRefused(f"{message}: keep them apart by zones")


def _slot(node: str, index: int, told: Mapping[str, Any]) -> Entry:
    """A slot has no name of its own: it is its place in the node's list."""
    key = f"{node}/{index}"
    _check_keys(SLOT, told, f"slot {key}")
    status = told.get("status")
    if status is not None and status not in SLOT_STATUSES:
        known = ", ".join(SLOT_STATUSES)
        raise CatalogueRefused(f"slot {key}: status must be one of {known}: {status!r}")
    return Entry(SLOT, key, {**told, "id": key, "node_id": node, "slot_index": index})


def _without(entry: Entry, column: str) -> Entry:
    left = {name: value for name, value in entry.columns.items() if name != column}
    return Entry(entry.table, entry.key, left)
