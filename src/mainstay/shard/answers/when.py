"""When a need is served, or a machine is where it is on its way to. Pure, over facts alone.

Nothing is promised: what is on its way is told by how long the same step took of machines like it,
what has to end first by when that ends, and what does not happen by itself is told as never.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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
from mainstay.shard.answers.ways import BEGUN, WAYS, Part, Ways, seconds_text
from mainstay.shard.controls import Control, ControlKind
from mainstay.shard.latency import Measured, Step

Place = tuple[str, str] | Offer
"""Where nothing is bought for a while: a rack, zone or type, or what is sold out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is known about time, at one moment."""

    now_s: float = 0.0
    """By the wall clock, like the ends of controls."""

    steady_s: float = 0.0
    """By the clock that nobody can set, like the times since when machines idle."""

    cycle_s: float = 10.0
    """From one decision to the next, if nothing wakes the shard."""

    measured: Measured = field(default_factory=Measured)
    connected: frozenset[ClusterId] = frozenset()
    controls: tuple[Control, ...] = ()
    not_acting: str = ""
    """Why the shard does nothing at all."""

    unlisted: str = ""
    """Why nothing is acquired yet after a start."""

    backed_off_s: Mapping[ClusterId, float] = field(default_factory=dict)
    """Clusters that are left alone, and for how many seconds more."""

    barred_s: Mapping[Place, float] = field(default_factory=dict)
    """Where nothing is bought, and for how many seconds more."""


NOTHING_KNOWN: Final = Outlook()
"""Nothing was measured, and nobody is connected."""


class Hold(NamedTuple):
    """Something that has to end first."""

    seconds: float | None
    """None: it does not end by itself."""

    because: str


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
    return combined(parts, _holds(told.need.cluster, examined.serving, outlook))


def _missing(plan: Plan, examined: Examined, outlook: Outlook, ways: Ways) -> Expected:
    """When a need that misses something would have it: only what ends by itself counts."""
    told = examined.certificate
    age = plan.gang_ages.get(told.need.ref, 0)
    if told.verdict is Unmet.IMPOSSIBLE:
        return _never("no domain could hold it, whoever left")
    if len(examined.coming) and examined.coming_is_enough and not told.need.profile.same_keys:
        part = ways.coming(examined.coming)
        return combined([part], _holds(told.need.cluster, {How.CREATING: ()}, outlook))
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
    return combined([part], _holds(cluster, {how: rows}, outlook))


def step_expected(plan: Plan, row: int, outlook: Outlook, step: Step) -> Expected:
    """When one step of a machine has ended, for whomever."""
    rows: Rows = np.array([row], dtype=np.intp)
    begun = State(plan.snapshot.state.item(row)) in _TRANSIT
    part = Ways(plan, outlook.measured).step(step, rows, begun=begun)
    held = [] if begun else _holds_of_shard(plan.snapshot.cluster_of(row), outlook)
    return combined([part], held)


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
    return combined(parts, _holds(cluster, serving, outlook))


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
    cluster: ClusterId | None, serving: Mapping[How, Sequence[int] | Rows], outlook: Outlook
) -> list[Hold]:
    """What has to end before the machines of a cluster can go on."""
    found = []
    if serving.keys() & NOT_BEGUN:
        found += _holds_of_shard(cluster, outlook)
    if cluster is None or not serving.keys() & JOINED_BY_CLUSTER:
        return found
    if cluster not in outlook.connected:
        found.append(Hold(None, f"cluster {cluster} is not connected, so no machine can join it"))
    elif cluster in outlook.backed_off_s:
        left_s = outlook.backed_off_s[cluster]
        why = f"cluster {cluster} did not answer and is left alone for {seconds_text(left_s)}"
        found.append(Hold(left_s, why))
    return found


def _holds_of_shard(cluster: ClusterId | None, outlook: Outlook) -> list[Hold]:
    found = []
    if outlook.not_acting:
        found.append(Hold(None, f"this shard does not act: {outlook.not_acting}"))
    if outlook.unlisted:
        found.append(Hold(outlook.cycle_s, outlook.unlisted))
    for control in outlook.controls:
        stops = control.kind in {ControlKind.PAUSE, ControlKind.SHADOW}
        if stops and control.cluster in {None, cluster}:
            left_s = max(0.0, control.expires_at_s - outlook.now_s)
            why = f"{control.kind} by {control.by} ends in {seconds_text(left_s)}"
            found.append(Hold(left_s, f"{why} ({control.reason})"))
    return found


def bars_expected(plan: Plan, row: int, outlook: Outlook) -> Expected:
    """When a machine may be acquired again."""
    return _after_bars(plan.snapshot, np.array([row], dtype=np.intp), outlook)


def _after_bars(snapshot: Snapshot, rows: Rows, outlook: Outlook) -> Expected:
    """When the first of some barred machines may be acquired, as far as bars end by themselves."""
    ends = [left_s for left_s in _bars_of(snapshot, rows, outlook.barred_s) if left_s is not None]
    if not ends:
        return Expected(
            when=When.UNKNOWN,
            because=("what would fit is not acquired until its provider answers again",),
        )
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
