"""Everything a shard can notice beside actions, as a table: how loud, how counted, whether audited.

Whoever notices says `journal.noticed(Event.X, reason=..., machine=...)`. The reason is a bounded
word. Facts are for people; only `count` is read: it happened so many times at once. What is counted
and how it is named stands here and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Level(StrEnum):
    """Who should look."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Event(StrEnum):
    """Past tense: it has happened."""

    LIST_FAILED = "list_failed"
    LIST_HELD = "list_held"
    PROVIDER_LOST = "provider_lost"
    PROVIDER_BACK = "provider_back"
    PROVIDER_BARRED = "provider_barred"
    PROVIDER_NOT_AWAITED = "provider_not_awaited"
    LISTED_NOT_SAVED = "listed_not_saved"
    MACHINE_REFUSED = "machine_refused"
    MACHINE_RETIRED = "machine_retired"
    MACHINE_ADMITTED_AGAIN = "machine_admitted_again"
    MACHINE_REMOVED = "machine_removed"
    MACHINE_FOREIGN = "machine_foreign"
    MACHINE_FAILED = "machine_failed"
    MACHINE_LET_GO = "machine_let_go"
    MACHINE_GIVEN = "machine_given"
    MACHINE_TAKEN = "machine_taken"
    MACHINE_STRAYED = "machine_strayed"
    STRAYS_NOT_TOLD = "strays_not_told"
    MACHINE_PROMISED = "machine_promised"
    DOMAIN_ASSIGNED = "domain_assigned"
    DOMAIN_UNASSIGNED = "domain_unassigned"
    QUOTA_CHANGED = "quota_changed"
    STEP_OVERDUE = "step_overdue"
    INTERRUPTION_NOTICED = "interruption_noticed"
    EVICTION_SKIPPED = "eviction_skipped"
    IDLE_RELEASED = "idle_released"
    SHARD_FENCED = "shard_fenced"
    BREAKER_OPENED = "breaker_opened"
    BREAKER_CLOSED = "breaker_closed"
    ROLLUP_REFUSED = "rollup_refused"
    ROLLUP_HELD = "rollup_held"
    SESSION_OPENED = "session_opened"
    SESSION_REPLACED = "session_replaced"
    SESSION_CLOSED = "session_closed"
    SESSION_REFUSED = "session_refused"
    SESSION_CUT = "session_cut"
    FRAME_IGNORED = "frame_ignored"
    CONTROL_SET = "control_set"
    CONTROL_ENDED = "control_ended"
    CONTROLS_NOT_SAVED = "controls_not_saved"
    AUDIT_DIFFERED = "audit_differed"
    AUDIT_LOG_FAILED = "audit_log_failed"
    AUDIT_LOG_TORN = "audit_log_torn"
    AUDIT_LOG_BROKEN = "audit_log_broken"
    ATTRIBUTION_LOG_FAILED = "attribution_log_failed"
    CYCLE_FAILED = "cycle_failed"
    WORKER_FAILED = "worker_failed"
    CHARGES_NOT_TOLD = "charges_not_told"
    MONEY_NOT_SAVED = "money_not_saved"
    MONEY_FAILED = "money_failed"


@dataclass(frozen=True, slots=True)
class EventRule:
    """How one event is treated."""

    level: Level
    counter: str
    """The metric `mainstay_shard_<counter>_total`."""

    help: str
    label: str = ""
    """The name of the label that the reason becomes; empty: the reason is not counted by."""

    audited: bool = False
    """Whether it is a line of the audit log too."""


L = Level

