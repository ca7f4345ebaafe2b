"""What a shard tells the coordinator of itself, counted from a snapshot and a plan. Pure."""

import heapq
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.plan import Plan, Unmet, Unsatisfied
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.coordination import (
    Domain,
    FreeRow,
    Handed,
    Missing,
    ServingRow,
    Stray,
    Summary,
)
from mainstay.model.cost import bucket_for
from mainstay.model.errors import Rejected
from mainstay.model.ids import Fingerprint
from mainstay.model.resources import Units, largest
from mainstay.model.state import State
from mainstay.shard import shortfalls
from mainstay.shard.ownership.owned import Owned

ROWS_MAX: Final = 500
"""So many rows of free and of serving machines are told, those with most machines."""

MISSING_MAX: Final = 100

NAMED_MAX: Final = 10_000
"""So many machines that it has elsewhere, and so many that others have, a report can name."""

NAMED_BYTES_MAX: Final = 800_000
"""All of them together; the rest of a report must fit into the message, too."""

_ROW_BYTES: Final = 16
"""Of one machine besides its texts."""


def summary(snapshot: Snapshot, *, provider_address: str = "") -> Summary:
    """The machines of a shard, in numbers."""
    by_type, by_zone = Counter[str](), Counter[str]()
    shapes = snapshot.shapes.values
    for code in np.flatnonzero(snapshot.machines_of_shape).tolist():
        count = int(snapshot.machines_of_shape[code])
        by_type[shapes[code].profile.instance_type] += count if code else 0
        by_zone[shapes[code].profile.zone] += count if code else 0
    states = snapshot.by_state
    return Summary(
        total_machines=len(snapshot),
        free_machines=states.get(State.IDLE, 0) + states.get(State.SPECULATIVE, 0),
        by_instance_type={name: by_type[name] for name in sorted(by_type) if name},
        by_zone={name: by_zone[name] for name in sorted(by_zone) if name},
        provider_address=provider_address,
        free=_free(snapshot),
        serving=_serving(snapshot),
    )


def missing(plan: Plan) -> tuple[Missing, ...]:
    """What a plan cannot meet, highest priority first, then oldest."""
    short: dict[Fingerprint, list[Unsatisfied]] = {}
    for each in plan.unsatisfied:
        if each.unresolved:
            short.setdefault(each.need.profile.fingerprint, []).append(each)
    return tuple(
        _missing(row, short[row.fingerprint]) for row in shortfalls.rows(plan)[:MISSING_MAX]
    )


def domains(owned: Owned) -> tuple[Domain, ...]:
    """The domains of a shard, in order; none for one that takes everything."""
    return tuple(sorted(owned.domains or ()))


def strays(owned: Owned) -> tuple[Stray, ...]:
    """What it has outside them, in order of ids."""
    return tuple(stray for _, stray in sorted(owned.here.items()))


