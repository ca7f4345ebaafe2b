"""`mainstay bench reconcile`: what taking in a provider's whole list costs, from bytes to rows.

The list is written here, field by field as protobuf's own writers do, from the fleet of the other
benches. Go's writers shuffle the entries of maps on purpose, so every figure about an unchanged
list is taken in both orders.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.bench.frame import Bench
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.merge import MergeReport
from mainstay.model.batch import Echo, MachineBatch, Shape
from mainstay.providers.sim.fleet import FleetSpec, by_state, fleet
from mainstay.wire import loops, scan
from mainstay.wire.listing import Listing, listing_of

BUDGET: Final = {
    "unchanged_ms": 2_000,
    "unchanged_shuffled_ms": 2_000,
    "cold_ms": 5_000,
}

BUDGET_FROM: Final = 100_000
"""As for the inventory: the budget is for large fleets."""

MESSAGE_BYTES_MAX: Final = 256 * 2**20
"""The largest message either side of a connection takes."""

RUNS: Final = 5
COLD_RUNS: Final = 3
ORDERS: Final = 16
"""How many orders of its entries each distinct map is written in."""

NOW: Final = 1.0
REVISION: Final = b"42"

RESOURCES: Final = 9


class Lists(NamedTuple):
    """One fleet as a provider sends it, three times."""

    first: bytes
    shuffled: bytes
    changed: bytes


def run(bench: Bench, *, machines: int, seed: int) -> None:
    """Write the lists, assert what is in them, then take them in cold, unchanged and changed."""
    bench.budget = dict(BUDGET) if machines >= BUDGET_FROM else {}
    bench.figures["kernels"] = loops.warm()
    lists = _fixture(bench, machines, seed)
    bench.figures["machines"] = machines
    bench.figures["bytes"] = len(lists.first)
    _measure_cold(bench, lists)
    inventory = Inventory()
    _merged(inventory, lists.first)
    _measure_unchanged(bench, inventory, lists)
    _measure_changed(bench, inventory, lists)


def _fixture(bench: Bench, machines: int, seed: int) -> Lists:
    bench.progress(f"reconcile: writing a list of {machines:,}")
    batch = fleet(FleetSpec(machines=machines, seed=seed))
    random = np.random.Generator(np.random.PCG64(seed))
    prices = batch.price_per_hour
    others = prices.copy()
    others[_hundredth(machines)] += 0.01
    lists = Lists(
        first=(first := written(batch, prices, orders=1, random=random)),
        shuffled=written(batch, prices, orders=ORDERS, random=random),
        changed=written(batch, others, orders=1, random=random),
    )
    bench.expect("fits_a_message", expected=True, actual=len(first) <= MESSAGE_BYTES_MAX)
    bench.expect("bytes_shuffled", expected=len(first), actual=len(lists.shuffled))
    bench.expect("is_shuffled", expected=True, actual=lists.shuffled != first)
    check_contents(bench, batch, lists)
    return lists


def check_contents(bench: Bench, batch: MachineBatch, lists: Lists) -> None:
    """The lists say what the fleet is, and the digests tell the same from the changed."""
    listing, shuffled = _listing(lists.first), _listing(lists.shuffled)
    read, refused = shuffled.batch()
    bench.expect("machines", expected=len(batch), actual=len(listing))
    bench.expect("unreadable", expected=0, actual=len(refused) + len(listing.nameless))
    counts = np.bincount(read.state, minlength=9).tolist()
    expected = {str(state): count for state, count in sorted(by_state(len(batch)).items())}
    states = {str(state): counts[state] for state in sorted(by_state(len(batch)))}
    bench.expect("by_state", expected=expected, actual=states)
    bench.expect("shape_classes", expected=len(batch.shapes), actual=len(read.shapes))
    needs = len(np.unique(batch.metadata[batch.metadata != 0]))
    bench.expect("needs", expected=needs, actual=len(read.metadatas) - 1)
    samples = range(0, len(batch), max(1, len(batch) // 100))
    agree = all(read.machine(place) == batch.machine(place) for place in samples)
    bench.expect("samples_agree", expected=True, actual=agree)
    alike = int((listing.digest == shuffled.digest).sum())
    bench.expect("digests_alike_when_shuffled", expected=len(batch), actual=alike)
    alike = int((listing.digest == _listing(lists.changed).digest).sum())
    same = len(batch) - len(_hundredth(len(batch)))
    bench.expect("digests_alike_when_changed", expected=same, actual=alike)
    bench.fixture["map_entries"] = int(listing.found[:, scan.ENTRY_COUNT].sum())
    bench.fixture["digest"] = f"{int(np.bitwise_xor.reduce(listing.digest)):016x}"


def _measure_cold(bench: Bench, lists: Lists) -> None:
    """Into an inventory that knows nothing."""
    empty = iter([Inventory() for _ in range(COLD_RUNS)])
    prepare = [_nothing] * COLD_RUNS
    report = _timed(bench, "cold", lambda: _merged(next(empty), lists.first), prepare)
    bench.expect("cold_added", expected=bench.fixture["machines"], actual=len(report.added))


def _measure_unchanged(bench: Bench, inventory: Inventory, lists: Lists) -> None:
    revision, prepare = inventory.revision, [_nothing] * RUNS
    bench.time_ms("scan_ms", lambda: _listing(lists.first), prepare=prepare)
    _timed(bench, "unchanged", lambda: _merged(inventory, lists.first), prepare)
    _timed(bench, "unchanged_shuffled", lambda: _merged(inventory, lists.shuffled), prepare)
    bench.expect("unchanged_writes", expected=0, actual=inventory.revision - revision)


def _measure_changed(bench: Bench, inventory: Inventory, lists: Lists) -> None:
    """One machine of a hundred has another price; before each run that is taken back."""
    prepare = [lambda: _merged(inventory, lists.first)] * RUNS
    report = _timed(bench, "changed_1pct", lambda: _merged(inventory, lists.changed), prepare)
    moved = len(_hundredth(len(inventory)))
    bench.expect("changed_1pct_changed", expected=moved, actual=len(report.changed))


def _timed(
    bench: Bench,
    key: str,
    merge: Callable[[], MergeReport],
    prepare: Sequence[Callable[[], object]],
) -> MergeReport:
    """Time a merge; what it did is asserted, and printed beside its time."""
    reports: list[MergeReport] = []
    bench.time_ms(f"{key}_ms", lambda: reports.append(merge()), prepare=prepare)
    report = reports[-1]
    work = {
        "added": len(report.added), "changed": len(report.changed), "unchanged": report.unchanged,
        "absent": len(report.absent), "refused": len(report.refused),
    }  # fmt: skip
    bench.figures[f"{key}_work"] = work
    taken = work["added"] + work["changed"] + work["unchanged"]
    bench.expect(f"{key}_taken", expected=bench.fixture["machines"], actual=taken)
    bench.expect(f"{key}_absent", expected=0, actual=work["absent"])
    return report


def _merged(inventory: Inventory, data: bytes) -> MergeReport:
    return inventory.merge(_listing(data), now=NOW)


def _listing(data: bytes) -> Listing:
    return listing_of(data, source="sim", full=True)


def _nothing() -> None:
    """No preparation."""


def _hundredth(machines: int) -> range:
    return range(7, machines, 100)


class Maps:
    """Each distinct map as bytes, in one or several orders of its entries."""

    def __init__(self, orders: int, random: np.random.Generator) -> None:
        self._orders = orders
        self._random = random
        self._written: dict[tuple[int, Echo], Sequence[bytes]] = {}

    def field(self, number: int, entries: Echo, turn: int) -> bytes:
        """The fields of a map; the entries of a `Resources` are wrapped into one field."""
        key = (number, entries)
        if key not in self._written:
            self._written[key] = [self._one(number, entries, n) for n in range(self._orders)]
        return self._written[key][turn % self._orders]

    def _one(self, number: int, entries: Echo, turn: int) -> bytes:
        order = self._random.permutation(len(entries)) if turn else range(len(entries))
        pairs = [_text(1, entries[at][0]) + _text(2, entries[at][1]) for at in order]
        if number == RESOURCES:
            return _field(number, b"".join(_field(1, pair) for pair in pairs)) if pairs else b""
        return b"".join(_field(number, pair) for pair in pairs)


def written(
    batch: MachineBatch, prices: NDArray[np.float64], *, orders: int, random: np.random.Generator
) -> bytes:
    """The bytes of a MachineList of this fleet, each map in one of so many orders."""
    maps = Maps(orders, random)
    turns = random.integers(orders, size=len(batch)).tolist()
    kinds = [_kind(shape) for shape in batch.shapes]
    clusters = [_text(14, name) if name else b"" for name in batch.clusters]
    errors = [_text(12, error) if error else b"" for error in batch.last_errors]
    hosts = [None if name is None else _text(1, name) for name in batch.host_providers]
    parts: list[bytes] = []
    rows = zip(
        batch.ids, batch.state.tolist(), batch.host_provider.tolist(), batch.host_ref,
        batch.shape.tolist(), prices.tolist(), batch.interruption_probability.tolist(),
        batch.last_error.tolist(), batch.cluster.tolist(), batch.metadata.tolist(), turns,
        strict=True,
    )  # fmt: skip
    for name, state, by, ref, shape, price, odds, error, cluster, echo, turn in rows:
        host = hosts[by]
        profile = batch.shapes[shape].profile
        machine = b"".join((
            _text(1, name), bytes((16, state)),
            b"" if host is None else _field(3, host + _text(2, ref)), kinds[shape],
            _double(7, price), _double(8, odds),
            maps.field(RESOURCES, profile.resources.texts, turn),
            maps.field(10, profile.labels, turn), errors[error], clusters[cluster],
            maps.field(15, batch.metadatas[echo], turn),
        ))  # fmt: skip
        parts.append(_field(1, machine))
    return b"".join((*parts, _field(2, REVISION)))


def _kind(shape: Shape) -> bytes:
    profile = shape.profile
    zone = _text(5, profile.zone) if profile.zone else b""
    return _text(4, profile.instance_type) + zone + bytes((48, profile.capacity_type))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _double(number: int, value: float) -> bytes:
    return struct.pack("<Bd", number << 3 | 1, value) if value else b""


def _field(number: int, payload: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(payload)) + payload


def _varint(number: int) -> bytes:
    low = bytearray()
    while number >= 0x80:
        low.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*low, number))