EVENTS: Final[Mapping[Event, EventRule]] = MappingProxyType(
    {
        Event.LIST_FAILED: EventRule(
            L.WARNING, "lists_failed", "Lists of a provider that failed.", "provider"
        ),
        Event.LIST_HELD: EventRule(
            L.ERROR,
            "lists_held",
            "Lists that missed too many machines to be believed at once.",
            "provider",
            audited=True,
        ),
        Event.PROVIDER_LOST: EventRule(
            L.ERROR,
            "providers_lost",
            "Times a provider stopped answering.",
            "provider",
            audited=True,
        ),
        Event.PROVIDER_BACK: EventRule(
            L.INFO, "providers_back", "Times a provider answered again.", "provider", audited=True
        ),
        Event.PROVIDER_BARRED: EventRule(
            L.ERROR,
            "providers_barred",
            "Times a provider left calls unanswered, so that nothing was begun through it.",
            "provider",
            audited=True,
        ),
        Event.PROVIDER_NOT_AWAITED: EventRule(
            L.ERROR,
            "providers_not_awaited",
            "Times machines were acquired after a start without knowing those of a provider.",
            "provider",
            audited=True,
        ),
        Event.LISTED_NOT_SAVED: EventRule(
            L.WARNING,
            "listed_saves_failed",
            "Times the disk did not take the name of a provider that was listed.",
        ),
        Event.MACHINE_REFUSED: EventRule(
            L.WARNING, "machines_rejected", "Reported records that were not taken in.", "reason"
        ),
        Event.MACHINE_RETIRED: EventRule(
            L.WARNING, "machines_retired", "Records given up.", "reason", audited=True
        ),
        Event.MACHINE_ADMITTED_AGAIN: EventRule(
            L.INFO,
            "machines_admitted_again",
            "Retired machines taken in again as reported.",
            audited=True,
        ),
        Event.MACHINE_REMOVED: EventRule(
            L.INFO,
            "machines_removed",
            "Machines that their provider no longer has.",
            "reason",
            audited=True,
        ),
        Event.MACHINE_FOREIGN: EventRule(
            L.DEBUG, "machines_foreign", "Reported machines outside our domains."
        ),
        Event.MACHINE_FAILED: EventRule(
            L.WARNING, "machines_failed", "Machines that went Failed.", "reason", audited=True
        ),
        Event.MACHINE_LET_GO: EventRule(
            L.INFO,
            "machines_let_go",
            "Machines that are no longer this shard's to have.",
            "reason",
            audited=True,
        ),
        Event.MACHINE_GIVEN: EventRule(
            L.INFO, "machines_given", "Machines given to another shard.", "state", audited=True
        ),
        Event.MACHINE_TAKEN: EventRule(
            L.INFO, "machines_taken", "Machines taken over from another shard.", audited=True
        ),
        Event.MACHINE_STRAYED: EventRule(
            L.INFO,
            "machines_strayed",
            "Machines kept until they are free, although their domain is another shard's.",
            audited=True,
        ),
        Event.STRAYS_NOT_TOLD: EventRule(
            L.ERROR,
            "strays_not_told",
            "Machines in domains of other shards that could not be reported: there were too many.",
            audited=True,
        ),
        Event.MACHINE_PROMISED: EventRule(
            L.WARNING,
            "machines_promised",
            "Machines that are drained for another shard.",
            audited=True,
        ),
        Event.DOMAIN_ASSIGNED: EventRule(
            L.INFO, "domains_assigned", "Domains that became this shard's.", audited=True
        ),
        Event.DOMAIN_UNASSIGNED: EventRule(
            L.INFO, "domains_unassigned", "Domains that this shard has let go of.", audited=True
        ),
        Event.QUOTA_CHANGED: EventRule(
            L.INFO, "quotas_changed", "Times a number of the quota held changed.", audited=True
        ),
        Event.STEP_OVERDUE: EventRule(
            L.ERROR, "steps_overdue", "Steps that a provider never finished.", "state", audited=True
        ),
        Event.INTERRUPTION_NOTICED: EventRule(
            L.WARNING, "interruptions_noticed", "Hosts that a provider said it will take back."
        ),
        Event.EVICTION_SKIPPED: EventRule(
            L.WARNING,
            "evictions_skipped",
            "Drains whose cluster could not be told.",
            "kind",
            audited=True,
        ),
        Event.IDLE_RELEASED: EventRule(L.INFO, "idle_releases", "Idle machines given back."),
        Event.SHARD_FENCED: EventRule(
            L.ERROR,
            "fenced",
            "Calls refused because a newer life of this shard acts.",
            audited=True,
        ),
        Event.BREAKER_OPENED: EventRule(
            L.ERROR,
            "breakers_opened",
            "Times too much of a rack, zone or type failed or was lost at once.",
            "key",
            audited=True,
        ),
        Event.BREAKER_CLOSED: EventRule(
            L.INFO, "breakers_closed", "Times buying there was allowed again.", "key", audited=True
        ),
        Event.ROLLUP_REFUSED: EventRule(
            L.WARNING, "rollups_rejected", "Roll-ups of which nothing was taken in."
        ),
        Event.ROLLUP_HELD: EventRule(
            L.WARNING,
            "rollups_held",
            "Roll-ups held because demand fell too far at once.",
            audited=True,
        ),
        Event.SESSION_OPENED: EventRule(L.INFO, "sessions_opened", "Sessions that began."),
        Event.SESSION_REPLACED: EventRule(
            L.INFO, "sessions_replaced", "Sessions whose cluster connected again."
        ),
        Event.SESSION_CLOSED: EventRule(L.INFO, "sessions_closed", "Sessions that ended."),
        Event.SESSION_REFUSED: EventRule(
            L.WARNING, "session_identity_rejected", "Sessions refused for their certificate."
        ),
        Event.SESSION_CUT: EventRule(
            L.WARNING,
            "sessions_cut",
            "Sessions cut off because the cluster did not read.",
            "reason",
        ),
        Event.FRAME_IGNORED: EventRule(
            L.DEBUG, "frames_ignored", "Frames of clusters that meant nothing to us.", "reason"
        ),
        Event.CONTROL_SET: EventRule(
            L.WARNING, "controls_set", "Live controls set.", "kind", audited=True
        ),
        Event.CONTROL_ENDED: EventRule(
            L.INFO, "controls_ended", "Live controls lifted or expired.", "kind", audited=True
        ),
        Event.CONTROLS_NOT_SAVED: EventRule(
            L.WARNING,
            "controls_saves_failed",
            "Times the disk did not take which live controls are still in force.",
        ),
        Event.AUDIT_DIFFERED: EventRule(
            L.ERROR, "decision_audits_differed", "Full passes that did not agree with the plan."
        ),
        Event.AUDIT_LOG_FAILED: EventRule(
            L.ERROR, "audit_writes_failed", "Times the disk did not take lines of the audit log."
        ),
        Event.AUDIT_LOG_TORN: EventRule(
            L.WARNING,
            "audit_lines_torn",
            "Half-written lines of the audit log that a start has set aside.",
            audited=True,
        ),
        Event.AUDIT_LOG_BROKEN: EventRule(
            L.ERROR,
            "audit_chains_broken",
            "Starts that found the audit log not as it was written.",
            audited=True,
        ),
        Event.ATTRIBUTION_LOG_FAILED: EventRule(
            L.WARNING,
            "attribution_writes_failed",
            "Times the disk did not take what a cycle's needs claim.",
        ),
        Event.CYCLE_FAILED: EventRule(
            L.ERROR, "cycles_failed", "Cycles that ended in a defect of ours."
        ),
        Event.WORKER_FAILED: EventRule(
            L.ERROR,
            "workers_failed",
            "Actions that ended in a defect of ours.",
            "kind",
            audited=True,
        ),
        Event.CHARGES_NOT_TOLD: EventRule(
            L.WARNING, "charges_not_told", "Times a provider did not say what it charged."
        ),
        Event.MONEY_NOT_SAVED: EventRule(
            L.WARNING, "money_saves_failed", "Times the disk did not take the book of money."
        ),
        Event.MONEY_FAILED: EventRule(
            L.ERROR, "money_failures", "Times the book of money ended in a defect of ours."
        ),
    }
)
