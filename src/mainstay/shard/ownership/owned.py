"""Which machines are this shard's to have: one value, kept in one file, replaced whole. Pure.

Those of its domains, except the ones that other shards have (`away`), and the ones that it has
elsewhere (`here`). A shard that was never assigned a domain takes everything. One that has lost its
last domain takes nothing more: it must not widen by itself.

What became of an instruction is part of the value: its effect and its answer are one write, so an
instruction that is heard twice is answered twice and done once.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from mainstay.model.batch import Shape
from mainstay.model.coordination import (
    Domain,
    Handed,
    InstructAck,
    Outcome,
    QuotaMoved,
    Stray,
)
from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId, ShardId
from mainstay.model.profile import Profile

DONE_MAX: Final = 512
"""So many instructions are remembered with what became of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of one instruction."""

    instruction: str
    outcome: Outcome
    reason: str = ""
    given: tuple[Handed, ...] = ()
    quota: tuple[QuotaMoved, ...] = ()

    @property
    def ack(self) -> InstructAck:
        """The answer, however often it is asked for."""
        return InstructAck(
            instruction=self.instruction,
            outcome=self.outcome,
            reason=self.reason,
            given=self.given,
            quota=self.quota,
        )


class Victim(NamedTuple):
    """A machine that is drained for another shard."""

    handed: Handed
    grace_s: int
    """How long its workloads have to leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Machines that are drained for another shard and given to it once they are Idle."""

    instruction: str
    to: ShardId
    victims: tuple[Victim, ...]
    priority: int
    """Of the need they are drained for: their clusters are told."""

    until_s: float
    """Whatever is not Idle by then stays; of `Clock.now_s`, since it outlives a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """What a shard has to itself."""

    domains: frozenset[Domain] | None = None
    """None: everything."""

    assigned: bool = False
    """Whether somebody has assigned or taken away a domain; before, the configuration counts."""

    here: Mapping[MachineId, Stray] = field(default_factory=dict)
    """What it has outside its domains."""

    away: Mapping[MachineId, Domain | None] = field(default_factory=dict)
    """What others have inside them, and where that lies; None where nobody said."""

    away_providers: Mapping[MachineId, str] = field(default_factory=dict)
    """Who reports what is away, where that is known."""

    term: int = 0
    """The highest term of a coordinator that it has heard."""

    done: tuple[Done, ...] = ()
    """The last DONE_MAX instructions, the newest last."""

    promises: tuple[Promise, ...] = ()

    configured: frozenset[Domain] | None = None
    """The domains that the configuration named, until one was assigned; None: everything, or nobody
    knows.
    """

    retiring: frozenset[Domain] = frozenset()
    """Those of them that it no longer names: ours until it is known what serves there."""

    keys: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The label keys of its domains; a fleet has one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", keys_of(self.domains))
        for name in ("here", "away", "away_providers"):
            value = getattr(self, name)
            if not isinstance(value, MappingProxyType):
                object.__setattr__(self, name, MappingProxyType(dict(value)))

    def admits(self, shape: Shape) -> bool:
        """Whether machines of this shape lie in one of its domains."""
        return self.holds(shape.profile)

    def holds(self, profile: Profile) -> bool:
        """Whether a machine like this lies in one of its domains."""
        return self.domains is None or lies_in(self.domains, self.keys, profile)

    def has(self, machine: MachineId, profile: Profile) -> bool:
        """Whether a machine is its own to have."""
        return machine in self.here or (machine not in self.away and self.holds(profile))

    def domain_of(self, machine: MachineId, profile: Profile) -> Domain | None:
        """Where a machine lies: as it was told, else by the key of our domains."""
        if machine in self.here:
            return self.here[machine].domain
        return domain_by(self.keys, profile, prefer=self.domains or frozenset())

    def answer_to(self, instruction: str) -> Done | None:
        """What became of an instruction; None for one that is not remembered."""
        return next((each for each in self.done if each.instruction == instruction), None)

    def promise_of(self, instruction: str) -> Promise | None:
        """What was promised for an instruction."""
        return next((each for each in self.promises if each.instruction == instruction), None)


def keys_of(domains: Iterable[Domain] | None) -> tuple[str, ...]:
    """The label keys of domains."""
    return tuple(sorted({domain.key for domain in domains or ()}))


def lies_in(domains: Collection[Domain], keys: Iterable[str], profile: Profile) -> bool:
    """Whether a machine like this lies in one of many domains, of which these are the keys."""
    return any((key, profile.attribute(key)) in domains for key in keys)


def checked(domain: tuple[str, str]) -> Domain:
    """A domain with both its halves; Rejected otherwise."""
    key, value = domain
    if not key or not value:
        raise Rejected(f"a domain needs a key and a value, as in zone=a: {key!r}={value!r}")
    return Domain(key, value)


def domain_by(
    keys: Iterable[str], profile: Profile, *, prefer: Collection[Domain] = ()
) -> Domain | None:
    """Where a machine lies by one of these keys, a preferred domain first."""
    found = [Domain(key, value) for key in keys if (value := profile.attribute(key))]
    return next((each for each in found if each in prefer), found[0] if found else None)


