"""The generated pages about a shard: its metrics and its events."""

from enum import StrEnum

from mainstay.shard.events import EVENTS
from mainstay.shard.metric_rows import OWN, PREFIX, MetricRow
from mainstay.shard.outcomes import Disposition, Outcome
from mainstay.uplink.metrics import ROWS as UPLINK
from mainstay.uplink.metrics import Handled, Heard
from page_parts import NOTICE, docs_below, table

METRICS_INTRODUCTION = """# Metrics of a shard

At `/metrics` of its HTTP address. No machine, cluster or need is ever the value of a label.
[Events](events.md) are counted besides, each under the name in its row there. The file
`deploy/prometheus/bigfleet-names.rules.yml` gives Prometheus the same under the names that BigFleet
has.

"""


def metrics_page() -> str:
    """Every metric of a shard, and the words that its labels take."""

    def row(each: MetricRow) -> tuple[str, str, str, str]:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        return f"`{each.full_name}`", each.kind.value, labels, each.help

    def words(kind: type[StrEnum]) -> str:
        docs = docs_below([kind])
        return table(("word", "meaning"), [(f"`{w.value}`", docs.get(w.name, "")) for w in kind])

    return "".join((
        NOTICE,
        METRICS_INTRODUCTION,
        table(("metric", "kind", "labels", "meaning"), map(row, OWN)),
        "\n## Of its uplink to a coordinator\n\n",
        table(("metric", "kind", "labels", "meaning"), map(row, UPLINK)),
        "\n## Dispositions\n\n", words(Disposition),
        "\n## Outcomes of what was executed\n\n", words(Outcome),
        "\n## What became of a report\n\n", words(Heard),
        "\n## What became of an instruction\n\n", words(Handled),
    ))  # fmt: skip


EVENTS_INTRODUCTION = """# Events of a shard

What a shard notices beside its actions. Each is a line of the log under its own name, at its level,
and a counter; the audited ones are lines of the [audit log](../how-to/read-the-audit-log.md) too.

"""


def events_page() -> str:
    """Every event and how it is treated."""
    rows = [
        (
            f"`{event.value}`",
            rule.level.value,
            f"`{PREFIX}{rule.counter}_total`",
            f"`{rule.label}`" if rule.label else "",
            "yes" if rule.audited else "",
            rule.help,
        )
        for event, rule in EVENTS.items()
    ]
    header = ("event", "level", "counter", "label", "audited", "what is counted")
    return NOTICE + EVENTS_INTRODUCTION + table(header, rows)
