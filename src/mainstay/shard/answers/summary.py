"""A shard in a few numbers, and what holds it back."""

from collections.abc import Callable, Mapping, Sequence

from mainstay.engine.doings import doings
from mainstay.model.action import ActionKind
from mainstay.model.state import State
from mainstay.model.views import ControlRow, Stamp, Summary
from mainstay.shard.answers.holds import SETTINGS, STANCES, Restraints
from mainstay.shard.answers.money import whole
from mainstay.shard.answers.ports import Facts
from mainstay.shard.answers.progress import Advance, in_all
from mainstay.shard.answers.rows import provider_row, spend_by_state
from mainstay.shard.controls import Control

CONFIGURATION = "configuration"
"""Who sets what no live control says."""


def stamp_of(shard: Facts) -> Stamp:
    """Whose answer it is, and which cycle it is about."""
    published = shard.published
    if published is None:
        return Stamp(shard=shard.shard_id)
    return Stamp(shard=shard.shard_id, cycle=published.cycle, at_s=published.at_s)


def control_rows(given: Restraints, controls: Sequence[Control]) -> tuple[ControlRow, ...]:
    """All that restricts a shard: what its configuration says first, which has no end."""
    fixed = []
    if given.stance in SETTINGS:
        kind, setting, _ = SETTINGS[given.stance]
        why = f"{setting} is set"
        fixed = [ControlRow(kind=kind.value, reason=why, by=CONFIGURATION, fixed=True)]
    return (*fixed, *map(control_row, controls))


def control_row(control: Control) -> ControlRow:
    """One live control."""
    return ControlRow(
        kind=control.kind.value,
        cluster=control.cluster or "",
        value=control.value,
        reason=control.reason,
        by=control.by,
        set_at_s=control.set_at_s,
        expires_at_s=control.expires_at_s,
    )


def summed_up(shard: Facts, stamp: Stamp) -> Callable[[], Summary]:
    """The summary, to be worked out beside the loop; what changes is read here and now."""
    activity, published, epoch = shard.activity(), shard.published, shard.epoch
    providers = tuple(map(provider_row, sorted(shard.providers(), key=lambda p: p.name)))
    connected, money = len(shard.sessions()), shard.money()
    restraints = shard.restraints()
    controls = control_rows(restraints, shard.controls())
    held = sum(1 for count in shard.held_rollups().values() if count)

    def worked_out() -> Summary:
        plan = None if published is None else published.plan
        advance = {} if plan is None else Advance(plan, restraints).by_cluster()
        return Summary(
            stamp=stamp,
            epoch=epoch,
            not_acting=restraints.not_acting,
            machines={} if plan is None else _named(plan.snapshot.by_state),
            spend_per_hour={} if plan is None else spend_by_state(plan.snapshot),
            needs=0 if plan is None else len(plan.needs),
            unmet=0 if plan is None else len(plan.unsatisfied),
            parked=0 if plan is None else sum(told.parked for told in plan.unsatisfied),
            clusters=len(advance),
            connected=connected,
            seconds={} if published is None else dict(published.seconds),
            planned={} if plan is None else _named(doings(plan).counts()),
            queued=activity.queued,
            in_flight=activity.in_flight,
            actions_per_minute=activity.actions_per_minute,
            controls=len(controls),
            held_rollups=held,
            providers=providers,
            money=whole(money),
            money_since_s=money.since_s,
            progress=in_all(advance.values()),
            resting=tuple(each for each in controls if not each.cluster and each.kind in STANCES),
        )

    return worked_out


def _named(counts: Mapping[State, int] | Mapping[ActionKind, int]) -> dict[str, int]:
    return {str(each): count for each, count in counts.items()}
