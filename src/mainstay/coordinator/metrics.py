"""What a coordinator counts. Every value of a label is a member of something finite.

No shard, cluster, domain or machine is ever a label: a fleet has hundreds of the first and hundreds
of thousands of the others. `mainstay get` lists them by name.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mainstay.shard.metric_rows import MetricKind, MetricRow, doubling

PREFIX: Final = "mainstay_coordinator_"

SECONDS: Final = doubling(0.001, 15)
"""1 ms to 16 s."""


class Applied(StrEnum):
    """What became of a change. The words are those of the reference, but for `refused`."""

    SUCCESS = "success"
    """The store has it."""

    REFUSED = "refused"
    """The rules of the fleet say no; nothing was written."""

    ERROR = "error"
    """The store did not take it, or did not say."""


class Heard(StrEnum):
    """What became of a report."""

    ACCEPTED = "accepted"
    """It was taken in and answered."""

    REJECTED = "rejected"
    """Too large, out of order, or not from whom it says."""

    FENCED = "fenced"
    """From an older life of its shard."""

    FAILED = "failed"
    """The store did not take what it changes; the shard reports again."""


C, G, H = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM


def _row(
    name: str,
    kind: MetricKind,
    about: str,
    *labels: str,
    buckets: tuple[float, ...] = (),
) -> MetricRow:
    return MetricRow(name, kind, about, labels, buckets, PREFIX)


ROWS: Final = (
    _row("leads", G, "1: this coordinator leads."),
    _row("term", G, "Of this coordinator's leadership; 0: it does not lead."),
    _row("reigns", C, "How often it began to lead."),
    _row("apply", C, "Changes, by what became of them.", "outcome"),
    _row("apply_seconds", H, "One change, until the store has it.", buckets=SECONDS),
    _row("loads", C, "How often the whole state was read from the store."),
    _row("reports", C, "Reports of shards, by what became of them.", "outcome"),
    _row("report_seconds", H, "A report, from its arrival to its answer.", buckets=SECONDS),
    _row("shards", G, "Shards, by how they stand.", "standing"),
    _row("clusters", G, "Clusters that are bound to a shard."),
    _row("domains", G, "Topology domains that have a record.", "state"),
    _row("strays", G, "Machines that another shard has than the owner of their domain.", "state"),
    _row("pending_instructions", G, "Instructions that are not acknowledged yet.", "kind"),
    _row("oldest_instruction_seconds", G, "For how long the oldest of them waits."),
    _row("moves", G, "Moves of machines between shards, settled ones for a while.", "state"),
    _row("moves_begun", C, "Moves that the planner began.", "tier"),
    _row("plan_seconds", H, "One look for capacity to move.", buckets=SECONDS),
    _row("plans", C, "Looks for capacity to move, by whether anything was begun.", "outcome"),
    _row("shortfalls", G, "Kinds of need that shards miss, as they last reported."),
    _row("conflicts", G, "What two shards claim: a person must look.", "kind"),
    _row("quotas", G, "Entitlements."),
    _row("quotas_overcommitted", G, "Entitlements of which shards hold more than there is."),
    _row("exports", C, "Snapshots written to the export folder.", "outcome"),
    _row("exported_seconds", G, "When the last of them was written, since the epoch."),
)

_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "apply": tuple(Applied),
    "reports": tuple(Heard),
    "exports": ("success", "error"),
    "plans": ("begun", "nothing"),
}
"""Shown as zero from the start: an alert on a series that is not there never fires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFigures:
    """How the fleet stands, in numbers."""

    shards: Mapping[str, int] = field(default_factory=dict)
    clusters: int = 0
    domains: Mapping[str, int] = field(default_factory=dict)
    strays: Mapping[str, int] = field(default_factory=dict)
    pending_instructions: Mapping[str, int] = field(default_factory=dict)
    oldest_instruction_seconds: float = 0.0
    moves: Mapping[str, int] = field(default_factory=dict)
    shortfalls: int = 0
    conflicts: Mapping[str, int] = field(default_factory=dict)
    quotas: int = 0
    quotas_overcommitted: int = 0


class CoordinatorMetrics:
    """One set per coordinator, in a registry of the caller's choice."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._shown: defaultdict[str, set[str]] = defaultdict(set)
        for row in ROWS:
            name, about = PREFIX + row.name, (row.help, row.labels)
            match row.kind:
                case MetricKind.COUNTER:
                    self._counters[row.name] = Counter(name, *about, registry=self.registry)
                case MetricKind.GAUGE:
                    self._gauges[row.name] = Gauge(name, *about, registry=self.registry)
                case MetricKind.HISTOGRAM:
                    self._histograms[row.name] = Histogram(
                        name, *about, registry=self.registry, buckets=row.buckets
                    )
        for counter, words in _WORDS.items():
            for word in words:
                self._counters[counter].labels(word)

    def leads(self, term: int) -> None:
        """A reign began."""
        self._counters["reigns"].inc()
        self._gauges["leads"].set(1)
        self._gauges["term"].set(term)

    def follows(self) -> None:
        """It ended: what only a leader knows is no longer shown as if it were so."""
        for name in ("leads", "term"):
            self._gauges[name].set(0)
        self.stands(FleetFigures())

    def applied(self, outcome: Applied, seconds: float) -> None:
        """A change ended like this."""
        self._counters["apply"].labels(outcome.value).inc()
        if outcome is Applied.SUCCESS:
            self._histograms["apply_seconds"].observe(seconds)

    def loaded(self) -> None:
        """The whole state was read."""
        self._counters["loads"].inc()

    def heard(self, outcome: Heard, seconds: float) -> None:
        """A report was answered or refused."""
        self._counters["reports"].labels(outcome.value).inc()
        self._histograms["report_seconds"].observe(seconds)

    def planned(self, tiers: Mapping[int, int], seconds: float) -> None:
        """A look for capacity to move: so many moves of each tier were begun."""
        self._counters["plans"].labels("begun" if tiers else "nothing").inc()
        self._histograms["plan_seconds"].observe(seconds)
        for tier, count in tiers.items():
            self._counters["moves_begun"].labels(str(tier)).inc(count)

    def exported(self, at_s: float) -> None:
        """A snapshot was written."""
        self._counters["exports"].labels("success").inc()
        self._gauges["exported_seconds"].set(at_s)

    def export_failed(self) -> None:
        """A snapshot could not be written."""
        self._counters["exports"].labels("error").inc()

    def stands(self, figures: FleetFigures) -> None:
        """How the fleet stands now."""
        for name in ("shards", "domains", "strays", "pending_instructions", "moves", "conflicts"):
            self._show(name, getattr(figures, name))
        for name in ("clusters", "shortfalls", "quotas", "quotas_overcommitted",
                     "oldest_instruction_seconds"):  # fmt: skip
            self._gauges[name].set(getattr(figures, name))

    def _show(self, name: str, values: Mapping[str, int]) -> None:
        """These, and zero for what was shown before and is no longer there."""
        gauge, shown = self._gauges[name], self._shown[name]
        for word, value in (dict.fromkeys(shown, 0) | dict(values)).items():
            gauge.labels(word).set(value)
        shown.update(values)
