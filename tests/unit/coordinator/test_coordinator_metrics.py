"""What a coordinator shows about itself: every row is there, and nothing old is shown as new."""

from prometheus_client.exposition import generate_latest

from mainstay.coordinator.metrics import (
    PREFIX,
    ROWS,
    Applied,
    CoordinatorMetrics,
    FleetFigures,
    Heard,
)
from mainstay.shard.metric_rows import MetricKind


def value(metrics: CoordinatorMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"{PREFIX}{name}", labels)


def test_every_row_of_the_table_is_a_metric() -> None:
    text = generate_latest(CoordinatorMetrics().registry).decode()

    for row in ROWS:
        assert row.full_name.startswith(PREFIX)
        assert f"# HELP {row.full_name} {row.help}\n" in text
        assert f"# TYPE {row.full_name} {row.kind.value}\n" in text


def test_no_label_names_a_shard_a_cluster_a_domain_or_a_machine() -> None:
    labels = {label for row in ROWS for label in row.labels}

    assert labels == {"outcome", "standing", "state", "kind", "tier"}


def test_what_alerts_ask_for_is_there_before_anything_happened() -> None:
    metrics = CoordinatorMetrics()

    assert [value(metrics, "apply_total", outcome=each) for each in Applied] == [0, 0, 0]
    assert [value(metrics, "reports_total", outcome=each) for each in Heard] == [0, 0, 0, 0]
    assert value(metrics, "exports_total", outcome="error") == 0
    assert value(metrics, "leads") == 0


def test_only_what_the_store_took_is_timed() -> None:
    metrics = CoordinatorMetrics()

    metrics.applied(Applied.SUCCESS, 0.5)
    metrics.applied(Applied.ERROR, 9.0)

    assert value(metrics, "apply_seconds_sum") == 0.5
    assert value(metrics, "apply_total", outcome="error") == 1


def test_who_leads_no_more_shows_nothing_that_only_a_leader_knows() -> None:
    metrics = CoordinatorMetrics()
    metrics.leads(7)
    metrics.stands(FleetFigures(shards={"reporting": 3}, clusters=2, conflicts={"cluster": 1}))
    assert (value(metrics, "leads"), value(metrics, "term")) == (1, 7)
    assert value(metrics, "shards", standing="reporting") == 3

    metrics.follows()

    assert (value(metrics, "leads"), value(metrics, "term")) == (0, 0)
    assert value(metrics, "shards", standing="reporting") == 0
    assert value(metrics, "conflicts", kind="cluster") == 0
    assert value(metrics, "clusters") == 0
    assert value(metrics, "reigns_total") == 1


def test_a_state_that_no_longer_occurs_is_shown_as_none() -> None:
    metrics = CoordinatorMetrics()

    metrics.stands(FleetFigures(moves={"asked": 2}))
    metrics.stands(FleetFigures(moves={"done": 2}))

    assert value(metrics, "moves", state="asked") == 0
    assert value(metrics, "moves", state="done") == 2


def test_moves_that_were_begun_are_counted_by_tier() -> None:
    metrics = CoordinatorMetrics()

    metrics.planned({1: 2, 3: 1}, 0.1)
    metrics.planned({}, 0.1)

    assert value(metrics, "moves_begun_total", tier="1") == 2
    assert value(metrics, "plans_total", outcome="nothing") == 1


def test_every_histogram_reaches_from_a_millisecond_to_what_a_store_may_take() -> None:
    bounds = {row.buckets for row in ROWS if row.kind is MetricKind.HISTOGRAM}

    assert {(each[0], each[-1]) for each in bounds} == {(0.001, 16.384)}
