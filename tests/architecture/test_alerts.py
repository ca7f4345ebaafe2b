"""Every alert is about metrics that exist and has a section in the runbook that says what to do."""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector
from typing_extensions import override

import outside
import pages
from mainstay.bridge.metrics import BridgeMetrics
from mainstay.coordinator.figures import ShardWord
from mainstay.coordinator.metrics import ROWS as COORDINATOR_ROWS
from mainstay.coordinator.metrics import Applied
from mainstay.coordinator.metrics import Heard as HeardOfShards
from mainstay.coordinator.records import MoveState
from mainstay.model.calls import Call, Status
from mainstay.providers.kit.metrics import Found, Metrics, StepEnd
from mainstay.shard.metric_rows import ROWS, MetricKind
from mainstay.shard.outcomes import Disposition, Outcome
from mainstay.tenancy.billing.metrics import BillerMetrics
from mainstay.tenancy.bus_metrics import ConsumerMetrics, RelayMetrics
from mainstay.tenancy.states import OutboxStatus
from mainstay.tenancy.worker.metrics import WorkerMetrics
from mainstay.uplink.metrics import ROWS as UPLINK_ROWS

ALERTS_FILE: Final = outside.ROOT / "deploy/prometheus/mainstay-alerts.rules.yml"
RUNBOOK: Final = "docs/how-to/runbook.md"
PARTS: Final = ("It means", "Look at", "Do")
SEVERITIES: Final = {"page", "ticket"}

SUBJECTS: Final = {
    "no leader": r"mainstay_coordinator_leads\b",
    "conflicts": r"mainstay_coordinator_conflicts\b",
    "a shard that is not heard": r'mainstay_coordinator_shards\{standing="silent"\}',
    "instructions that wait": r"mainstay_coordinator_oldest_instruction_seconds\) > 900",
    "quota": r"mainstay_coordinator_quotas_overcommitted",
    "moves that do not end": r"mainstay_coordinator_moves\{",
    "an uplink that is not heard": r"mainstay_shard_uplink_silence_seconds",
    "a shard that is not ready": r"mainstay_shard_ready == 0",
    "a shard that does not act": r"mainstay_shard_acting == 0",
    "a provider that fences us": r"mainstay_shard_providers_stopped",
    "reclaims that are capped": r'mainstay_shard_actions_total\{disposition="capped"\}',
    "quarantine": r"mainstay_shard_rollups_quarantined",
    "breakers": r"mainstay_shard_breakers_open",
    "a provider that does not answer": r"mainstay_shard_provider_answering == 0",
    "defects of actions": r'mainstay_shard_action_outcomes_total\{outcome="transition_error"\}',
    "slow cycles": r"mainstay_shard_cycle_seconds_bucket",
    "the audit log": r"mainstay_shard_audit_writes_failed_total",
    "the providers": r"mainstay_provider_steps_total",
    "a database of tenancy that is away": r"mainstay_biller_ok",
    "what cannot be charged": r"mainstay_biller_failing",
    "a relay that publishes nothing": r"mainstay_relay_ok",
    "events that are late": r"mainstay_outbox_oldest_seconds",
    "events that failed": r'mainstay_outbox_rows\{status="failed"\}',
    "a worker that is gone": r"mainstay_worker_beat_timestamp_seconds",
    "a bridge without a session": r"mainstay_bridge_connected",
    "a bridge that says no demand": r"mainstay_bridge_ok",
    "what a bridge leaves as it is": r"mainstay_bridge_failing",
}

SERIES: Final = re.compile(r"(mainstay_\w+)(?:\{([^}]*)\})?")
MATCHER: Final = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
GROUPED: Final = re.compile(r"\b(?:by|without) \(([^)]*)\)")
DURATION: Final = re.compile(r"[1-9][0-9]*[smh]")
TOKEN: Final = re.compile(r'"[^"]*"|\[[^\]]*\]|[a-z_]+|[0-9.]+|==|<=|>=|[<>(){}+*/,-]|\S')
COMPARISONS: Final = frozenset({"<", ">", "<=", ">=", "=="})
WORDS_OF_PROMQL: Final = frozenset({
    "sum", "max", "rate", "increase", "min_over_time", "histogram_quantile", "time", "vector", "by",
    "or",
})  # fmt: skip
TEMPLATE: Final = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
SCRAPED: Final = frozenset({"job", "instance"})
"""Labels that Prometheus adds to every series."""


def _words(kind: type[Enum]) -> set[str]:
    return {member.value if isinstance(member.value, str) else member.name for member in kind}


