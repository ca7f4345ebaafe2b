"""The recording rules give every old name from metrics that exist, with labels that exist."""

import re
from typing import Any, Final

import yaml

import outside
from mainstay.coordinator.metrics import ROWS as COORDINATOR_ROWS
from mainstay.coordinator.metrics import Applied
from mainstay.model.action import ActionKind
from mainstay.shard.metric_rows import ROWS, CyclePart, MetricKind
from mainstay.shard.outcomes import Disposition

RULES_FILE: Final = outside.ROOT / "deploy/prometheus/bigfleet-names.rules.yml"

OLD_HISTOGRAMS: Final = {
    "cycle_duration_seconds", "cycle_phase_duration_seconds", "provisioning_latency_seconds",
    "configure_phase_seconds", "request_bootstrap_seconds", "drain_phase_seconds",
}  # fmt: skip

OLD_NAMES: Final = {
    "inventory_machines", "demand_machines", "shortfalls", "shortfalls_aged", "actions_total",
    "action_execute_outcomes_total", "actions_deferred_total", "actions_dropped_total",
    "actions_deduped_total", "action_queue_depth", "execute_inflight", "reclaims_capped_total",
    "rollup_quarantined", "actions_suppressed_total", "actuation_paused", "actions_dryrun_total",
    "idle_releases_total", "machines_rejected_total", "rollups_rejected_total", "active_sessions",
    "session_lifecycle_total", "session_identity_rejected_total", "phase1_occ_proposals_total",
    "phase1_occ_displacements_total", "phase1_occ_retries_exhausted_total",
    *(f"{name}_{part}" for name in OLD_HISTOGRAMS for part in ("bucket", "sum", "count")),
}  # fmt: skip

OLD_COORDINATOR_NAMES: Final = {"raft_term", "apply_total", "pending_instructions"}

OLD_DEAD: Final = {
    "phase1_pool_build_duration_seconds", "phase1_take_duration_seconds", "phase1_calls_total",
}  # fmt: skip

OLD_LABELS: Final = {
    "cycle_phase_duration_seconds_sum": {"phase": {"reconcile", "snapread", "phase1", "emit"}},
    "actions_total": {"kind": {"Bootstrap", "Provision", "Reclaim", "Preempt", "Delete"}},
    "session_lifecycle_total": {"event": {"installed", "removed", "replaced"}},
    "machines_rejected_total": {"reason": {"price", "interruption_probability", "structural"}},
    "phase1_occ_proposals_total": {"outcome": {"committed", "conflict"}},
}

SERIES: Final = re.compile(r"(mainstay_\w+)(?:\{([^}]*)\})?")
MATCHER: Final = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
WITHOUT: Final = re.compile(r"without \(([^)]*)\)")

WORDS: Final[dict[str, set[str]]] = {
    "kind": {kind.value for kind in ActionKind},
    "disposition": {disposition.value for disposition in Disposition},
    "part": {part.value for part in CyclePart},
    "reason": {"price", "interruption_probability"},
    "outcome": {outcome.value for outcome in Applied},
}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def series_that_exist() -> dict[str, set[str]]:
    """The labels of every series of ours, by its name."""
    found = {}
    for row in (*ROWS, *COORDINATOR_ROWS):
        labels = set(row.labels)
        if row.kind is MetricKind.HISTOGRAM:
            found[f"{row.full_name}_bucket"] = labels | {"le"}
            found[f"{row.full_name}_sum"] = found[f"{row.full_name}_count"] = labels
        else:
            found[row.full_name] = labels
    return found


def complaints(rule: dict[str, Any]) -> list[str]:
    """What an expression names and does not exist."""
    found, known = [], series_that_exist()
    used = SERIES.findall(rule["expr"])
    if not used:
        found.append(f"no metric of ours: {rule['expr']}")
    for name, selection in used:
        labels = known.get(name)
        if labels is None:
            found.append(f"no such metric: {name}")
            continue
        matchers = MATCHER.findall(selection)
        dropped = {x.strip() for group in WITHOUT.findall(rule["expr"]) for x in group.split(",")}
        found += [f"no such label: {x}" for x in {m[0] for m in matchers} | dropped if x not in
                  labels]  # fmt: skip
        found += [f"no such value of {label}: {word}" for label, _, words in matchers
                  for word in words.split("|") if word not in WORDS.get(label, set())]  # fmt: skip
    return found


def test_every_expression_names_metrics_labels_and_values_that_exist() -> None:
    assert [(rule["record"], told) for rule in rules() if (told := complaints(rule))] == []


def test_every_old_name_is_given_and_nothing_else_is() -> None:
    assert {rule["record"] for rule in rules()} == {
        *(f"bigfleet_shard_{name}" for name in OLD_NAMES),
        *(f"bigfleet_coordinator_{name}" for name in OLD_COORDINATOR_NAMES),
    }


def test_the_dead_ones_are_listed_as_dead() -> None:
    listed = re.findall(r"^# dead: bigfleet_shard_(\w+)$", RULES_FILE.read_text(), re.MULTILINE)

    assert {*listed} == OLD_DEAD


def test_values_of_labels_are_the_old_ones() -> None:
    for name, labels in OLD_LABELS.items():
        for label, words in labels.items():
            given = [r["labels"][label] for r in rules() if r["record"] == f"bigfleet_shard_{name}"]
            assert sorted(given) == sorted(words)


def test_what_became_of_a_change_has_the_old_words() -> None:
    rows = [r for r in rules() if r["record"] == "bigfleet_coordinator_apply_total"]

    assert sorted(r["labels"]["outcome"] for r in rows) == ["error", "fsm_error", "success"]
    assert all(any(word in r["expr"] for r in rows) for word in Applied)


def test_no_two_rules_make_the_same_series() -> None:
    made = [(rule["record"], str(rule.get("labels", {}))) for rule in rules()]

    assert len(made) == len(set(made))


def test_mistakes_are_seen() -> None:
    assert complaints({"expr": "mainstay_shard_nothing"}) == [
        "no such metric: mainstay_shard_nothing"
    ]
    assert complaints({"expr": 'mainstay_shard_shortfalls{kind="delete"}'}) == [
        "no such label: kind"
    ]
    assert complaints({"expr": 'mainstay_shard_actions_total{kind="Delete"}'}) == [
        "no such value of kind: Delete"
    ]
    assert complaints({"expr": "vector(0)"}) == ["no metric of ours: vector(0)"]
