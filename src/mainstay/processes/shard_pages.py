"""What a shard shows over plain HTTP: whether it lives, whether it is ready, its metrics."""

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from mainstay.processes.pages import Answer, Pages
from mainstay.shard.answers.live import LiveShard
from mainstay.shard.metrics import ShardMetrics


def shard_pages(live: LiveShard, metrics: ShardMetrics) -> Pages:
    """By method and path."""

    def measured(_: str) -> Answer:
        return Answer(200, generate_latest(metrics.registry).decode(), CONTENT_TYPE_LATEST)

    return {
        ("GET", "/healthz"): lambda _: Answer(200, "ok\n"),
        ("GET", "/readyz"): lambda _: readiness(live),
        ("GET", "/metrics"): measured,
    }


def readiness(live: LiveShard) -> Answer:
    """Whether a shard is ready, with what it waits for: one line."""
    if why := not_ready(live):
        return Answer(503, f"{why}\n")
    waits = live.published.unlisted if live.published else ""
    stopped = [
        f"not acting through provider {name}: {why}" for name, why in live.acting.providers.items()
    ]
    return Answer(200, "; ".join(["ok", *([waits] if waits else []), *stopped]) + "\n")


def not_ready(live: LiveShard) -> str:
    """Why a shard is not ready, in one line; empty when it is."""
    if not live.reconciler.heard.ready:
        return "waiting for the first list of every provider, or for its failure"
    why = live.not_acting()
    return f"not acting: {why}" if why else ""
