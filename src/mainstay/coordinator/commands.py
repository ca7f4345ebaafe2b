"""What people and the planner may do, each a pure function from the fleet to one change.

An empty change: it is so already. What is refused changes nothing.
"""

from dataclasses import replace
from typing import Final

from mainstay.coordinator import handover, keys, quotas
from mainstay.coordinator.fleet import Draft, Fleet
from mainstay.coordinator.handover import Event
from mainstay.coordinator.rebalance import Proposal
from mainstay.coordinator.records import (
    NOBODY,
    SETTLED,
    DomainRecord,
    DomainState,
    MoveRecord,
    MoveState,
    QuotaRecord,
    ShardRecord,
)
from mainstay.coordinator.store import OPERATIONS_MAX, Change
from mainstay.coordinator.tiers import Tier
from mainstay.model.coordination import (
    AssignDomain,
    CrossShardDrain,
    Domain,
    Payload,
    QuotaKind,
    QuotaOf,
    ReassignSpeculative,
    TransferOwnership,
    UnassignDomain,
)
from mainstay.model.errors import Rejected, Taken, Unknown
from mainstay.model.ids import ClusterId, ShardId

NOTHING: Final = Change()

ENTITLED_MAX: Final = 2**31 - 1


def assign_domain(fleet: Fleet, domain: Domain, shard: ShardId, now_ns: int) -> Change:
    """Give a domain that nobody owns to a shard. Taken: another shard owns it."""
    _check_domain(fleet, domain)
    _check_fit(fleet, shard)
    owner = fleet.domains.get(domain)
    record = fleet.shards[shard]
    if owner is None and record.hands_over and not record.providers:
        raise Rejected(
            f"{shard} reports no provider, so it would see no machine of {_shown(domain)}:"
            " give it one first"
        )
    if owner is not None:
        if shard == owner.shard and owner.state is not DomainState.LEAVING:
            return NOTHING
        if shard == owner.to:
            return NOTHING
        raise Taken(f"{_shown(domain)} is {owner.state} by {_whom(owner)}: move it instead")
    draft = Draft(fleet)
    assign(draft, domain, shard, now_ns)
    return draft.change()


def unassign_domain(fleet: Fleet, domain: Domain, now_ns: int) -> Change:
    """Take a domain from its owner, for nobody."""
    owner = fleet.domains.get(domain)
    if owner is None:
        return NOTHING
    return _leave(fleet, domain, owner, to=NOBODY, now_ns=now_ns)


def move_domain(fleet: Fleet, domain: Domain, to: ShardId, now_ns: int) -> Change:
    """Take a domain from its owner and give it to another shard, once the owner has let go."""
    owner = fleet.domains.get(domain)
    if owner is None:
        raise Unknown(f"nobody owns {_shown(domain)}: assign it")
    _check_fit(fleet, to)
    if owner.shard == to and owner.state is not DomainState.LEAVING:
        return NOTHING
    _check_providers(fleet, domain, owner.shard, to)
    return _leave(fleet, domain, owner, to=to, now_ns=now_ns)


def assign(draft: Draft, domain: Domain, shard: ShardId, now_ns: int) -> None:
    """Tell a shard to take a domain. Which machines are away it hears with the instruction; what
    of quotas waits with the domain is its own.
    """
    draft.put(keys.domain(domain), DomainRecord(shard=shard, state=DomainState.ARRIVING))
    quota = quotas.come_with(draft, domain, shard)
    draft.instruct(shard, AssignDomain(domain=domain), quota=quota, now_ns=now_ns)


def held(shard: ShardId) -> DomainRecord:
    """A domain that a shard has."""
    return DomainRecord(shard=shard, state=DomainState.HELD)


def set_quota(fleet: Fleet, of: QuotaOf, entitled: int, *, forget_waiting: bool = False) -> Change:
    """Say how much all shards together may hold. `forget_waiting`: and what waits for machines that
    nobody has is free, since there are none.
    """
    if not of.name or (of.kind is QuotaKind.CLUSTER and of.region):
        raise Rejected(f"not a quota: {of.kind} {of.name!r} {of.region!r}")
    if not 0 <= entitled <= ENTITLED_MAX:
        raise Rejected(f"an entitlement must be from 0 to {ENTITLED_MAX}: {entitled}")
    standing = fleet.quotas.get(of)
    after = replace(standing or QuotaRecord(entitled=entitled), entitled=entitled)
    if forget_waiting:
        after = replace(after, waiting={})
    if after == standing:
        return NOTHING
    draft = Draft(fleet)
    draft.put(keys.quota(of), after)
    return draft.change()


def clear_quota(fleet: Fleet, of: QuotaOf) -> Change:
    """Limit it no longer."""
    if of not in fleet.quotas:
        return NOTHING
    draft = Draft(fleet)
    draft.delete(keys.quota(of))
    return draft.change()


def unbind_cluster(fleet: Fleet, cluster: ClusterId) -> Change:
    """Let the next shard that reports it have it."""
    if cluster not in fleet.clusters:
        raise Unknown(f"no shard has reported this cluster: {cluster}")
    draft = Draft(fleet)
    draft.delete(keys.cluster(cluster))
    return draft.change()


