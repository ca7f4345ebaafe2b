"""Domains that come and go. What serves stays until it is free; what is free goes at once."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from mainstay.model.batch import Shape
from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    Outcome,
    QuotaMoved,
    Stray,
    UnassignDomain,
)
from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId
from mainstay.shard.events import Event
from mainstay.shard.ownership.keeping import Keeping, OwnershipTools, Parted, is_in, lying
from mainstay.shard.ownership.owned import (
    Done,
    Owned,
    assigned,
    checked,
    finished,
    retired,
    unassigned,
)
from mainstay.shard.ownership.report import check_strays

PATIENCE_S: Final = 60.0
"""For so long a domain waits for actions there to end; what is in hand then stays a stray."""

FORGOTTEN_S: Final = 300.0
"""A domain of which nobody has asked so long is not about to be let go of any more."""

_Chosen = Callable[[Shape], bool]

_Left = Callable[[tuple[Stray, ...], tuple[QuotaMoved, ...]], Owned]
"""What is owned without a domain, with what is kept of it and the quota that goes."""


class Leaving:
    """Takes domains in, and lets go of them."""

    def __init__(self, tools: OwnershipTools, keeping: Keeping) -> None:
        self._tools = tools
        self._keeping = keeping
        self._began_s: dict[Domain, float] = {}
        self._asked_s: dict[Domain, float] = {}
        self._retiring_s: float | None = None

    @property
    def closing(self) -> Mapping[Domain, float]:
        """Domains that are about to be let go of, and since when."""
        return self._began_s

    async def assign(self, instruction: str, asked: AssignDomain) -> Done | None:
        """Take the machines of a domain in, except those that others have.

        None, where that narrows, until it is known what serves elsewhere.
        """
        owned, domain = self._keeping.owned, checked(asked.domain)
        if owned.domains is None and not self._tools.reconciler.heard.knows_all:
            return None
        self._forget(domain)
        self._tools.holdings.reopen([domain])
        if owned.domains is None:
            self._tools.holdings.narrow(domain)
        try:
            return await self._assign(instruction, domain, asked.away)
        except BaseException:
            self._tools.holdings.reopen()
            raise

    async def _assign(self, instruction: str, domain: Domain, away: tuple[MachineId, ...]) -> Done:
        tools, keeping, owned = self._tools, self._keeping, self._keeping.owned
        snapshot = tools.inventory.snapshot()
        going = [name for name in away if name in tools.inventory and name not in owned.here]
        if owned.domains is None:
            lies_in = is_in(domain)
            elsewhere = await tools.aside(lambda: lying(snapshot, _not(lies_in)))
            going += [name for name in elsewhere if name not in owned.here]
        parted = await keeping.part(dict.fromkeys(going), (domain.key,), uncounted=set(away))
        inside = {name for name in owned.here if self._lies_in(name, domain)}
        new = assigned(owned, domain, away=away, kept=parted.kept, inside=inside)
        self._check(new, parted)
        moved = await keeping.lower(parted.places, in_hand=parted.names)
        done = Done(instruction=instruction, outcome=Outcome.ACCEPTED, quota=moved)
        await keeping.keep(finished(new, done), in_hand=parted.names)
        keeping.tell(Event.MACHINE_STRAYED, [each.machine for each in parted.kept])
        await keeping.let_go(parted.names, "domain_assigned")
        tools.journal.noticed(
            Event.DOMAIN_ASSIGNED, reason=domain.key, domain=_shown(domain), away=len(away)
        )
        tools.wake()
        return done

    async def unassign(self, instruction: str, asked: UnassignDomain) -> Done | None:
        """Let go of a domain; None as long as actions there are under way, and after a start until
        it is known what serves there.
        """
        tools, owned, domain = self._tools, self._keeping.owned, checked(asked.domain)
        if owned.domains is None:
            raise Rejected(
                f"this shard takes every machine, not only those of {_shown(domain)}; "
                "assign it the domains that it keeps"
            )
        done = Done(instruction=instruction, outcome=Outcome.ACCEPTED)
        if domain not in owned.domains:
            await self._keeping.keep(finished(owned, done))
            return done
        now_s = tools.clock.elapsed_s()
        self._asked_s[domain] = now_s
        if domain not in self._began_s:
            self._began_s[domain] = now_s
            tools.holdings.close(domain)
        is_patient = now_s - self._began_s[domain] < PATIENCE_S
        if not tools.reconciler.heard.knows_all or (is_patient and self._is_busy(domain)):
            return None

        def left(kept: tuple[Stray, ...], moved: tuple[QuotaMoved, ...]) -> Owned:
            answer = dataclasses.replace(done, quota=moved)
            return finished(unassigned(owned, domain, kept=kept), answer)

        try:
            await self._leave(domain, left)
        except Rejected:
            self._forget(domain)
            tools.holdings.reopen([domain])
            raise
        return self._keeping.owned.answer_to(instruction)

    async def retire(self) -> None:
        """Let go of the domains that the configuration no longer names, once it is known what
        serves there. Where that is more than can be reported they stay.
        """
        tools, keeping = self._tools, self._keeping
        if not keeping.owned.retiring or not tools.reconciler.heard.knows_all:
            return
        now_s = tools.clock.elapsed_s()
        self._retiring_s = now_s if self._retiring_s is None else self._retiring_s
        for domain in sorted(keeping.owned.retiring):
            if self._is_busy(domain) and now_s - self._retiring_s < PATIENCE_S:
                continue
            owned = keeping.owned

            def left(
                kept: tuple[Stray, ...],
                _: tuple[QuotaMoved, ...],
                domain: Domain = domain,
                owned: Owned = owned,
            ) -> Owned:
                return retired(owned, domain, kept=kept)

            with contextlib.suppress(Rejected):
                await self._leave(domain, left)

    async def _leave(self, domain: Domain, left: _Left) -> None:
        tools, keeping, owned = self._tools, self._keeping, self._keeping.owned
        snapshot, rest = tools.inventory.snapshot(), left((), ())
        there = await tools.aside(lambda: lying(snapshot, _only_in(domain, rest)))
        parted = await keeping.part([each for each in there if each not in owned.here], rest.keys)
        kept = tuple(each._replace(domain=domain) for each in parted.kept)
        self._check(left(kept, ()), parted)
        moved = await keeping.lower(parted.places, in_hand=parted.names)
        await keeping.keep(left(kept, moved), in_hand=parted.names)
        self._forget(domain)
        keeping.tell(Event.MACHINE_STRAYED, [each.machine for each in kept])
        await keeping.let_go(parted.names, "domain_unassigned")
        tools.journal.noticed(
            Event.DOMAIN_UNASSIGNED, reason=domain.key, domain=_shown(domain), kept=len(kept)
        )
        tools.wake()

    def sweep(self) -> None:
        """Whoever wanted a domain to be let go of may have changed its mind."""
        now_s = self._tools.clock.elapsed_s()
        for domain, asked_s in list(self._asked_s.items()):
            if now_s - asked_s >= FORGOTTEN_S:
                self._forget(domain)
                self._tools.holdings.reopen([domain])

    def _check(self, new: Owned, parted: Parted) -> None:
        """Rejected, and nothing is in hand, where that leaves more than can be reported."""
        try:
            check_strays(new)
        except Rejected:
            self._keeping.put_back(parted.names)
            raise

    def _forget(self, domain: Domain) -> None:
        self._began_s.pop(domain, None)
        self._asked_s.pop(domain, None)

    def _is_busy(self, domain: Domain) -> bool:
        """Whether a machine there is in somebody's hands."""
        return any(self._lies_in(name, domain) for name in self._tools.ledger.held())

    def _lies_in(self, machine: MachineId, domain: Domain) -> bool:
        inventory = self._tools.inventory
        if machine not in inventory:
            return False
        return inventory.machine(machine).profile.attribute(domain.key) == domain.value


def _not(chosen: _Chosen) -> _Chosen:
    return lambda shape: not chosen(shape)


def _only_in(domain: Domain, left: Owned) -> _Chosen:
    """What lies in a domain and in none of those that are left."""
    inside = is_in(domain)
    return lambda shape: inside(shape) and not left.admits(shape)


def _shown(domain: Domain) -> str:
    return f"{domain.key}={domain.value}"
