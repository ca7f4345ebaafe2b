"""What must hold of a shard, its providers and its clusters, however often the shard is killed.

Pure: each law takes what was seen and answers in sentences, one for every way it is broken.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from mainstay.model.assignment import NeedRef
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.model.state import State

TOLD_MAX: Final = 5
"""So many machines are named by one law; the rest are counted."""


class Held(NamedTuple):
    """How a machine stands, and whose it is."""

    state: State
    cluster: str = ""


Book = Mapping[str, Held]
"""By machine, as somebody believes it to be."""


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


def forgotten(before: Book, shard: Book, after: Book) -> list[str]:
    """A shard that has just started takes whatever serves for what it is, by the echo alone.

    The provider's book is read before and after the shard's: a machine that has changed hands in
    between says nothing, and one that serves the same cluster all along has one owner.
    """
    found = [
        f"machine {name} serves {held.cluster} and the new shard takes it for {told.cluster}'s"
        for name, held in sorted(after.items())
        if _serves(held)
        and before.get(name) == held
        and (told := shard.get(name))
        and _serves(told)
        and told != held
    ]
    return _first(found, "more machines that were forgotten")


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


def drained_without_cause(drains: int, causes: int) -> list[str]:
    """A serving machine is taken away only when less is asked for: one for each unit at most."""
    if drains <= causes:
        return []
    return [f"{drains} serving machines were drained, and only {causes} units of demand went away"]


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


def withdrawn(before: Iterable[Need], after: Iterable[Need]) -> int:
    """How many units of demand went away from one roll-up to the next."""
    now = {need.ref: units(need) for need in after}
    then: dict[NeedRef, int] = {need.ref: units(need) for need in before}
    return sum(max(0, count - now.get(ref, 0)) for ref, count in then.items())


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


def _first(found: list[str], rest: str) -> list[str]:
    more = len(found) - TOLD_MAX
    return found if more <= 0 else [*found[:TOLD_MAX], f"{more} {rest}"]


def _now(held: Held | None) -> Held | None:
    """How it stands, without what is over."""
    return Held(State.FAILED) if held is not None and held.state is State.FAILED else held
