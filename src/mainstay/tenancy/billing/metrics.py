"""What a biller counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class BillerMetrics:
    """One set per biller, in a registry of the caller's choice."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.registry = registry
        self._passes = Counter(
            "mainstay_biller_passes_total", "Passes by how they ended.", ("outcome",),
            registry=registry,
        )  # fmt: skip
        self._charged = Counter(
            "mainstay_biller_charges_total", "Allocations that a window was charged for.",
            registry=registry,
        )  # fmt: skip
        self._amount = Counter(
            "mainstay_biller_charged_minor_total", "Minor units charged, whatever the currency.",
            registry=registry,
        )  # fmt: skip
        self._failed = Gauge(
            "mainstay_biller_failing", "What the last pass could not deal with.",
            registry=registry,
        )  # fmt: skip
        self._ok = Gauge(
            "mainstay_biller_ok", "1 unless the last pass found no database.", registry=registry
        )
        self._ok.set(1)

    def passed(self, *, charged: int, amount_minor: int, failed: int) -> None:
        """A pass came to its end."""
        self._passes.labels("failed" if failed else "done").inc()
        self._charged.inc(charged)
        self._amount.inc(amount_minor)
        self._failed.set(failed)
        self._ok.set(1)

    def found_nobody(self) -> None:
        """The database was away."""
        self._passes.labels("unavailable").inc()
        self._ok.set(0)
