"""Certificates and reports as sentences. Pure: every number is one of the certificate's."""

from collections.abc import Iterator, Mapping
from typing import Final

from mainstay.engine import certificate as c
from mainstay.engine.explain import ClusterReport, MachineReport, Standing
from mainstay.engine.plan import Unmet
from mainstay.model.assignment import NeedRef
from mainstay.model.progress import Progress
from mainstay.model.resources import Units
from mainstay.shard.answers.rows import asks_for, quantities, requirement_text

SHORT: Final = 8
"""So many characters of a fingerprint are shown."""

HOLDERS_TOLD: Final = 3
RELAXATIONS_TOLD: Final = 5

REASONS: Final[Mapping[str, str]] = {
    "waiting": "machines are being drained for it, and then it has all it asks for",
    "impossible": "no domain could ever hold it, whoever left",
    "quota": "the quota leaves no room for what would fit",
    "barred": "what would fit must not be bought now: its provider does not answer or refuses this"
    " shard, our disk refuses that it was listed, or too much failed there",
    "topology": "no single domain, or no allowed spread, has room for it",
    "no supply": "no machine that could serve it exists that it does not have",
    "preemption exhausted": "everything it may take from less important needs is not enough",
    "starved": "what fits serves others that matter as much or more",
}
"""By the value of mainstay.engine.plan.Unmet."""

STEPS: Final[Mapping[str, str]] = {
    "fleet": "the fleet is too small",
    "serving": "the fleet is too small",
    "min unit": "the smallest unit that one machine must hold",
    "adds": "machines that add something it misses",
    "domain": "its domain",
    "state": "machines that are Idle, Speculative or Configured",
    "barred": "what must not be bought now",
    "claimed": "machines that others hold",
    "quota": "the quota",
    "spread": "the spread that must be kept",
    "parked": "it is parked: it was in vain for long, and tries again every 32 cycles",
    "whole": "it takes all or nothing",
}
"""By the value of mainstay.engine.certificate.Filter; a requirement speaks for itself."""

STANDINGS: Final[Mapping[Standing, str]] = {
    Standing.SERVES: "It serves the need that claims it and stays.",
    Standing.ACQUIRED: "It is being acquired for the need that claims it.",
    Standing.ASIDE: "It is set aside for a gang that waits until the rest is drained.",
    Standing.PREEMPTED: "It is drained, because a more important need takes it.",
    Standing.EXCESS: "Nobody needs it where it is, so it is drained.",
    Standing.SILENT: "Nobody claims it, but its cluster has not told its demand since the shard"
    " started: silence is not zero, and it is left alone.",
    Standing.HELD: "Nobody needs it; it is kept for a while and then given back.",
    Standing.KEPT: "Nobody needs it; machines of its capacity type are never given back.",
    Standing.DELETED: "Nobody has needed it for long enough: it is given back.",
    Standing.BARRED: "It must not be acquired now: its provider does not answer or refuses this"
    " shard, our disk refuses that it was listed, too much failed where it is, or its host will be"
    " taken back.",
    Standing.SLOT: "It is a quota slot that nobody asks for.",
    Standing.IN_FLIGHT: "Its provider is at work on it, for nobody who asks now.",
    Standing.FAILED: "It has failed and stays so until somebody retires it: `mainstay retire`.",
}


def amounts(units: Units) -> str:
    """Amounts in one line."""
    told = quantities(units)
    return ", ".join(f"{name} {amount}" for name, amount in told.items()) or "nothing"


def ref_text(ref: NeedRef) -> str:
    """A need by name, short enough to read and long enough to ask for."""
    parts = (ref.cluster, ref.fingerprint[:SHORT], ref.group)
    return "/".join(part for part in parts if part)


def need_sentences(told: c.NeedCertificate) -> tuple[str, ...]:
    """Cause, blocker, holders, nearest miss, smallest change."""
    return tuple(_need_sentences(told))


