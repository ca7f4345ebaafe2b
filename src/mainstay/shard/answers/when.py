"""When a need is served, or a machine is where it is on its way to. Pure, over facts alone.

Nothing is promised: what is on its way is told by how long the same step took of machines like it,
what has to end first by when that ends, and what does not happen by itself is told as never.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from mainstay.engine.barred import Offer
from mainstay.engine.certificate import How
from mainstay.engine.doings import DRAINS, doings
from mainstay.engine.explain import Examined, of_cluster
from mainstay.engine.plan import Plan, Unmet
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.ids import ClusterId
from mainstay.model.questions import Expected, When
from mainstay.model.state import State
from mainstay.model.texts import Rows
from mainstay.shard.answers.holds import Hold, Restraints, on_joining, on_providers, on_shard
from mainstay.shard.answers.ways import BEGUN, WAYS, Part, Ways, seconds_text
from mainstay.shard.latency import Measured, Step
from mainstay.shard.restrictions import unkept_text

Place = tuple[str, str] | Offer
"""Where nothing is bought for a while: a rack, zone or type, or what is sold out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook(Restraints):
    """What is known about time, at one moment."""

    steady_s: float = 0.0
    """By the clock that nobody can set, like the times since when machines idle."""

    measured: Measured = field(default_factory=Measured)
    barred_s: Mapping[Place, float] = field(default_factory=dict)
    """Where nothing is bought, and for how many seconds more."""


NOTHING_KNOWN: Final = Outlook()
"""Nothing was measured, and nobody is connected."""


NOT_BEGUN: Final = frozenset(WAYS) - BEGUN
"""Ways of which nothing is done unless this shard acts."""

JOINED_BY_CLUSTER: Final = frozenset(WAYS) - {How.CONFIGURING}
"""Ways on which the cluster is still to be asked for what makes a machine join."""


def need_expected(plan: Plan, examined: Examined, outlook: Outlook) -> Expected:
    """When a need has all it asks for."""
    told, ways = examined.certificate, Ways(plan, outlook.measured)
    if told.missing:
        return _missing(plan, examined, outlook, ways)
    parts = [ways.part(how, rows) for how, rows in examined.serving.items() if how in WAYS]
    if not parts:
        return _now("it has all it asks for")
    return combined(parts, _holds(told.need.cluster, examined.serving, plan, outlook))


def _missing(plan: Plan, examined: Examined, outlook: Outlook, ways: Ways) -> Expected:
    """When a need that misses something would have it: only what ends by itself counts."""
    told = examined.certificate
    age = plan.gang_ages.get(told.need.ref, 0)
    if told.verdict is Unmet.IMPOSSIBLE:
        return _never("no domain could hold it, whoever left")
    if len(examined.coming) and examined.coming_is_enough and not told.need.profile.same_keys:
        part, on_its_way = ways.coming(examined.coming), {How.CREATING: examined.coming}
        return combined([part], _holds(told.need.cluster, on_its_way, plan, outlook))
    if len(examined.barred):
        return _after_bars(plan.snapshot, examined.barred, outlook)
    if age and plan.policy.is_parked(age):
        cycles = -age % plan.policy.reprobe_every + 1
        why = f"it is parked and tries again after {cycles} cycles, and nothing else comes for it"
        return Expected(when=When.NOT_BEFORE, seconds=cycles * outlook.cycle_s, because=(why,))
    verdict = "" if told.verdict is None else f" ({told.verdict.value})"
    return _never(f"nothing that is on its way would do{verdict}: it takes a change")


def machine_expected(plan: Plan, row: int, outlook: Outlook, how: How) -> Expected:
    """When one machine that counts for a need serves it."""
    rows: Rows = np.array([row], dtype=np.intp)
    part = Ways(plan, outlook.measured).part(how, rows)
    owner = plan.owner.item(row)
    cluster = None if owner < 0 else plan.walk.need_at(owner).cluster
    return combined([part], _holds(cluster, {how: rows}, plan, outlook))


def step_expected(plan: Plan, row: int, outlook: Outlook, step: Step) -> Expected:
    """When one step of a machine has ended, for whomever."""
    rows: Rows = np.array([row], dtype=np.intp)
    begun = State(plan.snapshot.state.item(row)) in _TRANSIT
    part = Ways(plan, outlook.measured).step(step, rows, begun=begun)
    if begun:
        return combined([part], [])
    held = on_shard(plan.snapshot.cluster_of(row), outlook)
    return combined([part], held + on_providers(_sources(plan, [rows]), outlook))


_TRANSIT: Final = frozenset({State.CREATING, State.CONFIGURING, State.DRAINING, State.DELETING})


def cluster_expected(plan: Plan, cluster: ClusterId, outlook: Outlook) -> Expected:
    """When everything that a cluster asks for serves it."""
    missing = sum(
        1 for told in plan.unsatisfied if told.unresolved and told.need.cluster == cluster
    )
    if missing:
        needs = "need misses" if missing == 1 else "needs miss"
        return _never(f"{missing:,} {needs} something that does not come by itself: ask about each")
    serving = _of_cluster(plan, cluster)
    ways = Ways(plan, outlook.measured)
    parts = [ways.part(how, rows) for how, rows in serving.items() if len(rows)]
    if not parts:
        return _now("all it asks for serves it")
    return combined(parts, _holds(cluster, serving, plan, outlook))


