"""What an uplink counts, among the metrics of its shard."""

from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from mainstay.runtime.clock import Clock
from mainstay.shard.metric_rows import PREFIX, MetricKind, MetricRow


class Heard(StrEnum):
    """What became of a report."""

    ANSWERED = "answered"
    """By a coordinator that leads."""

    STALE = "stale"
    """Answered by a coordinator of an older term: nothing it said counts."""

    NONSENSE = "nonsense"
    """Answered, but not as a coordinator answers."""

    UNHEARD = "unheard"
    """Nobody answered in time, or nobody that leads."""

    REFUSED = "refused"
    """The report is wrong, or not ours to make."""

    FENCED = "fenced"
    """A newer life of this shard has reported."""


class Handled(StrEnum):
    """What became of an instruction, each time it was looked at."""

    ACCEPTED = "accepted"
    """Carried out."""

    AGAIN = "again"
    """Carried out before; acknowledged again."""

    STALE = "stale"
    """Of an older term than one that was heard."""

    INVALID = "invalid"
    """It cannot be meant for this shard as it is."""

    FAILED = "failed"
    """It could not be carried out."""

    NOT_YET = "not_yet"
    """It is under way, and looked at again."""


C, G = MetricKind.COUNTER, MetricKind.GAUGE

ROWS: Final = (
    MetricRow("uplink_reports", C, "Reports to the coordinator.", ("outcome",)),
    MetricRow("uplink_instructions", C, "Instructions that were looked at.", ("outcome",)),
    MetricRow("uplink_defects", C, "Times the uplink ended in a defect of ours and went on."),
    MetricRow("uplink_silence_seconds", G, "Since the coordinator last answered, or the start."),
    MetricRow("uplink_term", G, "The highest term of a coordinator that was heard."),
    MetricRow("uplink_acks_waiting", G, "Acknowledgements the coordinator has not confirmed."),
    MetricRow("uplink_strays", G, "Machines that this shard has outside its domains."),
)


class UplinkMetrics:
    """Registered where the shard's own are."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._clock, self._answered_s = clock, clock.elapsed_s()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        for row in ROWS:
            about = (PREFIX + row.name, row.help, row.labels)
            if row.kind is MetricKind.COUNTER:
                self._counters[row.name] = Counter(*about, registry=registry)
            else:
                self._gauges[row.name] = Gauge(*about, registry=registry)
        self._gauges["uplink_silence_seconds"].set_function(self._silence_s)
        for heard in Heard:
            self._counters["uplink_reports"].labels(heard.value)
        for handled in Handled:
            self._counters["uplink_instructions"].labels(handled.value)

    def reported(self, heard: Heard) -> None:
        """A report ended like this."""
        self._counters["uplink_reports"].labels(heard.value).inc()
        if heard is Heard.ANSWERED:
            self._answered_s = self._clock.elapsed_s()

    def handled(self, handled: Handled, count: int = 1) -> None:
        """So many instructions ended like this."""
        self._counters["uplink_instructions"].labels(handled.value).inc(count)

    def defect(self) -> None:
        """It went wrong in a way that nobody foresaw."""
        self._counters["uplink_defects"].inc()

    def stands(self, *, term: int, acks: int, strays: int) -> None:
        """How it stands now."""
        self._gauges["uplink_term"].set(term)
        self._gauges["uplink_acks_waiting"].set(acks)
        self._gauges["uplink_strays"].set(strays)

    def _silence_s(self) -> float:
        return self._clock.elapsed_s() - self._answered_s
