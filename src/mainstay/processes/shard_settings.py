"""What the settings of a shard mean to its parts."""

from typing import Final

from mainstay.config.shard import ShardConfig
from mainstay.engine.policy import Policy
from mainstay.engine.preempt import LONGEST_GRACE_S
from mainstay.model.state import State
from mainstay.shard.hands.breaker import BreakerOptions
from mainstay.shard.hands.calling import CallOptions
from mainstay.shard.hands.overdue import OverdueOptions
from mainstay.shard.lists.absence import AbsenceOptions
from mainstay.shard.lists.feeds import FeedOptions
from mainstay.shard.pace import ShardOptions
from mainstay.shard.quarantine import QuarantineRule
from mainstay.shard.restrictions import Limits, Restrictions, Stance

FIRST_LIST_MARGIN_S: Final = 5.0

RETRY_MAX_S: Final = 15.0
"""Whoever comes back is noticed within this."""

LEAST_CALL_S: Final = 1.0
LEAST_SHARE: Final = 0.1
"""No call that can still be left out begins with less of its deadline than either."""

TELLING_SHARE: Final = 0.5
"""A call that had so much of its action's deadline says something of its provider."""


def policy_of(config: ShardConfig) -> Policy:
    """The engine's knobs."""
    return Policy(
        hold_on_demand_s=config.hold_on_demand_s,
        hold_spot_s=config.hold_spot_s,
        park_after=config.park_after,
        reprobe_every=config.reprobe_every,
    )


def fixed(config: ShardConfig) -> Restrictions:
    """What holds actions back in every cycle."""
    stance = Stance.SHADOW if config.dry_run else Stance.ACT
    return Restrictions(
        shard=Stance.PAUSE if config.actuation_paused else stance,
        limits=Limits(
            reclaim_fraction_max=config.reclaim_fraction_max,
            actions_per_cycle_max=config.actions_per_cycle_max,
        ),
    )


def quarantine_rule(config: ShardConfig) -> QuarantineRule:
    """Which roll-ups are not believed at once."""
    return QuarantineRule(
        enabled=config.quarantine,
        rows_min=config.quarantine_rows_min,
        keep_fraction=config.quarantine_keep_fraction,
        confirmations=config.quarantine_confirmations,
        interval_s=config.quarantine_interval_s,
    )


def feed_options(config: ShardConfig) -> FeedOptions:
    """How providers are listed."""
    return FeedOptions(
        list_timeout_s=config.list_timeout_s,
        full_every=config.full_list_every,
        full_every_declared=config.full_list_every_declared,
        incremental_from_peers=config.incremental_from_peers,
        retry_max_s=RETRY_MAX_S,
    )


def absence_options(config: ShardConfig) -> AbsenceOptions:
    """Which full lists must repeat themselves."""
    return AbsenceOptions(
        missing_min=config.list_missing_min,
        missing_fraction=config.list_missing_fraction,
        confirm_s=config.list_missing_confirm_s,
        settle_s=config.list_missing_settle_s,
    )


def breaker_options(config: ShardConfig) -> BreakerOptions:
    """When buying somewhere stops."""
    return BreakerOptions(
        rack_key=config.breaker_rack_label,
        window_s=config.breaker_window_s,
        failures_min=config.breaker_failures_min,
        share_of_machines=config.breaker_machine_fraction,
        share_of_ends=config.breaker_end_fraction,
        open_s=config.breaker_open_s,
        open_longest_s=config.breaker_open_max_s,
    )


def call_options(config: ShardConfig) -> CallOptions:
    """How patient a call is."""
    return CallOptions(
        timeout_s=config.call_timeout_s,
        least_s=min(LEAST_CALL_S, LEAST_SHARE * config.action_deadline_s),
        telling_s=min(config.call_timeout_s, TELLING_SHARE * config.action_deadline_s),
    )


def overdue_options(config: ShardConfig) -> OverdueOptions:
    """How patient it is with steps."""
    return OverdueOptions(
        deadlines_s={
            State.CREATING: config.creating_deadline_s,
            State.CONFIGURING: config.configuring_deadline_s,
            State.DRAINING: config.draining_deadline_s + LONGEST_GRACE_S,
            State.DELETING: config.deleting_deadline_s,
        }
    )


def shard_options(config: ShardConfig) -> ShardOptions:
    """How often it cycles."""
    return ShardOptions(
        cycle_interval_s=config.cycle_interval_s,
        audit_every=config.decision_audit_every,
        first_list_s=config.list_timeout_s + FIRST_LIST_MARGIN_S,
        policy=policy_of(config),
    )