def away(owned: Owned) -> tuple[Handed, ...]:
    """What others have inside its domains: the first by their ids, as far as there is room."""
    room = NAMED_BYTES_MAX - _bytes(owned.here.values())
    names = heapq.nsmallest(NAMED_MAX, owned.away)
    provider = owned.away_providers.get
    found = [Handed(name, provider(name, ""), owned.away[name]) for name in names]
    while found and _bytes(found) > room:
        del found[-max(1, len(found) // 10) :]
    return tuple(found)


def check_strays(owned: Owned) -> None:
    """Rejected, if it would have more elsewhere than a report can name: none would be heard."""
    count = len(owned.here)
    size = _bytes(owned.here.values())
    if count > NAMED_MAX or size > NAMED_BYTES_MAX:
        raise Rejected(
            f"this would leave {count} machines ({size} bytes of names) outside the domains of this"
            f" shard, and it can report {NAMED_MAX} ({NAMED_BYTES_MAX} bytes); drain or move "
            "machines first"
        )


class Room:
    """How many more strays a report could name. Taken one by one."""

    def __init__(self, owned: Owned) -> None:
        self._here = owned.here
        self.machines = max(NAMED_MAX - len(owned.here), 0)
        self._bytes = NAMED_BYTES_MAX - _bytes(owned.here.values())

    def take(self, stray: Stray) -> bool:
        """Whether there is room for one, as it is now; then it is taken."""
        before = self._here.get(stray.machine)
        size = _bytes([stray]) - (0 if before is None else _bytes([before]))
        if size > self._bytes or (before is None and not self.machines):
            return False
        self._bytes -= size
        self.machines -= before is None
        return True


def _bytes(machines: Collection[Handed | Stray]) -> int:
    """About what machines take in a report."""
    size = sum(len(each[0]) + len(each[1]) + _ROW_BYTES for each in machines)
    where = Counter(each[2] for each in machines)
    return size + sum(sum(map(len, domain)) * n for domain, n in where.items() if domain)


def _missing(row: shortfalls.ShortfallRow, short: list[Unsatisfied]) -> Missing:
    profile = row.profile
    unit: Units = {}
    for each in short:
        unit = largest(unit, each.need.min_unit)
    together = profile.same_keys or any(each.need.group for each in short)
    return Missing(
        requirements=profile.requirements,
        deficit=row.deficit,
        priority=profile.priority,
        age_cycles=row.age_cycles,
        interruption_penalty_bucket=profile.interruption_penalty_bucket,
        reclamation_penalty_bucket=profile.reclamation_penalty_bucket,
        min_unit=unit,
        topology=bool(together) or Unmet.TOPOLOGY in row.reasons,
        quota=row.reasons.keys() == {Unmet.QUOTA},
        fingerprint=row.fingerprint,
    )


class _Kind(NamedTuple):
    provider: str
    instance_type: str
    zone: str


def _kinds(
    snapshot: Snapshot, rows: NDArray[np.intp], also: NDArray[np.int64]
) -> Iterator[tuple[_Kind, int, int]]:
    """(kind, value of `also`, how many) for every combination there is."""
    classes, most = len(snapshot.shapes.values), int(also.max(initial=0)) + 1
    key = (snapshot.source[rows].astype(np.int64) * classes + snapshot.shape[rows]) * most + also
    used, counts = np.unique(key, return_counts=True)
    for packed, count in zip(used.tolist(), counts.tolist(), strict=True):
        place, value = divmod(packed, most)
        source, shape = divmod(place, classes)
        profile = snapshot.shapes.values[shape].profile
        yield _Kind(snapshot.sources[source], profile.instance_type, profile.zone), value, count


def _free(snapshot: Snapshot) -> tuple[FreeRow, ...]:
    rows = snapshot.rows_in(State.IDLE, State.SPECULATIVE)
    idle, slots = Counter[_Kind](), Counter[_Kind]()
    for kind, is_idle, count in _kinds(
        snapshot, rows, (snapshot.state[rows] == State.IDLE).astype(np.int64)
    ):
        (idle if is_idle else slots)[kind] += count
    both = idle + slots
    kept = sorted(both, key=lambda kind: (-both[kind], kind))[:ROWS_MAX]
    return tuple(FreeRow(*kind, idle[kind], slots[kind]) for kind in sorted(kept))


def _serving(snapshot: Snapshot) -> tuple[ServingRow, ...]:
    rows = snapshot.rows_in(State.CONFIGURED)
    values = snapshot.assignments.values
    found = Counter[tuple[_Kind, int, int]]()
    for kind, code, count in _kinds(snapshot, rows, snapshot.assignment[rows].astype(np.int64)):
        held = values[code]
        bucket = bucket_for(held.interruption_penalty_dollars or 0.0)
        found[kind, held.priority or 0, bucket] += count
    kept = sorted(found, key=lambda row: (-found[row], row))[:ROWS_MAX]
    return tuple(
        ServingRow(*kind, priority, bucket, found[kind, priority, bucket])
        for kind, priority, bucket in sorted(kept)
    )
