"""Instructions and wishes in words, for people."""

from mainstay.model.coordination import (
    AssignDomain,
    CrossShardDrain,
    Payload,
    ReassignSpeculative,
    TransferOwnership,
    UnassignDomain,
    Wanted,
)
from mainstay.model.resources import from_units


def told_wanted(wanted: Wanted) -> str:
    """What a donor is asked for."""
    amounts = [
        f"{from_units(name, amount)} {name}"
        for name, amount in sorted(wanted.deficit.items())
        if amount > 0
    ]
    where = [
        f"{each.key} {each.operator} {','.join(each.values)}".strip()
        for each in wanted.requirements
    ]
    parts = [
        f"up to {wanted.machines_max} machines",
        f"for {', '.join(amounts)}" if amounts else "",
        f"with {'; '.join(where)}" if where else "",
        f"from {', '.join(wanted.providers)}" if wanted.providers else "",
        f"at priority {wanted.priority}",
    ]
    return " ".join(part for part in parts if part)


def told_payload(payload: Payload) -> str:
    """What a shard was told."""
    match payload:
        case AssignDomain(domain=domain, away=away):
            less = f", but for {len(away)} machines" if away else ""
            return f"take {domain.key}={domain.value}{less}"
        case UnassignDomain(domain=domain):
            return f"let go of {domain.key}={domain.value}"
        case CrossShardDrain(to_shard=to, wanted=wanted):
            return f"drain for {to}: {told_wanted(wanted)}"
        case TransferOwnership() | ReassignSpeculative():
            return _told_transfer(payload)


def _told_transfer(payload: TransferOwnership | ReassignSpeculative) -> str:
    what = "slots" if isinstance(payload, ReassignSpeculative) else "machines"
    if payload.wanted is not None:
        return f"give {what} to {payload.to_shard}: {told_wanted(payload.wanted)}"
    count = len(payload.machines)
    return f"{count} {what} from {payload.from_shard} to {payload.to_shard}"
