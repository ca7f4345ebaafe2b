"""Moving machines between shards: a table of steps, each one change in the store.

The donor lets go first and says what; only then is the recipient told to take it. Between the two
the machine is granted and nobody's, so no crash at any point makes it two shards' or loses it: an
instruction stays until it is acknowledged, and is done at most once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from mainstay.coordinator import keys, quotas
from mainstay.coordinator.fleet import Begin, Draft, Fleet, batched, in_chunks
from mainstay.coordinator.records import (
    NOBODY,
    SETTLED,
    DomainState,
    MoveRecord,
    MoveState,
    StrayRecord,
    StrayState,
)
from mainstay.coordinator.store import Change
from mainstay.coordinator.tiers import Tier
from mainstay.model.coordination import (
    Domain,
    Handed,
    QuotaMoved,
    QuotaOf,
    Stray,
    TransferOwnership,
)
from mainstay.model.errors import IllegalTransition
from mainstay.model.ids import MachineId, ShardId


class Event(StrEnum):
    """What happens to a move."""

    GAVE = "gave"
    """The donor has let go of machines."""

    GAVE_NONE = "gave_none"
    """The donor has nothing to give, or refused."""

    CALLED_OFF = "called_off"
    """It was cancelled, or the recipient was removed before anything was given."""

    TOOK = "took"
    """Whoever was told to take the machines has them."""

    TURNED_DOWN = "turned_down"
    """The recipient refused or was removed; the donor can take them back."""

    ADRIFT = "adrift"
    """Neither of them can take the machines."""

    DONOR_REMOVED = "donor_removed"


class Effect(StrEnum):
    """What a step does with the strays of a move, in the same change."""

    NOTHING = "nothing"
    TO_RECIPIENT = "to_recipient"
    """Granted to the recipient, which is told to take them."""

    TO_DONOR = "to_donor"
    """Granted to the donor, which is told to take them back."""

    HOLD = "hold"
    """Held by the shard that took them."""

    LEAVE = "leave"
    """Left with the shard that did not take them: its next report, or its removal, lets go. Parked
    where they would only be offered to it again.
    """


class Step(NamedTuple):
    """What follows."""

    state: MoveState
    effect: Effect = Effect.NOTHING


S = MoveState
E = Event

# fmt: off
TABLE: Final[Mapping[tuple[MoveState, Event], Step]] = {
    (S.ASKED,     E.GAVE):          Step(S.GIVEN, Effect.TO_RECIPIENT),
    (S.ASKED,     E.GAVE_NONE):     Step(S.REFUSED),
    (S.ASKED,     E.CALLED_OFF):    Step(S.WITHDRAWN),  # the donor may have given already
    (S.ASKED,     E.DONOR_REMOVED): Step(S.LOST),
    (S.WITHDRAWN, E.GAVE):          Step(S.RETURNING, Effect.TO_DONOR),
    (S.WITHDRAWN, E.GAVE_NONE):     Step(S.REFUSED),
    (S.WITHDRAWN, E.DONOR_REMOVED): Step(S.LOST),
    (S.GIVEN,     E.TOOK):          Step(S.DONE, Effect.HOLD),
    (S.GIVEN,     E.TURNED_DOWN):   Step(S.RETURNING, Effect.TO_DONOR),
    (S.GIVEN,     E.ADRIFT):        Step(S.LOST, Effect.LEAVE),
    (S.RETURNING, E.TOOK):          Step(S.RETURNED, Effect.HOLD),
    (S.RETURNING, E.ADRIFT):        Step(S.LOST, Effect.LEAVE),
}
# fmt: on


def advance(state: MoveState, event: Event) -> Step:
    """What follows an event. IllegalTransition where the table has no row."""
    step = TABLE.get((state, event))
    if step is None:
        raise IllegalTransition(f"a move that is {state} does not know the event: {event}")
    return step


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An event, and what is known with it."""

    event: Event
    now_ns: int
    answers: str = ""
    """The key of the instruction that is done with by this; empty when it is none."""

    given: tuple[Handed, ...] = ()
    """What the donor has let go of."""

    listed: Mapping[MachineId, Stray] = field(default_factory=dict)
    """The strays that the shard has which took machines, as it says in the same report."""

    quota: tuple[QuotaMoved, ...] = ()
    """What goes with what is given; of what is turned down, what went with it."""

    still_held: Mapping[QuotaOf, int] = field(default_factory=dict)
    """What the donor holds of quotas, as it says in the same report."""


