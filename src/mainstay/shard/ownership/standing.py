"""What the engine must leave alone because it is about to go. The same value while nothing changes.

Strays that leave are named by their domain, where nothing else of ours lies: there may be many.
"""

from mainstay.engine.barred import NOTHING_BARRED, Barred
from mainstay.model.coordination import Domain
from mainstay.model.ids import MachineId
from mainstay.runtime.clock import Clock
from mainstay.shard.ownership.holdings import Holdings
from mainstay.shard.ownership.owned import Owned


class Standing:
    """Follows what is owned."""

    def __init__(self, holdings: Holdings, clock: Clock) -> None:
        self._holdings = holdings
        self._clock = clock
        self._seen: tuple[Owned, frozenset[Domain], frozenset[MachineId]] | None = None
        self._barred = NOTHING_BARRED

    @property
    def promised(self) -> frozenset[MachineId]:
        """Machines that are drained for another shard, as long as that is meant."""
        now_s = self._clock.now_s()
        return frozenset(
            victim.handed.machine
            for promise in self._holdings.owned.promises
            if promise.until_s > now_s
            for victim in promise.victims
        )

    def barred(self) -> Barred:
        """What must not be acquired."""
        owned, promised = self._holdings.owned, self.promised
        closing = self._holdings.closing | owned.retiring
        if (
            self._seen is None
            or self._seen[0] is not owned
            or self._seen[1:] != (closing, promised)
        ):
            self._seen = owned, closing, promised
            self._barred = _barred(owned, closing, promised)
        return self._barred


def _barred(owned: Owned, closing: frozenset[Domain], promised: frozenset[MachineId]) -> Barred:
    staying = {stray.domain for stray in owned.here.values() if not stray.leaving}
    shared = staying | set(owned.domains or ())
    leaving = [stray for stray in owned.here.values() if stray.leaving]
    whole = {stray.domain for stray in leaving} - shared - {None}
    single = {stray.machine for stray in leaving if stray.domain not in whole}
    values = {(domain.key, domain.value) for domain in whole | closing if domain is not None}
    return Barred(values=frozenset(values), machines=promised | single)