VALUES: Final[Mapping[tuple[str, str], set[str]]] = {
    ("mainstay_coordinator_apply_total", "outcome"): _words(Applied),
    ("mainstay_coordinator_reports_total", "outcome"): _words(HeardOfShards),
    ("mainstay_coordinator_exports_total", "outcome"): {"success", "error"},
    ("mainstay_coordinator_shards", "standing"): _words(ShardWord),
    ("mainstay_coordinator_moves", "state"): _words(MoveState),
    ("mainstay_shard_actions_total", "disposition"): _words(Disposition),
    ("mainstay_shard_action_outcomes_total", "outcome"): _words(Outcome),
    ("mainstay_provider_calls_total", "status"): _words(Status),
    ("mainstay_provider_steps_total", "end"): _words(StepEnd),
    ("mainstay_provider_reconcile_total", "found"): _words(Found),
    ("mainstay_outbox_rows", "status"): _words(OutboxStatus),
}


@cache
def alerts() -> tuple[dict[str, Any], ...]:
    groups = yaml.safe_load(ALERTS_FILE.read_text(encoding="utf-8"))["groups"]
    return tuple(rule for group in groups for rule in group["rules"])


@cache
def series() -> Mapping[str, frozenset[str]]:
    """The labels of every series of ours, by its name."""
    found: dict[str, frozenset[str]] = {}
    for row in (*ROWS, *UPLINK_ROWS, *COORDINATOR_ROWS):
        found |= _series(row.full_name, row.kind is MetricKind.HISTOGRAM, row.labels)
    return found | _series_of_a_provider() | _series_of_tenancy()


def _series_of_a_provider() -> dict[str, frozenset[str]]:
    """As a provider shows them after one of each."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.answered(Call.CREATE, Status.OK, 0.0)
    metrics.ended(Call.CREATE, StepEnd.DONE, 0.0)
    metrics.retried(Call.CREATE)
    metrics.found(Found.ADDED)
    return {
        sample.name: frozenset(sample.labels)
        for family in registry.collect()
        for sample in family.samples
    }


def _series_of_tenancy() -> dict[str, frozenset[str]]:
    """By what each of its registries was given."""
    registry = Noted()
    for make in OF_TENANCY:
        make(registry)
    found: dict[str, frozenset[str]] = {}
    for metric in registry.all:
        (family,) = metric.describe()
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found |= _series(name, family.type == "histogram", metric._labelnames)
    return found


class Noted(CollectorRegistry):
    """One that keeps what is registered."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[MetricWrapperBase] = []

    @override
    def register(self, collector: Collector) -> None:
        super().register(collector)
        assert isinstance(collector, MetricWrapperBase)
        self.all.append(collector)


OF_TENANCY: Final[tuple[Callable[[CollectorRegistry], object], ...]] = (
    RelayMetrics, ConsumerMetrics, WorkerMetrics, BillerMetrics, BridgeMetrics,
)  # fmt: skip


def _series(name: str, is_histogram: bool, labels: tuple[str, ...]) -> dict[str, frozenset[str]]:
    if not is_histogram:
        return {name: frozenset(labels)}
    parts = {f"{name}_{part}": frozenset(labels) for part in ("sum", "count")}
    return parts | {f"{name}_bucket": frozenset({*labels, "le"})}


def complaints(alert: Mapping[str, Any]) -> list[str]:
    """What is wrong with one alert."""
    return [*_of_expression(alert["expr"]), *_of_shape(alert), *_of_summary(alert)]


def _of_expression(text: str) -> Iterator[str]:
    used = SERIES.findall(text)
    if not used:
        yield f"no metric of ours: {text}"
    known: set[str] = set()
    for name, selection in used:
        if name not in series():
            yield f"no such metric: {name}"
            continue
        known |= series()[name]
        for label, _, words in MATCHER.findall(selection):
            values = VALUES.get((name, label), set())
            yield from (
                f"no such value of {label} of {name}: {word}"
                for word in words.split("|")
                if word not in values
            )
    grouped = {word.strip() for group in GROUPED.findall(text) for word in group.split(",")}
    yield from (f"no such label: {word}" for word in sorted(grouped - known - SCRAPED))
    yield from _of_grammar(text, known)


def _of_grammar(text: str, labels: set[str]) -> Iterator[str]:
    """As far as can be said without Prometheus: words, brackets, ranges, one comparison at last."""
    plain = SERIES.sub(" X ", text)
    words = {token for token in TOKEN.findall(plain) if re.fullmatch(r"[a-z_]+", token)}
    yield from (
        f"not PromQL: {word}" for word in sorted(words - WORDS_OF_PROMQL - labels - SCRAPED)
    )
    if plain.count("(") != plain.count(")"):
        yield f"brackets do not match: {text}"
    for function in re.finditer(r"\b(rate|increase|min_over_time)\( X (\S*)", plain):
        if not re.match(r"\[[1-9][0-9]*[smh]\]", function[2]):
            yield f"{function[1]} needs a range: {text}"
    depth, compared = 0, 0
    for token in TOKEN.findall(plain):
        depth += {"(": 1, ")": -1}.get(token, 0)
        compared += depth == 0 and token in COMPARISONS
    if compared != 1:
        yield f"not one comparison: {text}"


