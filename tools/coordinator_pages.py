"""The generated page about a coordinator: its metrics."""

from mainstay.coordinator.metrics import ROWS, Applied, Heard
from mainstay.shard.metric_rows import MetricRow
from page_parts import NOTICE, docs_below, table

INTRODUCTION = """# Metrics of a coordinator

At `/metrics` of its HTTP address. No shard, cluster, domain or machine is ever a label.
The file `deploy/prometheus/bigfleet-names.rules.yml` gives Prometheus three of them under the names
that BigFleet has.

"""


def coordinator_metrics_page() -> str:
    """Every metric of a coordinator, and the words that its labels take."""

    def row(each: MetricRow) -> tuple[str, str, str, str]:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        return f"`{each.full_name}`", each.kind.value, labels, each.help

    def words(kind: type[Applied] | type[Heard]) -> str:
        docs = docs_below([kind])
        return table(("word", "meaning"), [(f"`{w.value}`", docs.get(w.name, "")) for w in kind])

    return "".join((
        NOTICE,
        INTRODUCTION,
        table(("metric", "kind", "labels", "meaning"), map(row, ROWS)),
        "\n## What became of a change\n\n", words(Applied),
        "\n## What became of a report\n\n", words(Heard),
    ))  # fmt: skip