HOW: Final[Mapping[State, How]] = {
    State.CREATING: How.CREATING,
    State.CONFIGURING: How.CONFIGURING,
    State.DRAINING: How.DRAINING,
    State.IDLE: How.BOOTSTRAP,
    State.SPECULATIVE: How.PROVISION,
}


def _of_cluster(plan: Plan, cluster: ClusterId) -> dict[How, Rows]:
    """The machines that its needs claim and that do not serve yet, and those drained for them."""
    state = plan.snapshot.state
    asking = of_cluster(plan, cluster)
    claimed = np.append(asking, np.False_)[plan.owner]
    found = {how: np.flatnonzero(claimed & (state == each)) for each, how in HOW.items()}
    drains = doings(plan).for_needs(asking, DRAINS)
    return {how: rows for how, rows in (found | {How.PREEMPT: drains}).items() if len(rows)}


def combined(parts: Sequence[Part], holds: Sequence[Hold]) -> Expected:
    """All parts go on at once; whatever holds them back ends first."""
    for_good = [hold.because for hold in holds if hold.seconds is None]
    if for_good:
        return _never(*for_good)
    because = (*(hold.because for hold in holds), *(part.because for part in parts))
    ends = [hold.seconds for hold in holds if hold.seconds is not None]
    if ends:
        return Expected(when=When.NOT_BEFORE, seconds=max(ends), because=because)
    known = [part.seconds for part in parts if part.seconds is not None]
    if len(known) < len(parts):
        return Expected(when=When.UNKNOWN, because=because)
    return Expected(when=When.ABOUT, seconds=max(known, default=0.0), because=because)


def _holds(
    cluster: ClusterId | None, serving: Mapping[How, Rows], plan: Plan, outlook: Outlook
) -> list[Hold]:
    """What has to end before the machines of a cluster can go on."""
    found = []
    if serving.keys() & NOT_BEGUN:
        found += on_shard(cluster, outlook)
    if cluster is not None and serving.keys() & JOINED_BY_CLUSTER:
        found += on_joining(cluster, outlook)
    to_do = [rows for how, rows in serving.items() if how in JOINED_BY_CLUSTER]
    return found + on_providers(_sources(plan, to_do), outlook)


def _sources(plan: Plan, groups: Iterable[Rows]) -> list[str]:
    """The providers of these machines."""
    return sorted({name for rows in groups for name in _sources_of(plan.snapshot, rows)})


def _sources_of(snapshot: Snapshot, rows: Rows) -> list[str]:
    return sorted(snapshot.sources[code] for code in np.unique(snapshot.source[rows]).tolist())


def bars_expected(plan: Plan, row: int, outlook: Outlook) -> Expected:
    """When a machine may be acquired again."""
    return _after_bars(plan.snapshot, np.array([row], dtype=np.intp), outlook)


def _after_bars(snapshot: Snapshot, rows: Rows, outlook: Outlook) -> Expected:
    """When the first of some barred machines may be acquired, as far as bars end by themselves."""
    stopped = np.array([name in outlook.stopped for name in snapshot.sources], dtype=np.bool_)
    others = rows[~stopped[snapshot.source[rows]]]
    if not len(others):
        names = _sources_of(snapshot, rows)
        return _never(*(hold.because for hold in on_providers(names, outlook)))
    ends = [left_s for left_s in _bars_of(snapshot, others, outlook.barred_s) if left_s is not None]
    if not ends:
        refused = outlook.refused.intersection(_sources_of(snapshot, others))
        because = [f"{unkept_text(name)}: the disk refuses it" for name in sorted(refused)]
        answers = "what would fit is not acquired until its provider answers again"
        return Expected(when=When.UNKNOWN, because=(*because,) or (answers,))
    why = "too much failed or was sold out where it would be bought; then it is tried again"
    return Expected(when=When.NOT_BEFORE, seconds=min(ends), because=(why,))


def _bars_of(
    snapshot: Snapshot, rows: Rows, barred_s: Mapping[Place, float]
) -> Iterator[float | None]:
    """For each kind of these machines: when all that bars it has ended; None if nothing is open."""
    pairs = np.stack([snapshot.source[rows].astype(np.int64), snapshot.shape[rows]], axis=1)
    for source, shape in np.unique(pairs, axis=0).tolist():
        profile = snapshot.shapes.values[shape].profile
        offer = Offer(
            snapshot.sources[source], profile.instance_type, profile.zone, profile.capacity_type
        )
        left = [
            left_s
            for place, left_s in barred_s.items()
            if (place == offer)
            or (not isinstance(place, Offer) and profile.attribute(place[0]) == place[1])
        ]
        yield max(left) if left else None


def _now(*because: str) -> Expected:
    return Expected(when=When.NOW, because=because)


def _never(*because: str) -> Expected:
    return Expected(when=When.NEVER, because=because)


def expected_sentence(expected: Expected) -> str:
    """When, and why then; nothing where nobody asked."""
    because = f", because {'; '.join(expected.because)}" if expected.because else ""
    about = seconds_text(expected.seconds)
    told = {
        When.NOW: f"When: now{because}.",
        When.ABOUT: f"When: in about {about}{because}.",
        When.NOT_BEFORE: f"When: not before {about} from now{because}.",
        When.NEVER: f"When: never as things are{because}.",
        When.UNKNOWN: f"When: not known{because}.",
    }
    return told.get(expected.when, "")
