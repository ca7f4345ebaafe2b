"""What the clusters ask for, as a shard believes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from mainstay.engine.barred import NOTHING_BARRED, Barred
from mainstay.engine.plan import Demand
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.need import Need
from mainstay.model.needs import NeedsTable, replaced
from mainstay.runtime.clock import Clock
from mainstay.shard.events import Event
from mainstay.shard.latency import Latency
from mainstay.shard.ports import Journal
from mainstay.shard.quarantine import QUARANTINE, Baseline, QuarantineRule, Suspicion, judge


class Applied(StrEnum):
    """What became of a roll-up that could be read."""

    ACCEPTED = "accepted"
    """It is the demand from now on."""

    UNCHANGED = "unchanged"
    """It says what was said before."""

    HELD = "held"
    """It takes away too much at once: the demand before it stays until it is confirmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRollup:
    """Of a cluster whose last roll-ups are not believed yet."""

    suspicion: Suspicion
    in_a_row: int
    rows: int
    """Of the last one held."""

    rows_believed: int
    since_s: float
    """Wall-clock time of the first one held."""

    counted_at_s: float
    """When the last of them came that counts, by `Clock.elapsed_s`."""


@dataclass(frozen=True, slots=True)
class Believed:
    """What a cluster asks for, as believed: all that later roll-ups of it are compared with."""

    rows: tuple[Need, ...] = ()
    baseline: Baseline = field(default_factory=Baseline)
    """The same rows, as the quarantine sees them."""

    fingerprints: frozenset[Fingerprint] = frozenset()
    digest: bytes = b""
    """Of the frame that said so last; empty when nobody knows."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a roll-up makes of how its cluster stands."""

    standing: "Standing"
    outcome: Believed | HeldRollup


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a cluster stands when a roll-up comes. Frozen, so that it is judged beside the loop."""

    cluster: ClusterId
    believed: Believed
    held: HeldRollup | None
    rule: QuarantineRule
    elapsed_s: float
    now_s: float

    def again(self) -> Verdict:
        """On what was believed last, said once more: it ends a wait, and changes nothing else."""
        return Verdict(self, self.believed)

    def verdict(self, needs: Sequence[Need], digest: bytes = b"") -> Verdict:
        """On any other roll-up. Slow for a huge one. Rejected: it has rows of another cluster."""
        held, believed = self.held, self.believed
        counts = held is None or self.elapsed_s - held.counted_at_s >= self.rule.interval_s
        in_a_row = held.in_a_row if held else 0
        judged = judge(believed.baseline, needs, in_a_row, self.rule, counts=counts)
        if judged.suspicion is not None:
            outcome = HeldRollup(
                suspicion=judged.suspicion,
                in_a_row=judged.in_a_row,
                rows=len(needs),
                rows_believed=len(believed.rows),
                since_s=held.since_s if held else self.now_s,
                counted_at_s=self.elapsed_s if held is None or counts else held.counted_at_s,
            )
            return Verdict(self, outcome)
        rows = replaced(self.cluster, believed.rows, needs)
        if rows is believed.rows:
            return Verdict(self, replace(believed, digest=digest))
        fingerprints = frozenset(need.profile.fingerprint for need in rows)
        return Verdict(self, Believed(rows, Baseline(rows), fingerprints, digest))


NOTHING: Final = Believed()


class DemandBook:
    """The last believed roll-up of every cluster. Lives on the event loop.

    Silence changes nothing here: a cluster that is cut off keeps its demand, and one that was not
    heard from since this process started is not in `heard`, so that nothing of it is reclaimed.
    """

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        options: QuarantineRule = QUARANTINE,
        *,
        latency: Latency | None = None,
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._rule = options
        self.latency = latency or Latency(clock)
        self._table = NeedsTable()
        self._heard: frozenset[ClusterId] = frozenset()
        self._believed: dict[ClusterId, Believed] = {}
        self._held: dict[ClusterId, HeldRollup] = {}
        self._demand: Demand | None = None

    @property
    def heard(self) -> frozenset[ClusterId]:
        """The clusters that have sent a roll-up since this process started. Their first is always
        believed: there is nothing yet that it could be compared with.
        """
        return self._heard

    @property
    def held(self) -> Mapping[ClusterId, HeldRollup]:
        """The clusters whose last roll-up is held."""
        return MappingProxyType(self._held)

    def of_cluster(self, cluster: ClusterId) -> tuple[Need, ...]:
        """What one cluster asks for, as believed."""
        return self._table.of_cluster(cluster)

    def standing(self, cluster: ClusterId) -> Standing:
        """What a roll-up of a cluster that comes now is judged by."""
        return Standing(
            cluster=cluster,
            believed=self._believed.get(cluster, NOTHING),
            held=self._held.get(cluster),
            rule=self._rule,
            elapsed_s=self._clock.elapsed_s(),
            now_s=self._clock.now_s(),
        )

    def take(self, verdict: Verdict) -> Applied | None:
        """Take a roll-up in, in the place of the one before: no work, however huge it is.

        None, and nothing done, when its cluster no longer stands as it did when it was judged.
        """
        standing, outcome = verdict.standing, verdict.outcome
        cluster = standing.cluster
        is_as_it_was = self._believed.get(cluster, NOTHING) is standing.believed
        if not is_as_it_was or self._held.get(cluster) is not standing.held:
            return None
        if isinstance(outcome, HeldRollup):
            self._hold(cluster, outcome)
            return Applied.HELD
        return self._believe(cluster, outcome)

    def snapshot(self, quota: Quota = NO_QUOTA, barred: Barred = NOTHING_BARRED) -> Demand:
        """Everything that is asked for. The same object while nothing has changed."""
        needs, last = self._table.snapshot(), self._demand
        if last is not None and last.needs is needs:
            same_heard = last.heard is self._heard
            if same_heard and last.quota == quota and last.barred == barred:
                return last
        before = None if last is None else vars(last).get("asked", last.before)
        self._demand = Demand(needs, self._heard, quota, barred, before)
        return self._demand

    def _hold(self, cluster: ClusterId, held: HeldRollup) -> None:
        before = self._held.get(cluster)
        self._held[cluster] = held
        if before is not None and before.in_a_row == held.in_a_row:
            return  # another one in the same moment is no news
        self._journal.noticed(
            Event.ROLLUP_HELD,
            reason=held.suspicion,
            cluster=cluster,
            in_a_row=held.in_a_row,
            rows=held.rows,
            rows_believed=held.rows_believed,
        )

    def _believe(self, cluster: ClusterId, believed: Believed) -> Applied:
        changed = self._table.swap(cluster, believed.rows)
        is_new = cluster not in self._heard
        if is_new:
            self._heard |= {cluster}
        self._held.pop(cluster, None)
        self._believed[cluster] = believed
        self.latency.asked_for(cluster, believed.fingerprints)
        return Applied.ACCEPTED if changed or is_new else Applied.UNCHANGED
