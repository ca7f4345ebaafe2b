"""What must hold of a shard, its providers and its clusters, however often the shard is killed.

Pure: each law takes what was seen and answers in sentences, one for every way it is broken.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, Operator
from mainstay.model.profile import INSTANCE_TYPE_KEY
from mainstay.model.state import State
from mainstay.model.views import MachineRow

TOLD_MAX: Final = 5
"""So many machines are named by one law; the rest are counted."""


class Held(NamedTuple):
    """How a machine stands, and whose it is."""

    state: State
    cluster: str = ""


Book = Mapping[str, Held]
"""By machine, as somebody believes it to be."""


class Share(NamedTuple):
    """A part of all demand: what one cluster asks for of one type of machine."""

    cluster: str
    instance_type: str


def book_of(rows: Iterable[MachineRow]) -> dict[str, Held]:
    """What a shard believes, as a book."""
    return {row.id: Held(row.state, row.cluster) for row in rows}


def disagreements(provider: Book, shard: Book) -> list[str]:
    """Once all is quiet, a shard believes of every machine what its provider says.

    A Failed machine serves nobody. Whom it was meant for a shard remembers also where the provider
    refused to configure it, and has never heard of a cluster.
    """
    found = [
        f"machine {name} is {_told(provider.get(name))} at its provider "
        f"and {_told(shard.get(name))} for the shard"
        for name in sorted(provider.keys() | shard.keys())
        if _now(provider.get(name)) != _now(shard.get(name))
    ]
    return _first(found, "more machines that are told differently")


def owned_twice(provider: Book, clusters: Mapping[ClusterId, Collection[str]]) -> list[str]:
    """Once all is quiet, a machine serves one cluster, and that one alone believes it does."""
    owners: dict[str, list[str]] = defaultdict(list)
    for cluster in sorted(clusters):
        for name in clusters[cluster]:
            owners[name].append(cluster)
    serving = {name: held.cluster for name, held in provider.items() if _serves(held)}
    found = []
    for name in sorted(serving.keys() | owners.keys()):
        believers, owner = owners.get(name, []), serving.get(name, "")
        if believers != ([owner] if owner else []):
            told = ", ".join(believers) or "nobody"
            found.append(f"machine {name} serves {owner or 'nobody'} and is believed by {told}")
    return _first(found, "more machines with other owners")


def shared(clusters: Mapping[ClusterId, Collection[str]]) -> list[str]:
    """At any moment, no two clusters believe in one machine."""
    owner: dict[str, ClusterId] = {}
    found = []
    for cluster in sorted(clusters):
        for name in sorted(clusters[cluster]):
            other = owner.setdefault(name, cluster)
            if other != cluster:
                found.append(f"machine {name} is believed by {other} and by {cluster}")
    return _first(found, "more machines that two believe in")


def forgotten(before: Book, shard: Book, touched: Collection[str]) -> list[str]:
    """A shard that has just started takes whatever serves for what it is, by the echo alone.

    The book is of before the start, and `touched` is all that has changed at the providers since,
    losses included: what is not in it serves the same cluster all along, and the shard can only
    have begun to drain it.
    """
    found = [
        f"machine {name} serves {held.cluster} and the new shard takes it for {_taken_for(told)}"
        for name, held in sorted(before.items())
        if _serves(held) and name not in touched
        if (told := shard.get(name)) not in (held, Held(State.DRAINING, held.cluster))
    ]
    return _first(found, "more machines that were forgotten")


def unserved(unmet: int) -> list[str]:
    """Once all is quiet nothing is missing, for there are machines enough."""
    return [f"{unmet} needs are not met, and there are machines for them"] if unmet else []


def miscounted(asked: int, serving: int, same_need: int) -> list[str]:
    """Where every machine holds one unit and nothing is missing, all that is asked for is served,
    nothing else is, and each machine serves the need that its echo names.
    """
    found = []
    if serving != asked:
        found.append(f"{serving} machines serve, and {asked} are asked for")
    if same_need != serving:
        found.append(f"{serving - same_need} machines do not serve what their echo names")
    return found


def was_drained(before: Held | None, after: Held) -> bool:
    """Whether somebody drained a machine between two looks at it; a lost one has no second."""
    if after.state is State.DRAINING:
        return before is None or before.state is not State.DRAINING
    return before is not None and _serves(before) and after != before


def drained_without_cause(
    drains: Mapping[Share, int], causes: Mapping[Share, int], *, in_all: int
) -> list[str]:
    """A serving machine is taken from a cluster only when that one asks for less of its type: one
    for each unit at most.

    `in_all` is how many drains the providers have counted, seen or not.
    """
    found = [
        f"{count} machines of type {share.instance_type} were drained that served {share.cluster}, "
        f"and only {causes.get(share, 0)} units of that demand went away"
        for share, count in sorted(drains.items())
        if count > causes.get(share, 0)
    ]
    if in_all > (gone := sum(causes.values())):
        found.append(f"{in_all} serving machines were drained, and only {gone} units went away")
    return _first(found, "more parts of demand that lost machines")


def taken_away(drains: int, before: Book, after: Book) -> list[str]:
    """While nobody asks for less and nothing is lost, no serving machine is drained at all."""
    found = [
        f"machine {name} served {held.cluster} and is {_told(after.get(name))}: nobody asked for "
        "less"
        for name, held in sorted(before.items())
        if _serves(held) and after.get(name) != held
    ]
    if drains:
        found.insert(0, f"{drains} serving machines were drained while nobody asked for less")
    return _first(found, "more machines that were taken away")


def late(seconds: Sequence[float], limit_s: float) -> list[str]:
    """After a start a shard decides again within its time."""
    return [
        f"start {number} took {each:.1f} s to its first decision (at most {limit_s:g} s)"
        for number, each in enumerate(seconds)
        if each > limit_s
    ]


def withdrawn(before: Iterable[Need], after: Iterable[Need]) -> Counter[str]:
    """How many units of demand went away from one roll-up to the next, by type of machine."""
    now = {need.ref: units(need) for need in after}
    gone = Counter[str]()
    for need in before:
        gone[instance_type(need)] += max(0, units(need) - now.get(need.ref, 0))
    return +gone


def instance_type(need: Need) -> str:
    """The one type of machine that a need is for; empty where it takes several."""
    for each in need.profile.requirements:
        if (each.key, each.operator) == (INSTANCE_TYPE_KEY, Operator.IN) and len(each.values) == 1:
            return each.values[0]
    return ""


def units(need: Need) -> int:
    """How many smallest units a need asks for."""
    smallest = need.min_unit
    return max(
        (
            -(-amount // smallest[name])
            for name, amount in need.aggregate.items()
            if smallest.get(name)
        ),
        default=0,
    )


def _serves(held: Held) -> bool:
    return held.state is State.CONFIGURED


def _told(held: Held | None) -> str:
    if held is None:
        return "unknown"
    return f"{held.state} for {held.cluster}" if held.cluster else str(held.state)


def _taken_for(held: Held | None) -> str:
    if held is not None and _serves(held):
        return f"{held.cluster}'s"
    return f"one that is {_told(held)}"


def _first(found: list[str], rest: str) -> list[str]:
    more = len(found) - TOLD_MAX
    return found if more <= 0 else [*found[:TOLD_MAX], f"{more} {rest}"]


def _now(held: Held | None) -> Held | None:
    """How it stands, without what is over."""
    return Held(State.FAILED) if held is not None and held.state is State.FAILED else held
