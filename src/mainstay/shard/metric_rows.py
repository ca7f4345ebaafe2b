"""Every metric of a shard, as a table; those that count events are derived from theirs.

`deploy/prometheus/bigfleet-names.rules.yml` gives them under the names that BigFleet has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mainstay.shard.events import EVENTS

PREFIX: Final = "mainstay_shard_"


class MetricKind(StrEnum):
    """How a metric behaves."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    prefix: str = PREFIX

    @property
    def full_name(self) -> str:
        """As it is asked for."""
        return self.prefix + self.name + ("_total" if self.kind is MetricKind.COUNTER else "")


class CyclePart(StrEnum):
    """What a cycle spends its time on."""

    RECONCILE = "reconcile"
    SNAPSHOT = "snapshot"
    DECIDE = "decide"
    HINTS = "hints"
    OFFER = "offer"
    OTHER = "other"


def doubling(first: float, count: int) -> tuple[float, ...]:
    """Bounds of buckets, each twice the one before."""
    return tuple(first * 2**power for power in range(count))


CYCLE_BUCKETS: Final = doubling(0.001, 15)
"""1 ms to 16 s."""

STEP_BUCKETS: Final = doubling(0.01, 16)
"""10 ms to 327.68 s."""

C, G, H = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM

OWN: Final = (
    MetricRow("cycle_seconds", H, "A whole cycle.", buckets=CYCLE_BUCKETS),
    MetricRow("cycle_part_seconds", H, "One part of a cycle.", ("part",), buckets=CYCLE_BUCKETS),
    MetricRow(
        "decision_delay_seconds",
        H,
        "From demand that arrives to the decision that has seen it.",
        buckets=CYCLE_BUCKETS,
    ),
    MetricRow(
        "provisioning_seconds",
        H,
        "From the first roll-up that asks for a kind of need to a machine that serves it.",
        buckets=STEP_BUCKETS,
    ),
    MetricRow(
        "action_seconds", H, "An executed action, in our hands.", ("kind",), buckets=STEP_BUCKETS
    ),
    MetricRow(
        "bootstrap_answer_seconds",
        H,
        "How long a cluster takes to answer what makes a machine join.",
        buckets=STEP_BUCKETS,
    ),
    MetricRow(
        "inventory_machines",
        G,
        "Machines, by the penalty of interrupting what they serve, in dollars.",
        ("state", "capacity_type", "interruption_penalty_bucket"),
    ),
    MetricRow(
        "demand_machines",
        G,
        "Machines that all needs would take if each gave the smallest unit asked for.",
        ("interruption_penalty_bucket",),
    ),
    MetricRow("needs_unmet", G, "Needs that are not satisfied.", ("reason",)),
    MetricRow("shortfalls", G, "Kinds of need that miss something."),
    MetricRow("shortfalls_aged", G, "The same by age, in cycles.", ("bucket",)),
    MetricRow("spend_dollars_per_hour", G, "What machines cost now.", ("capacity_type",)),
    MetricRow(
        "waste_dollars_per_hour",
        G,
        "The part of that for machines that serve nobody.",
        ("capacity_type",),
    ),
    MetricRow(
        "saving_dollars_per_hour",
        G,
        "What the same machines would cost more on demand, where a price is listed.",
        ("capacity_type",),
    ),
    MetricRow("actions", C, "What became of actions of plans.", ("kind", "disposition")),
    MetricRow("action_outcomes", C, "How executed actions ended.", ("kind", "outcome")),
    MetricRow("queue_depth", G, "Actions that wait for their turn.", ("provider",)),
    MetricRow("actions_in_flight", G, "Actions that are being carried out.", ("provider",)),
    MetricRow("provider_answering", G, "1: it answers lists and calls.", ("provider",)),
    MetricRow("provider_machines", G, "Machines that a provider reports.", ("provider",)),
    MetricRow("sessions_active", G, "Clusters that are connected."),
    MetricRow("rollups_quarantined", G, "Clusters whose last roll-up is held."),
    MetricRow("breakers_open", G, "Racks, zones and types where nothing is bought."),
    MetricRow("actuation_paused", G, "1: nothing is executed."),
    MetricRow("shadowing", G, "1: what would be executed is told and not done."),
    MetricRow("acting", G, "0: this shard was fenced and acts no more."),
    MetricRow(
        "providers_stopped",
        G,
        "Providers through which nothing is done, since they refused a call as fenced.",
    ),
    MetricRow("ready", G, "1: every provider was looked at once."),
    MetricRow(
        "providers_awaited",
        G,
        "Providers whose first list after the start is waited for before anything is acquired.",
    ),
    MetricRow("epoch", G, "Which life of the shard this is."),
    MetricRow("audit_lines_waiting", G, "Lines of the audit log that are not written yet."),
    MetricRow("audit_lines_written", C, "Lines of the audit log since the start."),
    MetricRow("audit_lines_lost", C, "Lines of the audit log that found no room."),
)


def _of_events() -> Iterator[MetricRow]:
    for rule in EVENTS.values():
        yield MetricRow(rule.counter, C, rule.help, (rule.label,) if rule.label else ())


ROWS: Final = (*OWN, *_of_events())
