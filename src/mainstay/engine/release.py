"""Phase 3: give back what nobody claims. It reckons no demand of its own."""

import math

import numpy as np

from mainstay.engine.policy import Policy
from mainstay.engine.world import World
from mainstay.model.ids import ClusterId
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.model.texts import Rows


def reclaimable(world: World, heard: frozenset[ClusterId], preempted: Rows) -> Rows:
    """Configured machines nobody claims: clusters ascending, dearest and least valued first."""
    snapshot = world.snapshot
    heard_codes = np.array([name in heard for name in snapshot.clusters])
    kept = world.kept.rows
    unclaimed = kept[world.owner[kept] < 0]
    unclaimed = unclaimed[snapshot.state[unclaimed] == State.CONFIGURED]
    unclaimed = unclaimed[heard_codes[snapshot.cluster[unclaimed]]]
    unclaimed = unclaimed[~np.isin(unclaimed, preempted)]
    codes = snapshot.cluster[unclaimed]
    parts = np.split(unclaimed, np.flatnonzero(codes[1:] != codes[:-1]) + 1)
    if len(unclaimed):
        parts.sort(key=lambda rows: snapshot.clusters[snapshot.cluster.item(int(rows[0]))])
    return np.concatenate([rows[::-1] for rows in parts])


def deletable(world: World, policy: Policy, now: float) -> tuple[Rows, float]:
    """Idle machines that have idled long enough, by id; and when the next one will have."""
    snapshot = world.snapshot
    idle = snapshot.idle
    idle = idle[world.owner[idle] < 0]
    holds = np.array([policy.hold_s(kind) for kind in CapacityType])
    hold = holds[snapshot.shapes.capacity_type[snapshot.shape[idle]]]
    since = snapshot.idle_since[idle]
    held = (hold > 0) & ~np.isnan(since)
    expired = held & (now - np.where(held, since, now) >= np.where(held, hold, math.inf))
    waiting = held & ~expired
    until = float((since[waiting] + hold[waiting]).min(initial=math.inf))
    return idle[expired], math.nextafter(until, -math.inf)  # the sum may have been rounded up
