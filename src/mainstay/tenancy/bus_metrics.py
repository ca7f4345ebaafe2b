"""What relays and consumers count. Labels are types of events and names of consumers."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mainstay.tenancy.states import EventType, OutboxStatus

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0)


class RelayMetrics:
    """One set per relay, in a registry of the caller's choice."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.registry = registry
        self._published = Counter(
            "mainstay_relay_published_total", "Events handed to the bus.", ("type", "again"),
            registry=registry,
        )  # fmt: skip
        self._failed = Counter(
            "mainstay_relay_publish_failures_total", "Publications that failed.", ("type",),
            registry=registry,
        )  # fmt: skip
        self._rows = Gauge(
            "mainstay_outbox_rows", "Events that have not ended.", ("status",), registry=registry
        )
        self._oldest_s = Gauge(
            "mainstay_outbox_oldest_seconds", "Age of the oldest event that has not ended.",
            registry=registry,
        )  # fmt: skip
        self._ok = Gauge(
            "mainstay_relay_ok", "1 unless the last publication failed.", registry=registry
        )
        self._ok.set(1)

    def published(self, kind: EventType, *, again: bool) -> None:
        """An event was handed over, for the first time or again."""
        self._published.labels(kind, "yes" if again else "no").inc()
        self._ok.set(1)

    def failed(self, kind: EventType) -> None:
        """An event could not be handed over."""
        self._failed.labels(kind).inc()
        self._ok.set(0)

    def backlog(self, rows: dict[OutboxStatus, int], oldest_s: float) -> None:
        """What is still on its way."""
        for status, count in rows.items():
            self._rows.labels(status).set(count)
        self._oldest_s.set(oldest_s)


class ConsumerMetrics:
    """One set per process that consumes."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.registry = registry
        self._deliveries = Counter(
            "mainstay_consumer_deliveries_total", "Deliveries by how they ended.",
            ("consumer", "outcome"), registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "mainstay_consumer_seconds", "Time from the write of an event to its consumption.",
            ("consumer",), buckets=_BUCKETS, registry=registry,
        )  # fmt: skip

    def delivered(self, consumer: str, outcome: str) -> None:
        """A delivery was dealt with."""
        self._deliveries.labels(consumer, outcome).inc()

    def consumed(self, consumer: str, age_s: float) -> None:
        """An event was consumed, so old."""
        self._seconds.labels(consumer).observe(max(age_s, 0.0))
