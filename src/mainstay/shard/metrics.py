"""What a shard counts. Every value of a label is a member of something finite.

No machine, cluster or need is ever a label. Providers are those of the configuration; the words
that come with events are few, and should they ever not be, the surplus is counted as `other`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mainstay.model.action import ActionKind
from mainstay.model.profile import CapacityType
from mainstay.shard.events import EVENTS, Event
from mainstay.shard.facts import Health, ProviderFacts
from mainstay.shard.figures import Figures
from mainstay.shard.metric_rows import PREFIX, ROWS, CyclePart, MetricKind
from mainstay.shard.money.account import NANO, ClassRate
from mainstay.shard.outcomes import Disposition, Outcome

WORDS_MAX: Final = 100
"""Most values that a label of one metric takes beside `other`."""

OTHER: Final = "other"

_PARTS: Final = frozenset(CyclePart)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a shard stands at the end of a cycle."""

    sessions: int = 0
    quarantined: int = 0
    breakers_open: int = 0
    paused: bool = False
    shadowing: bool = False
    acting: bool = True
    ready: bool = False
    unlisted: int = 0
    stopped_providers: int = 0
    epoch: int = 0
    queue_depth: Mapping[str, int]
    in_flight: Mapping[str, int]
    providers: Iterable[ProviderFacts]


class ShardMetrics:
    """One set per shard, in a registry of the caller's choice."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._words: defaultdict[str, set[str]] = defaultdict(set)
        self._shown: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
        self._audited: dict[str, int] = {}
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

    def happened(self, event: Event, reason: str = "", count: int = 1) -> None:
        """Something of the table happened, so many times."""
        rule = EVENTS[event]
        counter = self._counters[rule.counter]
        if rule.label:
            counter.labels(self._word(rule.counter, reason)).inc(count)
        else:
            counter.inc(count)

    def disposed(self, kind: ActionKind, disposition: Disposition, count: int = 1) -> None:
        """This became of so many actions."""
        self._counters["actions"].labels(kind.value, disposition.value).inc(count)

    def executed(self, kind: ActionKind, outcome: Outcome, seconds: float) -> None:
        """An action was executed and ended like this; it is counted as disposed elsewhere."""
        self._counters["action_outcomes"].labels(kind.value, outcome.value).inc()
        self._histograms["action_seconds"].labels(kind.value).observe(seconds)

    def provisioned(self, seconds: float) -> None:
        """A kind of need waited so long for a machine."""
        self._histograms["provisioning_seconds"].observe(seconds)

    def bootstrap_answered(self, seconds: float) -> None:
        """A cluster took so long to answer."""
        self._histograms["bootstrap_answer_seconds"].observe(seconds)

    def decided_after(self, seconds: float) -> None:
        """Demand waited so long for a decision."""
        self._histograms["decision_delay_seconds"].observe(seconds)

    def observe_cycle(self, seconds: float, parts: Mapping[str, float]) -> None:
        """A cycle took so long; parts by the names of CyclePart, any other is `other`."""
        self._histograms["cycle_seconds"].observe(seconds)
        histogram = self._histograms["cycle_part_seconds"]
        for part, part_seconds in parts.items():
            histogram.labels(part if part in _PARTS else CyclePart.OTHER).observe(part_seconds)

    def observe_figures(self, figures: Figures) -> None:
        """What the plan of this cycle looks like."""
        self._show(
            "inventory_machines",
            {
                (str(state), str(capacity), penalty): count
                for (state, capacity, penalty), count in figures.machines.items()
            },
        )
        self._show("demand_machines", {(each,): n for each, n in figures.demand.items()})
        self._show("needs_unmet", {(each.value,): n for each, n in figures.unmet.items()})
        self._show("shortfalls_aged", {(b.value,): n for b, n in figures.shortfalls_aged.items()})
        self._gauges["shortfalls"].set(figures.shortfalls)

    def observe_money(self, rates: Mapping[CapacityType, ClassRate]) -> None:
        """What each capacity class costs now, in nano-dollars per hour."""
        for name in ("spend", "waste", "saving"):
            self._show(
                f"{name}_dollars_per_hour",
                {(str(of),): getattr(rate, name) / NANO for of, rate in rates.items()},
            )

    def observe_standing(self, standing: Standing) -> None:
        """How the shard stands now."""
        plain: dict[str, float] = {
            "sessions_active": standing.sessions,
            "rollups_quarantined": standing.quarantined,
            "breakers_open": standing.breakers_open,
            "actuation_paused": standing.paused,
            "shadowing": standing.shadowing,
            "acting": standing.acting,
            "ready": standing.ready,
            "providers_awaited": standing.unlisted,
            "providers_stopped": standing.stopped_providers,
            "epoch": standing.epoch,
        }
        for name, value in plain.items():
            self._gauges[name].set(value)
        providers = tuple(standing.providers)
        self._show_providers("queue_depth", standing.queue_depth)
        self._show_providers("actions_in_flight", standing.in_flight)
        self._show_providers("provider_machines", {p.name: p.machines for p in providers})
        self._show_providers(
            "provider_answering", {p.name: p.health is Health.ANSWERING for p in providers}
        )

    def observe_audit(self, *, waiting: int, written: int, lost: int) -> None:
        """How the audit log stands."""
        self._gauges["audit_lines_waiting"].set(waiting)
        for name, so_far in (("audit_lines_written", written), ("audit_lines_lost", lost)):
            self._counters[name].inc(so_far - self._audited.get(name, 0))
            self._audited[name] = so_far

    def _show(self, name: str, values: Mapping[tuple[str, ...], float]) -> None:
        """These, and zero for what was shown before and is no longer there."""
        gauge, shown = self._gauges[name], self._shown[name]
        for labels, value in (dict.fromkeys(shown, 0.0) | dict(values)).items():
            gauge.labels(*labels).set(value)
        shown.update(values)

    def _show_providers(self, name: str, values: Mapping[str, float]) -> None:
        self._show(name, {(self._word("provider", who),): value for who, value in values.items()})

    def _word(self, of: str, word: str) -> str:
        known = self._words[of]
        if word in known or len(known) < WORDS_MAX:
            known.add(word)
            return word
        return OTHER