def carry(begin: Begin, name: str, happening: Happening) -> Iterator[Change]:
    """Carry a move on: its strays, its next instruction and itself.

    Each change is to be made before the next is asked for. Until the last one the instruction
    stays, so that what was begun is finished when its answer is repeated.
    """
    before = begin().fleet.moves[name]
    step = advance(before.state, happening.event)
    after = replace(
        before,
        state=step.state,
        machines=happening.given or before.machines,
        settled_at_ns=happening.now_ns if step.state in SETTLED else 0,
    )
    editing = _Editing(name, after, happening)

    def finish(draft: Draft) -> None:
        if happening.answers:
            draft.delete(happening.answers)
        draft.put(keys.move(name), after)
        if step.effect in _GRANTS:
            to = taker(after)
            giver = before.recipient if before.state is MoveState.GIVEN else before.donor
            quota = quotas.hand_over(
                draft, happening.quota, giver=giver, to=to, still_held=happening.still_held
            )
            draft.instruct(to, _take(after), move=name, quota=quota, now_ns=happening.now_ns)
        if step.effect is Effect.LEAVE:
            quotas.leave_waiting(
                draft, after.machines, giver=taker(before), moved=happening.quota,
                still_held=happening.still_held,
            )  # fmt: skip

    edit = _EDITS[step.effect]
    strays = after.machines if step.effect is not Effect.NOTHING else ()
    yield from in_chunks(begin, strays, lambda draft, one: edit(editing, draft, one), finish)


def give(begin: Begin, name: str, said: Happening) -> Iterator[Change]:
    """Take in what a donor says that it has let go of; none when it had nothing, or refused.

    The quota of what was no longer its own to give is for the shard that has it by then.
    """
    fleet = begin().fleet
    donor = fleet.moves[name].donor
    ours = tuple(handed for handed in said.given if may_give(fleet, donor, handed, move=name))
    if others := [each for each in said.given if each not in ours]:
        draft = begin()
        quotas.leave_waiting(draft, others, giver=donor, still_held=said.still_held)
        yield draft.change()
    event = Event.GAVE if ours else Event.GAVE_NONE
    yield from carry(begin, name, replace(said, event=event, given=ours))


def may_give(fleet: Fleet, donor: ShardId, handed: Handed, *, move: str) -> bool:
    """Whether a machine was still the donor's to give.

    It was not when its domain had gone to another shard before the donor's word came: that shard
    has it then, for it was never told that the machine is away.
    """
    record = fleet.strays.get(handed.machine)
    if record is not None and record.state is not StrayState.PARKED:
        return record.move == move or (record.shard, record.state) == (donor, StrayState.HELD)
    owner = owner_of(fleet, handed.domain)
    return owner == donor or (owner is None and fleet.shards[donor].takes_all)


def turned_down(fleet: Fleet, move: MoveRecord) -> Event:
    """What it means for a move that whoever was told to take its machines will not."""
    way_back = move.state is MoveState.GIVEN and move.tier is not Tier.RETURN
    return Event.TURNED_DOWN if way_back and is_there(fleet, move.donor) else Event.ADRIFT


def release(
    begin: Begin,
    machines: Sequence[MachineId],
    *,
    by: ShardId,
    now_ns: int,
    still_held: Mapping[QuotaOf, int],
) -> Iterator[Change]:
    """Offer strays that a shard has no longer to the owners of their domains, with the quota that
    it holds less: it lowers that before it lets go. `still_held` is what it holds of quotas.

    Nobody is told of one whose domain is leaving or has no owner: whoever gets the domain next has
    it, since it is no stray by then. While its owner may keep the domain after all it is parked.
    """
    fleet = begin().fleet
    heirs: dict[ShardId | None, list[Handed]] = {}
    for machine in machines:
        record = fleet.strays[machine]
        handed = Handed(machine, record.provider, record.domain)
        heirs.setdefault(heir(fleet, record), []).append(handed)
    for to in sorted(heirs, key=lambda shard: shard or NOBODY):
        for few in batched(heirs[to]):
            draft = begin()
            if to is None:
                _forget(draft, few, by=by, still_held=still_held)
            else:
                offer(draft, few, by=Giver(by, still_held), to=to, now_ns=now_ns)
            yield draft.change()


def owner_of(fleet: Fleet, domain: Domain | None) -> ShardId | None:
    """Who owns a domain, while it arrives and leaves too."""
    record = fleet.domains.get(domain) if domain is not None else None
    return record.shard if record is not None else None


def is_there(fleet: Fleet, shard: ShardId) -> bool:
    """Whether a shard can be told anything."""
    record = fleet.shards.get(shard)
    return record is not None and not record.removing


def is_asked(move: MoveRecord) -> bool:
    """Whether it waits for its donor to say what it gives."""
    return move.state in {MoveState.ASKED, MoveState.WITHDRAWN}


def taker(move: MoveRecord) -> ShardId:
    """Who is told to take the machines of a move that is given or returning."""
    return move.donor if move.state is MoveState.RETURNING else move.recipient


