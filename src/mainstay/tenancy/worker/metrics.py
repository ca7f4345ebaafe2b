"""What a worker counts. Labels are names of steps, and what they said."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class WorkerMetrics:
    """One set per worker, in a registry of the caller's choice."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.registry = registry
        self._steps = Counter(
            "mainstay_worker_steps_total", "Steps by what they said comes next.", ("step", "next"),
            registry=registry,
        )  # fmt: skip
        self._stumbles = Counter(
            "mainstay_worker_stumbles_total", "Steps that raised and were taken again.", ("step",),
            registry=registry,
        )  # fmt: skip
        self._taken_over = Counter(
            "mainstay_worker_taken_over_total", "Work taken over from workers that died.",
            registry=registry,
        )  # fmt: skip
        self._expired = Counter(
            "mainstay_worker_tasks_expired_total", "Tasks that no agent ended in time.",
            registry=registry,
        )  # fmt: skip
        self._beaten_at = Gauge(
            "mainstay_worker_beat_timestamp_seconds", "When this worker last said that it lives.",
            registry=registry,
        )  # fmt: skip

    def stepped(self, step: str, next_: str) -> None:
        """A step was taken to its end."""
        self._steps.labels(step, next_).inc()

    def stumbled(self, step: str) -> None:
        """A step raised, and will be taken again."""
        self._stumbles.labels(step).inc()

    def took_over(self, count: int) -> None:
        """So much work of the dead goes on."""
        self._taken_over.inc(count)

    def expired(self, count: int) -> None:
        """So many tasks ran out."""
        self._expired.inc(count)

    def beat(self, now_s: float) -> None:
        """This worker has said that it lives."""
        self._beaten_at.set(now_s)