def _need_sentences(told: c.NeedCertificate) -> Iterator[str]:
    need = told.need
    kind = "gang" if need.profile.same_keys else "need"
    yield (
        f"The {kind} {ref_text(need.ref)} asks for {amounts(need.aggregate)} at priority"
        f" {need.profile.priority}: {asks_for(need.profile)}."
    )
    if told.gangs:
        yield f"It stands for {len(told.gangs)} gangs that each fit on one machine."
    if told.serving:
        groups = (f"{group.count} {how.value}" for how, group in told.serving.items())
        yield f"What counts for it: {', '.join(groups)}."
    if told.verdict is None:
        yield _served(told)
        return
    why = REASONS.get(told.verdict.value, told.verdict.value)
    if not told.missing:
        yield f"It is {told.verdict.value}: {why}."
        return
    yield f"It misses {amounts(told.missing)} ({told.verdict.value}): {why}."
    yield from _blocker(told)
    yield from _holders(told)
    if told.nearest is not None:
        yield _nearest(told, told.nearest)
    yield from _changes(told)


def _served(told: c.NeedCertificate) -> str:
    """What a need that misses nothing has by now: a plan is not yet a machine that serves."""
    counts = {how: group.count for how, group in told.serving.items()}
    machines, serving = sum(counts.values()), counts.get(c.How.CONFIGURED, 0)
    if serving == machines:
        return "It has all it asks for."
    of = "its machine serves" if machines == 1 else f"its {machines:,} machines serve"
    return f"It misses nothing, and {serving:,} of {of} it yet."


def _blocker(told: c.NeedCertificate) -> Iterator[str]:
    if told.domain is not None:
        yield f"It looks in domain {'/'.join(told.domain)}."
    if told.blocking is None:
        return
    step = told.funnel[told.blocking]
    fleet = told.funnel[0].left
    left = f"{step.left:,} of {fleet:,} machines are left, with {amounts(step.capacity)}"
    yield f"What blocks it: {_step_text(step)}. Behind it {left}."
    if step.lifted:
        yield f"Were it not for that, {step.lifted:,} machines would do."


def _step_text(step: c.Step) -> str:
    if step.requirement is not None:
        return requirement_text(step.requirement)
    return STEPS.get(step.filter.value, step.filter.value)


def _holders(told: c.NeedCertificate) -> Iterator[str]:
    if not told.holders:
        return
    named = [
        f"{holder.count:,} by {ref_text(holder.need) if holder.need else 'nobody who asks'}"
        f" at priority {holder.priority}"
        for holder in told.holders[:HOLDERS_TOLD]
    ]
    more = len(told.holders) - HOLDERS_TOLD
    tail = f", and {more} more holders" if more > 0 else ""
    yield f"Machines that fit are held: {', '.join(named)}{tail}."


def _nearest(told: c.NeedCertificate, near: c.NearMiss) -> str:
    misses = "; ".join(_miss(told.funnel[miss.step], miss) for miss in near.misses)
    return f"The nearest miss is machine {near.machine}: {misses}."


def _miss(step: c.Step, miss: c.Miss) -> str:
    if miss.holder is not None or miss.priority is not None:
        by = ref_text(miss.holder) if miss.holder is not None else "nobody who asks"
        at = "" if miss.priority is None else f" at priority {miss.priority}"
        return f"held by {by}{at}"
    if miss.lacks:
        return f"it lacks {amounts(miss.lacks)}"
    has = "/".join(miss.has) or "nothing"
    return f"{_step_text(step)} is wanted, it has {has}"


def _changes(told: c.NeedCertificate) -> Iterator[str]:
    if not told.relaxations:
        return
    first, *others = told.relaxations
    yield f"The smallest change that admits it: {change_text(first.change)}{_price_of(first)}."
    for other in others[: RELAXATIONS_TOLD - 1]:
        yield f"Or: {change_text(other.change)}{_price_of(other)}."


def _price_of(relaxation: c.Relaxation) -> str:
    parts = []
    if relaxation.acquired.count:
        parts.append(f"{relaxation.acquired.count} machines acquired")
    if relaxation.drained.count:
        parts.append(f"{relaxation.drained.count} drained for it")
    if relaxation.price_per_hour:
        parts.append(f"${relaxation.price_per_hour:,.2f} per hour")
    if relaxation.displaced:
        parts.append(f"{len(relaxation.displaced)} other needs would be short")
    return f" ({', '.join(parts)})" if parts else ""