def begin_move(fleet: Fleet, proposal: Proposal, move_id: str, now_ns: int) -> Change:
    """Ask a donor for machines."""
    if move_id in fleet.moves:
        raise Taken(f"there is a move of this name: {move_id}")
    for shard in (proposal.donor, proposal.recipient):
        known(fleet, shard)
    if proposal.donor == proposal.recipient:
        raise Rejected(f"a shard gives nothing to itself: {proposal.donor}")
    for shard in (proposal.donor, proposal.recipient):
        if fleet.shards[shard].takes_all:
            raise Rejected(f"{shard} takes every machine: assign a domain to it first")
    draft = Draft(fleet)
    move = MoveRecord(
        donor=proposal.donor,
        recipient=proposal.recipient,
        tier=proposal.tier,
        state=MoveState.ASKED,
        wanted=proposal.wanted,
        created_at_ns=now_ns,
        why=proposal.why,
        fingerprint=proposal.fingerprint,
        instance_types=proposal.instance_types,
    )
    draft.put(keys.move(move_id), move)
    draft.instruct(proposal.donor, _ask(proposal), move=move_id, now_ns=now_ns)
    return draft.change()


def cancel_move(fleet: Fleet, move_id: str) -> Change:
    """Call off a move. What its donor gives nevertheless goes back to it."""
    move = fleet.moves.get(move_id)
    if move is None:
        raise Unknown(f"there is no move of this name: {move_id}")
    if move.state is MoveState.WITHDRAWN:
        return NOTHING
    if (move.state, Event.CALLED_OFF) not in handover.TABLE:
        raise Rejected(f"too late to call off a move that is {move.state}: {move_id}")
    draft = Draft(fleet)
    step = handover.advance(move.state, Event.CALLED_OFF)
    draft.put(keys.move(move_id), replace(move, state=step.state))
    return draft.change()


def raise_term_base(fleet: Fleet, base: int) -> Change:
    """See to it that terms are greater than any that a shard has heard."""
    if base <= fleet.meta.term_base:
        return NOTHING
    draft = Draft(fleet)
    draft.put(keys.META, replace(fleet.meta, term_base=base))
    return draft.change()


def prune_moves(fleet: Fleet, before_ns: int) -> Change:
    """Forget moves that were settled before this time; as many as go into one change."""
    draft = Draft(fleet)
    old = (
        name
        for name, move in sorted(fleet.moves.items())
        if move.state in SETTLED and move.settled_at_ns < before_ns
    )
    for name, _ in zip(old, range(OPERATIONS_MAX // 2), strict=False):
        draft.delete(keys.move(name))
    return draft.change()


def _leave(
    fleet: Fleet, domain: Domain, owner: DomainRecord, *, to: ShardId, now_ns: int
) -> Change:
    """One that is leaving already only changes where it goes."""
    after = replace(owner, state=DomainState.LEAVING, to=to)
    if after == owner:
        return NOTHING
    draft = Draft(fleet)
    draft.put(keys.domain(domain), after)
    if owner.state is not DomainState.LEAVING:
        draft.instruct(owner.shard, UnassignDomain(domain=domain), now_ns=now_ns)
    return draft.change()


def _ask(proposal: Proposal) -> Payload:
    donor, to, wanted = proposal.donor, proposal.recipient, proposal.wanted
    match proposal.tier:
        case Tier.IDLE:
            return TransferOwnership(from_shard=donor, to_shard=to, wanted=wanted)
        case Tier.SPECULATIVE:
            return ReassignSpeculative(from_shard=donor, to_shard=to, wanted=wanted)
        case Tier.PREEMPT:
            return CrossShardDrain(to_shard=to, wanted=wanted, preemptor_priority=wanted.priority)
        case Tier.RETURN:
            raise Rejected("a return is not asked for: it follows when a shard lets go")


def _check_domain(fleet: Fleet, domain: Domain) -> None:
    """One key for the whole fleet, so that a machine lies in one domain at most."""
    if not domain.key or not domain.value:
        raise Rejected(f"a domain has a key and a value: {_shown(domain)}")
    other = next(iter(fleet.domains), domain)
    if other.key != domain.key:
        raise Rejected(
            f"every domain of a fleet has the same key, here {other.key!r}: {_shown(domain)}"
        )


def _check_fit(fleet: Fleet, shard: ShardId) -> None:
    """A domain narrows the shard that gets it; others must be narrow already."""
    record = known(fleet, shard)
    if record.takes_all:
        return
    for name, other in sorted(fleet.shards.items()):
        shared = sorted({*other.providers} & {*record.providers})
        if name != shard and other.takes_all and shared:
            raise Rejected(
                f"{name} takes every machine of {shared[0]}: assign a domain to {name} first"
            )


def _check_providers(fleet: Fleet, domain: Domain, owner: ShardId, to: ShardId) -> None:
    """What the next owner cannot see it cannot take: it would be nobody's."""
    present = fleet.shards.get(owner, ShardRecord())
    lacks = sorted({*present.providers} - {*known(fleet, to).providers})
    if lacks:
        raise Rejected(
            f"{_shown(domain)} cannot go to {to}, which lacks a provider of {owner}:"
            f" {', '.join(lacks)}"
        )


def known(fleet: Fleet, shard: ShardId) -> ShardRecord:
    """A shard that can be told something."""
    record = fleet.shards.get(shard)
    if record is None:
        raise Unknown(f"there is no shard of this name: {shard}")
    if record.removing:
        raise Rejected(f"the shard is being removed: {shard}")
    return record


def _whom(owner: DomainRecord) -> str:
    return owner.shard if owner.state is not DomainState.LEAVING else f"{owner.shard} on its way"


def _shown(domain: Domain) -> str:
    return f"{domain.key}={domain.value}"
