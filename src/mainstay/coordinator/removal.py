"""Forgetting a shard that is gone for good.

It is marked first and deleted last; in between everything that names it is undone, in changes that
are each safe on their own. A new leader goes on where the old one stopped: it asks again for every
shard that is marked. Only for a shard that no longer runs: what it has, others get.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from mainstay.coordinator import commands, handover, keys, quotas
from mainstay.coordinator.fleet import Draft, Fleet, batched
from mainstay.coordinator.handover import TABLE, Event, Happening
from mainstay.coordinator.records import NOBODY, DomainState, MoveRecord, MoveState
from mainstay.coordinator.store import Change
from mainstay.model.coordination import Domain, QuotaMoved
from mainstay.model.errors import Rejected, Unknown
from mainstay.model.ids import ShardId

ALIVE_INTERVALS: Final = 3
"""A shard that has reported since so many report intervals runs."""


def remove_shard(fleet: Fleet, shard: ShardId, now_ns: int) -> Iterator[Change]:
    """Forget a shard. Each change is to be made before the next is asked for."""
    if shard not in fleet.shards:
        raise Unknown(f"there is no shard of this name: {shard}")
    if not fleet.shards[shard].removing:
        if _has_nothing(fleet, shard):
            yield from _quotas(fleet, shard, waits=False)
        draft = Draft(fleet)
        draft.put(keys.shard(shard), replace(fleet.shards[shard], removing=True))
        yield draft.change()
    yield from _domains(fleet, shard, now_ns)
    yield from _delete([keys.cluster(name) for name in sorted(fleet.clusters_of(shard))], fleet)
    yield from _moves(fleet, shard, now_ns)
    strays = sorted(fleet.strays_of(shard))
    yield from handover.release(
        lambda: Draft(fleet), strays, by=shard, now_ns=now_ns, still_held={}
    )
    yield from _quotas(fleet, shard, waits=True)
    told = [keys.instruction(shard, sequence) for sequence, _ in fleet.pending(shard)]
    yield from _delete(told, fleet)
    yield from _delete([keys.shard(shard)], fleet)


def check_gone(shard: ShardId, *, heard_at_ns: int, now_ns: int, interval_ns: int) -> None:
    """Refuse to forget a shard that reports: it would go on with what others get. A person who
    knows better may force it.
    """
    if now_ns - heard_at_ns < ALIVE_INTERVALS * interval_ns:
        ago_s = max(now_ns - heard_at_ns, 0) / 1e9
        raise Rejected(
            f"{shard} reported {ago_s:.0f} s ago: stop it first and wait until it has been silent"
            f" for {ALIVE_INTERVALS} report intervals, or force its removal"
        )


def removing(fleet: Fleet) -> list[ShardId]:
    """Shards whose removal is not finished."""
    return sorted(name for name, record in fleet.shards.items() if record.removing)


def _domains(fleet: Fleet, shard: ShardId, now_ns: int) -> Iterator[Change]:
    """One that was leaving goes where it was to go: nobody can be asked to let go of it."""
    for few in batched(sorted(fleet.domains_of(shard))):
        for domain in few:
            if _heir(fleet, domain) is not None:
                draft = Draft(fleet)
                commands.assign(draft, domain, fleet.domains[domain].to, now_ns)
                yield draft.change()
        left = [domain for domain in few if fleet.domains[domain].shard == shard]
        yield from _delete([keys.domain(domain) for domain in left], fleet)
    bound = sorted(domain for domain, record in fleet.domains.items() if record.to == shard)
    for few in batched(bound):
        draft = Draft(fleet)
        for domain in few:
            draft.put(keys.domain(domain), replace(fleet.domains[domain], to=NOBODY))
        yield draft.change()


def _heir(fleet: Fleet, domain: Domain) -> ShardId | None:
    record = fleet.domains[domain]
    leaves = record.state is DomainState.LEAVING and handover.is_there(fleet, record.to)
    return record.to if leaves else None


def _moves(fleet: Fleet, shard: ShardId, now_ns: int) -> Iterator[Change]:
    for name in sorted(fleet.open_moves):
        move = fleet.moves[name]
        event = _event(fleet, shard, move)
        if event is not None and (move.state, event) in TABLE:
            told, quota = _pending(fleet, shard, name)
            happening = Happening(event=event, now_ns=now_ns, answers=told, quota=quota)
            yield from handover.carry(lambda: Draft(fleet), name, happening)


def _event(fleet: Fleet, shard: ShardId, move: MoveRecord) -> Event | None:
    """What the removal is to a move; nothing to one that its shard has done its part of."""
    if move.state in {MoveState.ASKED, MoveState.WITHDRAWN}:
        if move.donor == shard:
            return Event.DONOR_REMOVED
        return Event.CALLED_OFF if move.recipient == shard else None
    return handover.turned_down(fleet, move) if handover.taker(move) == shard else None


def _pending(fleet: Fleet, shard: ShardId, move: str) -> tuple[str, tuple[QuotaMoved, ...]]:
    """The key of the removed shard's own instruction for a move and the quota that goes with it;
    empty when it has none.
    """
    for sequence, record in fleet.pending(shard):
        if record.move == move:
            return keys.instruction(shard, sequence), record.quota
    return "", ()


def _has_nothing(fleet: Fleet, shard: ShardId) -> bool:
    """Whether it has no machine for certain."""
    return not (
        fleet.shards[shard].takes_all
        or fleet.domains_of(shard)
        or fleet.strays_of(shard)
        or fleet.pending(shard)
    )


def _quotas(fleet: Fleet, shard: ShardId, *, waits: bool) -> Iterator[Change]:
    """What one without machines held is free again. What another one held waits for whoever gets
    its machines.
    """
    held = sorted(of for of, record in fleet.quotas.items() if shard in record.granted)
    for few in batched(held):
        draft = Draft(fleet)
        for of in few:
            quotas.leave(draft, of, shard, waits=waits)
        yield draft.change()


def _delete(old: Sequence[str], fleet: Fleet) -> Iterator[Change]:
    for few in batched(old):
        draft = Draft(fleet)
        for key in few:
            draft.delete(key)
        yield draft.change()
