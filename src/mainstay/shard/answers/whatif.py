"""What-if: from words to changes that the engine knows, and its difference back to words."""

from collections.abc import Iterator, Sequence

from mainstay.engine.plan import Plan
from mainstay.engine.whatif import (
    MachinesLost,
    MoreNeed,
    PriceTimes,
    QuotaSet,
    Selector,
    WhatIf,
    ZoneLost,
    whatif_of,
)
from mainstay.engine.whatif import NeedChange as EngineChange
from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId, parse_cluster_id
from mainstay.model.need import Operator, Requirement
from mainstay.model.questions import (
    LISTED_MAX,
    NeedChange,
    QuotaChange,
    Selection,
    WhatIfAnswer,
    WhatIfQuery,
)
from mainstay.model.rollup import accept
from mainstay.model.views import Stamp
from mainstay.shard.answers.rows import capacity_type, quantities


def what_if(plan: Plan, query: WhatIfQuery, stamp: Stamp) -> WhatIfAnswer:
    """Decide as things would be. Pure, and slow: to be run beside the loop."""
    changes = tuple(changes_of(query))
    if not changes:
        raise Rejected("nothing would change: name a zone, a price, more demand or a quota")
    told = whatif_of(plan, changes=changes)
    return WhatIfAnswer(
        stamp=stamp,
        actions_before={str(kind): count for kind, count in told.actions_before.items()},
        actions_after={str(kind): count for kind, count in told.actions_after.items()},
        cost_before=told.cost_before,
        cost_after=told.cost_after,
        satisfied=_needs(told.satisfied),
        unsatisfied=_needs(told.unsatisfied),
        moved=_needs(told.moved),
        drained=_ids(told.drained),
        spared=_ids(told.spared),
        satisfied_count=len(told.satisfied),
        unsatisfied_count=len(told.unsatisfied),
        moved_count=len(told.moved),
        drained_count=len(told.drained),
        spared_count=len(told.spared),
        unmatched=tuple(each.told for each in told.unmatched),
    )


def changes_of(query: WhatIfQuery) -> Iterator[WhatIf]:
    """Losses, then prices, demand, quota."""
    for zone in query.lost_zones:
        yield ZoneLost(zone)
    for selection in query.lost:
        yield MachinesLost(_selector(selection))
    for price in query.prices:
        yield PriceTimes(_selector(price.selection), price.factor)
    for addition in query.additions:
        cluster = parse_cluster_id(addition.cluster)
        for need in accept(cluster, [addition.need], arrival_nanos=0):
            yield MoreNeed(need)
    for quota in query.quotas:
        yield _quota(quota)


def _selector(selection: Selection) -> Selector:
    return Selector(
        requirements=tuple(
            Requirement(match.key, Operator.IN, match.values) for match in selection.matches
        ),
        capacity_types=frozenset(map(capacity_type, selection.capacity_types)),
        states=frozenset(selection.states),
        sources=frozenset(selection.providers),
    )


def _quota(change: QuotaChange) -> QuotaSet:
    if change.held is not None and change.held < 0:
        raise Rejected(f"a quota must not be negative: {change.held}")
    if bool(change.cluster) == bool(change.provider):
        raise Rejected("a quota is of a cluster, or of a provider and a region: name one of them")
    if change.cluster:
        return QuotaSet(parse_cluster_id(change.cluster), change.held)
    return QuotaSet((change.provider, change.region), change.held)


def _needs(changes: Sequence[EngineChange]) -> tuple[NeedChange, ...]:
    return tuple(
        NeedChange(
            cluster=change.need.cluster,
            fingerprint=change.need.fingerprint,
            group=change.need.group,
            before=quantities(change.before),
            after=quantities(change.after),
        )
        for change in changes[:LISTED_MAX]
    )


def _ids(machines: Sequence[MachineId]) -> tuple[str, ...]:
    return tuple(machines[:LISTED_MAX])