def _of_shape(alert: Mapping[str, Any]) -> Iterator[str]:
    name = alert["alert"]
    if not re.fullmatch(r"Mainstay[A-Z]\w*", name):
        yield f"not a name of ours: {name}"
    if unknown := alert.keys() - {"alert", "expr", "for", "labels", "annotations"}:
        yield f"unknown: {sorted(unknown)}"
    if "for" in alert and not DURATION.fullmatch(alert["for"]):
        yield f"not a duration: {alert['for']}"
    if alert["labels"].get("severity") not in SEVERITIES:
        yield "no severity"
    if alert["annotations"].get("runbook") != f"{RUNBOOK}#{name.lower()}":
        yield "no line that leads to the runbook"


def _of_summary(alert: Mapping[str, Any]) -> Iterator[str]:
    summary, text = alert["annotations"]["summary"], alert["expr"]
    if not summary.endswith("."):
        yield f"not a sentence: {summary!r}"
    kept = {word.strip() for group in GROUPED.findall(text) for word in group.split(",")}
    if not re.search(r"\b(sum|max)\b", text):
        kept |= SCRAPED.union(*(series().get(name, ()) for name, _ in SERIES.findall(text)))
    for label in TEMPLATE.findall(summary):
        if label not in kept:
            yield f"the summary names a label that is not there: {label}"


def sections(page: str) -> dict[str, list[str]]:
    """The alerts of a runbook, each with the names of its paragraphs."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        found[heading.strip()] = re.findall(r"^\*\*([^*]+)\.\*\* \S", body, re.MULTILINE)
    return found


def test_every_alert_names_what_exists_and_is_whole() -> None:
    assert [(alert["alert"], told) for alert in alerts() if (told := complaints(alert))] == []


def test_every_alert_has_a_section_that_says_what_it_means_what_to_look_at_and_what_to_do() -> None:
    told = sections((outside.ROOT / RUNBOOK).read_text())

    assert told == {alert["alert"]: [*PARTS] for alert in alerts()}


def test_no_two_alerts_have_one_name() -> None:
    names = [alert["alert"] for alert in alerts()]

    assert len(names) == len({*names})


def test_what_must_wake_somebody_has_an_alert() -> None:
    every = "\n".join(alert["expr"] for alert in alerts())

    assert [subject for subject, what in SUBJECTS.items() if not re.search(what, every)] == []


def test_metrics_that_the_runbook_names_exist() -> None:
    text = (outside.ROOT / RUNBOOK).read_text()
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in series()} | {*series()}

    assert [name for name in re.findall(r"\bmainstay_[a-z_]+", text) if name not in families] == []
    assert pages.headings(text)[0] == "Runbook"


def good_to(summary: str) -> dict[str, str]:
    return {"summary": summary, "runbook": f"{RUNBOOK}#mainstayx"}


def test_mistakes_in_an_alert_are_seen() -> None:
    good = {
        "alert": "MainstayX",
        "expr": "mainstay_shard_ready == 0",
        "for": "5m",
        "labels": {"severity": "page"},
        "annotations": good_to("It is so."),
    }
    for change, complaint in (
        ({}, []),
        ({"expr": "mainstay_shard_redy == 0"}, ["no such metric: mainstay_shard_redy"]),
        ({"expr": "mainstay_shard_ready"}, ["not one comparison: mainstay_shard_ready"]),
        (
            {"expr": 'mainstay_coordinator_moves{state="stuck"} > 0'},
            ["no such value of state of mainstay_coordinator_moves: stuck"],
        ),
        (
            {"expr": "sum by (rack) (mainstay_shard_ready) > 0"},
            ["no such label: rack", "not PromQL: rack"],
        ),
        (
            {"expr": "rate(mainstay_shard_cycles_failed_total) > 0"},
            ["rate needs a range: rate(mainstay_shard_cycles_failed_total) > 0"],
        ),
        (
            {"expr": "summe(mainstay_shard_ready) > 0"},
            ["not PromQL: summe"],
        ),
        ({"for": "soon"}, ["not a duration: soon"]),
        ({"labels": {}}, ["no severity"]),
        (
            {"annotations": good_to("It is {{ $labels.rack }}.")},
            ["the summary names a label that is not there: rack"],
        ),
        (
            {"annotations": {"summary": "It is so."}},
            ["no line that leads to the runbook"],
        ),
    ):
        assert complaints(good | change) == complaint
