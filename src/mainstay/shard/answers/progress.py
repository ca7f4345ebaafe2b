"""How far the machines are that a plan gives to needs: they serve, come, or are held back. Pure."""

from collections.abc import Iterable
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.explain import of_cluster
from mainstay.engine.plan import Plan
from mainstay.model.ids import ClusterId
from mainstay.model.progress import Progress
from mainstay.model.state import State
from mainstay.model.texts import Rows
from mainstay.shard.answers.holds import Restraints, on_joining, on_shard

Counts = NDArray[np.int64]

NOT_BEGUN: Final = (State.IDLE, State.SPECULATIVE)


class Advance:
    """One pass over the columns of a plan; after it every need is asked for at once."""

    def __init__(self, plan: Plan, given: Restraints) -> None:
        self._plan = plan
        owner, state = plan.owner, plan.snapshot.state
        claimed = owner >= 0
        self._claimed = self._by_need(claimed)
        self._serving = self._by_need(claimed & (state == State.CONFIGURED))
        self._not_begun = self._by_need(claimed & np.isin(state, NOT_BEGUN))
        self._held_by = cache(lambda cluster: held_by(cluster, given))

    def of_need(self, place: int) -> Progress:
        """Of one need, by its place in the plan."""
        return self._of(self._plan.needs[place].cluster, np.array([place]))

    def of_cluster(self, cluster: ClusterId) -> Progress:
        """Of all that a cluster asks for."""
        return self._of(cluster, np.flatnonzero(of_cluster(self._plan, cluster)))

    def by_cluster(self) -> dict[ClusterId, Progress]:
        """Of each cluster that asks for something."""
        places: dict[ClusterId, list[int]] = {}
        for place, need in enumerate(self._plan.needs):
            places.setdefault(need.cluster, []).append(place)
        return {cluster: self._of(cluster, np.array(mine)) for cluster, mine in places.items()}

    def _of(self, cluster: ClusterId, places: Rows) -> Progress:
        serving, not_begun = int(self._serving[places].sum()), int(self._not_begun[places].sum())
        rules = self._held_by(cluster) if not_begun else ()
        held_back = not_begun if rules else 0
        coming = int(self._claimed[places].sum()) - serving - held_back
        return Progress(serving=serving, coming=coming, held_back=held_back, held_by=rules)

    def _by_need(self, chosen: NDArray[np.bool_]) -> Counts:
        places = self._plan.owner[chosen]
        return np.bincount(places, minlength=len(self._plan.needs))


def held_by(cluster: ClusterId, given: Restraints) -> tuple[str, ...]:
    """What keeps the shard from beginning anything for a cluster, by name."""
    found = (*on_shard(cluster, given), *on_joining(cluster, given))
    return tuple(dict.fromkeys(hold.rule for hold in found))


def in_all(parts: Iterable[Progress]) -> Progress:
    """Of all of them together."""
    found = tuple(parts)
    return Progress(
        serving=sum(part.serving for part in found),
        coming=sum(part.coming for part in found),
        held_back=sum(part.held_back for part in found),
        held_by=tuple(dict.fromkeys(rule for part in found for rule in part.held_by)),
    )