def configured(
    owned: Owned, labels: Collection[tuple[str, str]] | None, *, keeps: bool = False
) -> Owned:
    """What is owned at a start: before anything was assigned, what the configuration says. None
    is everything, and no label nothing.

    `keeps`: what the configuration named in the last life and does not name now is ours until it is
    known what serves there.
    """
    if owned.assigned:
        return owned
    domains = None if labels is None else frozenset(map(checked, labels))
    if domains is None or owned.configured is None or not keeps:
        return dataclasses.replace(owned, domains=domains, configured=domains, retiring=frozenset())
    both = domains | owned.configured
    return dataclasses.replace(owned, domains=both, configured=both, retiring=both - domains)


def assigned(
    owned: Owned,
    domain: Domain,
    *,
    away: Iterable[MachineId] = (),
    kept: Iterable[Stray] = (),
    inside: Collection[MachineId] = (),
) -> Owned:
    """With one more domain, of which other shards have `away`; the first one narrows.

    `kept` are machines elsewhere that are not free, where everything was taken before. Strays that
    lie in the domain (`inside`, or by what is known of them) are none any more.
    """
    here = {
        name: stray
        for name, stray in owned.here.items()
        if stray.domain != domain and name not in inside
    }
    here |= {stray.machine: stray for stray in kept}
    there = _elsewhere(owned, domain) | dict.fromkeys(away, domain)
    return dataclasses.replace(
        owned,
        domains=(owned.domains or frozenset()) | {checked(domain)},
        assigned=True,
        here=here,
        away=there,
        away_providers=_among(owned.away_providers, there),
    )


def unassigned(owned: Owned, domain: Domain, *, kept: Iterable[Stray] = ()) -> Owned:
    """Without a domain; `kept` are its machines that are not free."""
    return dataclasses.replace(_without(owned, domain, kept), assigned=True)


def retired(owned: Owned, domain: Domain, *, kept: Iterable[Stray] = ()) -> Owned:
    """Without a domain that the configuration no longer names; it goes on to count."""
    return dataclasses.replace(
        _without(owned, domain, kept),
        configured=(owned.configured or frozenset()) - {domain},
        retiring=owned.retiring - {domain},
    )


def given(owned: Owned, machines: Iterable[Handed]) -> Owned:
    """Without these machines: another shard has them."""
    here, away, providers = dict(owned.here), dict(owned.away), dict(owned.away_providers)
    for machine, provider, domain in machines:
        stray = here.pop(machine, None)
        if stray is None or _lies_in(owned, domain):
            away[machine] = domain
            providers[machine] = provider
    return dataclasses.replace(owned, here=here, away=away, away_providers=providers)


def taken(owned: Owned, machines: Iterable[Handed]) -> Owned:
    """With these machines, wherever they lie."""
    here, away, providers = dict(owned.here), dict(owned.away), dict(owned.away_providers)
    for machine, provider, domain in machines:
        away.pop(machine, None)
        providers.pop(machine, None)
        if not _lies_in(owned, domain):
            here[machine] = Stray(machine, provider, domain, leaving=False)
    return dataclasses.replace(owned, here=here, away=away, away_providers=providers)


def dropped(owned: Owned, machines: Collection[MachineId]) -> Owned:
    """Without these strays: whoever owns their domain has them."""
    here = {name: stray for name, stray in owned.here.items() if name not in machines}
    return dataclasses.replace(owned, here=here)


def strayed(owned: Owned, machines: Iterable[Stray]) -> Owned:
    """With these as strays, where they lie by now."""
    return dataclasses.replace(
        owned, here={**owned.here, **{stray.machine: stray for stray in machines}}
    )


def finished(owned: Owned, done: Done) -> Owned:
    """With what became of an instruction; nothing is promised for it any more."""
    others = tuple(each for each in owned.done if each.instruction != done.instruction)
    kept = tuple(each for each in owned.promises if each.instruction != done.instruction)
    return dataclasses.replace(owned, done=(*others, done)[-DONE_MAX:], promises=kept)


def promised(owned: Owned, promise: Promise) -> Owned:
    """With machines that are drained for another shard."""
    others = tuple(each for each in owned.promises if each.instruction != promise.instruction)
    return dataclasses.replace(owned, promises=(*others, promise))


def unpromised(owned: Owned, instructions: Collection[str]) -> Owned:
    """Without what was promised for these: it stays."""
    kept = tuple(each for each in owned.promises if each.instruction not in instructions)
    return dataclasses.replace(owned, promises=kept)


def heard(owned: Owned, term: int) -> Owned:
    """Having heard a coordinator of this term."""
    return owned if term <= owned.term else dataclasses.replace(owned, term=term)


def _without(owned: Owned, domain: Domain, kept: Iterable[Stray]) -> Owned:
    """What is not free there is kept."""
    away = _elsewhere(owned, domain)
    return dataclasses.replace(
        owned,
        domains=(owned.domains or frozenset()) - {domain},
        here={**owned.here, **{stray.machine: stray for stray in kept}},
        away=away,
        away_providers=_among(owned.away_providers, away),
    )


def _elsewhere(owned: Owned, domain: Domain) -> dict[MachineId, Domain | None]:
    """What is away of other domains."""
    return {name: where for name, where in owned.away.items() if where != domain}


def _among(providers: Mapping[MachineId, str], away: Collection[MachineId]) -> dict[MachineId, str]:
    return {name: provider for name, provider in providers.items() if name in away}


def _lies_in(owned: Owned, domain: Domain | None) -> bool:
    """Whether a machine of this domain is ours without being named."""
    return owned.domains is None or (domain is not None and domain in owned.domains)