def change_text(change: c.Change) -> str:  # noqa: C901 # one case for each change
    """A change as an instruction."""
    match change:
        case c.Wait():
            return "wait, it is tried again soon"
        case c.SoftSpread():
            return "prefer the spread instead of forcing it"
        case c.Widen(old, new):
            return f"ask for {requirement_text(new)} instead of {requirement_text(old)}"
        case c.SmallerUnit(min_unit):
            return f"let one machine hold only {amounts(min_unit)}"
        case c.Fewer(pieces, of, _):
            return f"ask for {pieces} of its {of} pieces"
        case c.Drop(requirement):
            return f"give up {requirement_text(requirement)}"
        case c.MoreQuota():
            return _quota_text(change)
        case c.HigherPriority(priority, _):
            return f"raise its priority to {priority}"


def _quota_text(change: c.MoreQuota) -> str:
    parts = [f"{change.machines} more machines for the cluster"] if change.machines else []
    parts += [f"{more} more at {'/'.join(filter(None, at))}" for at, more in change.slots.items()]
    return f"raise the quota by {' and '.join(parts)}"


def machine_sentences(told: MachineReport) -> tuple[str, ...]:
    """What it is, for whom, and what the plan does with it."""
    return tuple(_machine_sentences(told))


def _machine_sentences(told: MachineReport) -> Iterator[str]:
    of = f", of cluster {told.cluster}" if told.cluster else ""
    where = f" in {told.zone}" if told.zone else ""
    yield (
        f"Machine {told.machine} is {told.state}{of}: a {told.instance_type}{where} at"
        f" ${told.price_per_hour:,.2f} per hour."
    )
    yield STANDINGS[told.standing]
    if told.claimed_by is not None:
        yield f"The need {ref_text(told.claimed_by)} claims it."
    if told.action is not None:
        grace = f" with {told.action.grace_s} s of grace" if told.action.grace_s else ""
        for_whom = f" for {ref_text(told.action.need)}" if told.action.need else ""
        yield f"The plan says: {told.action.kind}{for_whom}{grace}."
    if told.priority is not None:
        yield f"Only a need above priority {told.priority} may take it."
    if told.neighbours is not None:
        near = told.neighbours
        worse = f"; {near.worse} would be given up sooner" if near.worse else ""
        yield f"It is number {near.place + 1} of {near.of} that its cluster keeps{worse}."


def cluster_sentences(told: ClusterReport, progress: Progress) -> tuple[str, ...]:
    """What it asks, has of it by now, holds and may hold."""
    return tuple(_cluster_sentences(told, progress))


def _cluster_sentences(told: ClusterReport, progress: Progress) -> Iterator[str]:
    needs = sum(told.needs.values())
    whole = told.needs.get(None, 0)
    of = "1 need" if needs == 1 else f"{needs:,} needs"
    yield f"Cluster {told.cluster} has {of}, {whole:,} of which miss{'es' * (whole == 1)} nothing."
    if progress.machines:
        yield _progress_text(progress)
    if not told.heard:
        yield "It has not told its demand since the shard started: its machines are left alone."
    for verdict, count in told.needs.items():
        if isinstance(verdict, Unmet):
            of = "1 need is" if count == 1 else f"{count:,} needs are"
            yield f"{of} {verdict.value}: {REASONS.get(verdict.value, verdict.value)}."
    held = (f"{count:,} {state}" for state, count in told.machines.items())
    yield f"Its machines: {', '.join(held) or 'none'}."
    if told.actions:
        planned = (f"{count:,} {kind}" for kind, count in told.actions.items())
        yield f"The plan for it: {', '.join(planned)}."
    quota = told.quota
    if quota.held is None:
        yield f"It uses {quota.now:,} machines and may hold any number."
    else:
        yield f"It uses {quota.now:,} of {quota.held:,} machines that it may hold."


def _progress_text(progress: Progress) -> str:
    """What a cluster has by now of the machines that are meant for it."""
    of = "1 machine" if progress.machines == 1 else f"{progress.machines:,} machines"
    parts = [f"{progress.serving:,} serving", f"{progress.coming:,} coming"]
    if progress.held_back:
        parts.append(f"{progress.held_back:,} held back ({', '.join(progress.held_by)})")
    return f"Of {of} for what it asks: {', '.join(parts)}."
