"""Everything the clusters ask for now: replaced whole, cluster by cluster."""

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need


class NeedsTable:
    """Demand by cluster. A roll-up is a cluster's total: it replaces, it never adds.

    `revision` grows with every change; `revisions` says when each cluster last changed, and keeps
    the clusters that have withdrawn everything.
    """

    def __init__(self) -> None:
        self._rows: dict[ClusterId, tuple[Need, ...]] = {}
        self._revisions: dict[ClusterId, int] = {}
        self._revision = 0
        self._snapshot: tuple[Need, ...] | None = ()

    @property
    def revision(self) -> int:
        """How often anything has changed."""
        return self._revision

    @property
    def revisions(self) -> Mapping[ClusterId, int]:
        """The revision at which each cluster's demand last changed."""
        return MappingProxyType(self._revisions)

    def replace(self, cluster: ClusterId, needs: Iterable[Need]) -> bool:
        """Put `needs` in the place of all the cluster asked for; whether anything changed.

        All or nothing, as `replaced` has it.
        """
        return self.swap(cluster, replaced(cluster, self.of_cluster(cluster), needs))

    def swap(self, cluster: ClusterId, rows: tuple[Need, ...]) -> bool:
        """The same in no time, with what `replaced` has made of the rows that are there now."""
        if rows is self.of_cluster(cluster):
            return False
        if rows:
            self._rows[cluster] = rows
        else:
            del self._rows[cluster]
        self._revision += 1
        self._revisions[cluster] = self._revision
        self._snapshot = None
        return True

    def of_cluster(self, cluster: ClusterId) -> tuple[Need, ...]:
        """The rows of one cluster, as it sent them."""
        return self._rows.get(cluster, ())

    def snapshot(self) -> tuple[Need, ...]:
        """All rows: highest priority, then earliest arrival, then cluster, then as they were sent.

        The same object until something changes.
        """
        if self._snapshot is None:
            rows = [need for needs in self._rows.values() for need in needs]
            rows.sort(key=lambda n: (-n.profile.priority, n.arrival_nanos, n.cluster))
            self._snapshot = tuple(rows)
        return self._snapshot

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))


def replaced(
    cluster: ClusterId, before: tuple[Need, ...], needs: Iterable[Need]
) -> tuple[Need, ...]:
    """What a roll-up makes of a cluster's rows: `before` itself when it changes nothing. Pure.

    A row of another cluster refuses the whole roll-up. A need that was there before keeps its first
    arrival, so that telling the same again changes nothing.
    """
    arrivals = {need.ref: need.arrival_nanos for need in before}
    rows = tuple(_since(need, arrivals.get(need.ref, 0)) for need in needs)
    for position, need in enumerate(rows):
        if need.cluster != cluster:
            raise Rejected(f"row {position} of cluster {cluster} names cluster {need.cluster}")
    return before if rows == before else rows


def _since(need: Need, first_arrival_nanos: int) -> Need:
    if not first_arrival_nanos or need.arrival_nanos == first_arrival_nanos:
        return need
    return dataclasses.replace(need, arrival_nanos=first_arrival_nanos)
