"""What the quota held still allows in this cycle."""

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.quota import REGION_KEY, Quota
from mainstay.engine.rows import Mask, Walk
from mainstay.engine.world import World
from mainstay.model.ids import ClusterId
from mainstay.model.state import State
from mainstay.model.texts import Rows

UNLIMITED: Final = 2**62


class Allowance:
    """How many more machines each cluster and each (provider, region) may hold."""

    def __init__(self, world: World, quota: Quota, walk: Walk) -> None:
        self.world, self.walk = world, walk
        self.left: NDArray[np.int64] = np.full(len(world.asked.clusters), UNLIMITED, dtype=np.int64)
        """By the demand's code of the cluster."""

        self.slot: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        """Per machine: which limited (provider, region) a Provision of it would use, or -1; empty
        when none is limited."""

        self.slot_left: NDArray[np.int64] = np.array(
            [min(held, UNLIMITED) for held in quota.slots.values()], dtype=np.int64
        )
        self.stopped: Mask = np.zeros(len(walk), dtype=np.bool_)
        """For which needs a machine was passed over."""

        if quota.machines:
            self._limit_clusters(world, quota)
        if quota.slots:
            self._limit_slots(world, quota)

    def _limit_clusters(self, world: World, quota: Quota) -> None:
        snapshot = world.snapshot
        coming = Counter[ClusterId | None]()
        for ref, rows in world.draining.items():
            coming[ref.cluster] += len(rows)
        creating = np.bincount(snapshot.assignment[snapshot.state == State.CREATING])
        for assignment in np.flatnonzero(creating).tolist():
            meant_for = snapshot.assignments.values[assignment].cluster
            coming[meant_for] += int(creating[assignment])
        for code, cluster in enumerate(world.asked.clusters):
            if cluster in quota.machines:
                used = coming[cluster]
                for state in (State.CONFIGURED, State.CONFIGURING):
                    used += len(world.bound(cluster, state).rows)
                self.left[code] = min(quota.machines[cluster], UNLIMITED) - used

    def _limit_slots(self, world: World, quota: Quota) -> None:
        snapshot = world.snapshot
        self.slot = np.full(len(snapshot.state), -1, dtype=np.int32)
        codes, regions = snapshot.shapes.attribute(REGION_KEY)
        region_of = np.array([region or "" for region in regions], dtype=np.object_)[codes]
        for number, (provider, region) in enumerate(quota.slots):
            if provider not in snapshot.sources:
                continue
            of_provider = snapshot.source == snapshot.sources.index(provider)
            here = of_provider & (snapshot.state != 0)
            here &= (region_of == region)[snapshot.shape]
            is_slot = snapshot.state == State.SPECULATIVE
            self.slot[here & is_slot] = number
            self.slot_left[number] -= np.count_nonzero(here & ~is_slot)

    def charge(self, rows: Rows, places: Rows) -> None:
        """These machines of the pools are taken for the needs at these places."""
        np.subtract.at(self.left, self.walk.cluster[places], 1)
        if len(self.slot):
            used = self.slot[rows]
            np.subtract.at(self.slot_left, used[used >= 0], 1)

    def budget(self, place: int) -> "Budget":
        """What one need may still take; nothing is used until it is committed."""
        return Budget(self, place)


class Budget:
    """The allowance as one need uses it up."""

    def __init__(self, allowance: Allowance, place: int) -> None:
        self._allowance, self._place = allowance, place
        self._cluster = int(allowance.walk.cluster[place])
        self._left = int(allowance.left[self._cluster])
        self._slots: dict[int, int] = {}

    @property
    def is_free(self) -> bool:
        """Whether nothing limits this need."""
        return self._left >= UNLIMITED // 2 and not len(self._allowance.slot)

    def take(self, row: int) -> bool:
        """Use one more for this machine; where that is too much, say so and use nothing."""
        allowance = self._allowance
        if (
            allowance.world.snapshot.cluster_of(row)
            == allowance.world.asked.clusters[self._cluster]
        ):
            return True
        code = int(allowance.slot[row]) if len(allowance.slot) else -1
        used = self._slots.get(code, 0)
        if self._left <= 0 or (code >= 0 and allowance.slot_left[code] - used <= 0):
            allowance.stopped[self._place] = True
            return False
        self._left -= 1
        if code >= 0:
            self._slots[code] = used + 1
        return True

    def still_open(self, rows: Rows) -> Mask:
        """Which machines are not forbidden already, as things stand."""
        allowance, snapshot = self._allowance, self._allowance.world.snapshot
        own = allowance.world.cluster_code(allowance.world.asked.clusters[self._cluster])
        is_open: Mask = np.full(len(rows), self._left > 0)
        if len(allowance.slot):
            left = np.append(allowance.slot_left, 1)  # last, for what is not limited
            for code, used in self._slots.items():
                left[code] -= used
            is_open &= left[allowance.slot[rows]] > 0
        return is_open | ((snapshot.cluster[rows] == own) if own > 0 else False)

    def commit(self) -> None:
        """What was taken is used."""
        allowance = self._allowance
        allowance.left[self._cluster] = self._left
        for code, used in self._slots.items():
            allowance.slot_left[code] -= used
