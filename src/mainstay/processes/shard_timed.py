"""The clusters of a shard, with how long they take to answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.need import Requirement
from mainstay.runtime.clock import Clock
from mainstay.shard.metrics import ShardMetrics
from mainstay.shard.sessions import Sessions


@dataclass(frozen=True, slots=True)
class TimedClusters:
    """The clusters, with how long they take to answer."""

    clusters: Sessions
    metrics: ShardMetrics
    clock: Clock

    async def bootstrap(
        self, cluster: ClusterId, requirements: Sequence[Requirement], *, timeout_s: float,
        machine: str = "",
    ) -> bytes:  # fmt: skip
        """Ask, and tell how long the answer took."""
        since_s = self.clock.elapsed_s()
        asked = self.clusters.bootstrap(cluster, requirements, timeout_s=timeout_s, machine=machine)
        blob = await asked
        self.metrics.bootstrap_answered(self.clock.elapsed_s() - since_s)
        return blob

    def reclaim(
        self,
        machine: Machine,
        *,
        grace_s: int,
        unheard_grace_s: int,
        preemptor_priority: int | None,
    ) -> bool:
        """As Sessions does."""
        return self.clusters.reclaim(
            machine, grace_s=grace_s, unheard_grace_s=unheard_grace_s,
            preemptor_priority=preemptor_priority,
        )  # fmt: skip

    def tell(self, cluster: ClusterId, machine: Machine) -> None:
        """As Sessions does."""
        self.clusters.tell(cluster, machine)