class Giver(NamedTuple):
    """Who has let go of machines, and what it still holds of quotas."""

    shard: ShardId
    still_held: Mapping[QuotaOf, int] = MappingProxyType({})


class _Editing(NamedTuple):
    """What is known when the strays of a move are written."""

    name: str
    after: MoveRecord
    happening: Happening


def _grant(of: _Editing, draft: Draft, handed: Handed) -> None:
    before = draft.stray(handed.machine)
    home = before.home if before is not None else of.after.donor
    record = StrayRecord(
        shard=taker(of.after),
        provider=handed.provider,
        domain=handed.domain,
        state=StrayState.GRANTED,
        home=home,
        move=of.name,
    )
    draft.put(keys.stray(handed.machine), record)


def _hold(of: _Editing, draft: Draft, handed: Handed) -> None:
    """Whether it is a stray is for the shard to say: it may lie in its domains by now. What it
    should have and does not list, its next report lets go of.
    """
    before = draft.stray(handed.machine)
    if before is None or before.move != of.name:
        return
    listed = of.happening.listed.get(handed.machine)
    if listed is None and _is_at_home(draft.fleet, before):
        draft.delete(keys.stray(handed.machine))
        return
    leaving = listed is not None and listed.leaving
    held = replace(before, state=StrayState.HELD, leaving=leaving, move="")
    draft.put(keys.stray(handed.machine), held)


def _leave(of: _Editing, draft: Draft, handed: Handed) -> None:
    before = draft.stray(handed.machine)
    if before is not None and before.move == of.name:
        again = of.after.tier is Tier.RETURN and heir(draft.fleet, before) == before.shard
        state = StrayState.PARKED if again else StrayState.HELD
        draft.put(keys.stray(handed.machine), replace(before, state=state, move=""))


_Edit: TypeAlias = Callable[[_Editing, Draft, Handed], None]

_EDITS: Final[Mapping[Effect, _Edit]] = {
    Effect.NOTHING: lambda *_: None,
    Effect.TO_RECIPIENT: _grant,
    Effect.TO_DONOR: _grant,
    Effect.HOLD: _hold,
    Effect.LEAVE: _leave,
}

_GRANTS: Final = frozenset({Effect.TO_RECIPIENT, Effect.TO_DONOR})


def _is_at_home(fleet: Fleet, record: StrayRecord) -> bool:
    owner = owner_of(fleet, record.domain)
    return owner == record.shard or (owner is None and fleet.shards[record.shard].takes_all)


def _take(move: MoveRecord) -> TransferOwnership:
    to = taker(move)
    giver = move.recipient if to == move.donor else move.donor
    return TransferOwnership(from_shard=giver, to_shard=to, machines=move.machines)


def heir(fleet: Fleet, record: StrayRecord) -> ShardId | None:
    """Who gets a machine that its shard lets go of."""
    owner = fleet.domains.get(record.domain) if record.domain is not None else None
    if owner is None:
        return record.home if is_there(fleet, record.home) else None
    leaving = owner.state is DomainState.LEAVING
    return None if leaving or not is_there(fleet, owner.shard) else owner.shard


def _forget(
    draft: Draft, few: Sequence[Handed], *, by: ShardId, still_held: Mapping[QuotaOf, int]
) -> None:
    fleet = draft.fleet
    for handed in few:
        key = keys.stray(handed.machine)
        record, owner = fleet.strays[handed.machine], owner_of(fleet, handed.domain)
        if owner is None or owner == by or not is_there(fleet, owner):
            draft.delete(key)
        else:
            parked = replace(record, shard=owner, state=StrayState.PARKED, leaving=False, move="")
            draft.put(key, parked)
    quotas.leave_waiting(draft, few, giver=by, still_held=still_held)


def offer(
    draft: Draft,
    few: Sequence[Handed],
    *,
    by: Giver,
    to: ShardId,
    now_ns: int,
    why: str = "",
) -> None:
    """Tell a shard to take what nobody has: a move that starts where the machines are given."""
    name = f"return-{to}-{draft.next_sequence(to)}-{now_ns:x}"
    move = MoveRecord(
        donor=by.shard,
        recipient=to,
        tier=Tier.RETURN,
        state=MoveState.GIVEN,
        machines=tuple(few),
        created_at_ns=now_ns,
        why=why or f"{by.shard} has let go of them",
    )
    editing = _Editing(name, move, Happening(event=Event.GAVE, now_ns=now_ns))
    for handed in few:
        _grant(editing, draft, handed)
    draft.put(keys.move(name), move)
    quota = quotas.follow(draft, few, giver=by.shard, to=to, still_held=by.still_held)
    draft.instruct(to, _take(move), move=name, quota=quota, now_ns=now_ns)
