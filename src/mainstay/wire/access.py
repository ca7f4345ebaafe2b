"""Who may call what, in one table, for all services of ours.

It holds over mutual TLS; a plaintext connection has no certificate to look at, and is for loopback.
A coordinator that does not lead says so to anybody, before it looks at who asks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mainstay.wire.status import NotAllowed
from mainstay.wire.tls import Identity, Role

_NAME_SHOWN_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may make a call."""

    doing: str
    """What it is, to go on from "may not"."""

    roles: frozenset[Role] = frozenset()
    """Any holder of such a certificate."""

    own: Role | None = None
    """And who bears the very name that the request gives, in this role."""

    @property
    def holders(self) -> tuple[str, ...]:
        """Who may, as URIs; a name in angle brackets is that of the request."""
        named = () if self.own is None else (Identity(self.own, f"<{self.own}>").uri,)
        return (*named, *sorted(Identity(role).uri for role in self.roles))


_READERS: Final = frozenset({Role.READONLY, Role.ADMIN})
_ADMINS: Final = frozenset({Role.ADMIN})

SESSION: Final = Rule("open a session", own=Role.CLUSTER)
REPORT: Final = Rule("report", own=Role.SHARD)
READ_SHARD: Final = Rule("read a shard", _READERS)
CONTROL_SHARD: Final = Rule("control a shard", _ADMINS)
READ_COORDINATOR: Final = Rule("read a coordinator", _READERS)
CONTROL_COORDINATOR: Final = Rule("control a coordinator", _ADMINS)

ACCESS: Final[Mapping[str, Mapping[str, Rule]]] = MappingProxyType({
    "bigfleet.v1alpha1.Shard": {
        "Session": SESSION,
    },
    "bigfleet.v1alpha1.ShardRead": {
        "InspectNeeds": READ_SHARD,
    },
    "mainstay.v1.ShardView": {
        "Machines": READ_SHARD,
        "Needs": READ_SHARD,
        "Clusters": READ_SHARD,
        "Actions": READ_SHARD,
        "Shortfalls": READ_SHARD,
        "Providers": READ_SHARD,
        "Controls": READ_SHARD,
        "Summary": READ_SHARD,
        "Money": READ_SHARD,
        "Explain": READ_SHARD,
        "WhatIf": READ_SHARD,
        "Groups": READ_SHARD,
    },
    "mainstay.v1.ShardControl": {
        "SetControl": CONTROL_SHARD,
        "LiftControl": CONTROL_SHARD,
        "Retire": CONTROL_SHARD,
    },
    "bigfleet.v1alpha1.Coordinator": {
        "ReportShard": REPORT,
        "AssignDomain": CONTROL_COORDINATOR,
        "UnassignDomain": CONTROL_COORDINATOR,
        "RemoveShard": CONTROL_COORDINATOR,
        "ListShards": READ_COORDINATOR,
        "ListDomainAssignments": READ_COORDINATOR,
        "ListShardReports": READ_COORDINATOR,
        "JoinRaftCluster": CONTROL_COORDINATOR,
        "SnapshotSave": CONTROL_COORDINATOR,
        "ListQuotas": READ_COORDINATOR,
        "ListProviders": READ_COORDINATOR,
    },
    "mainstay.v1.CoordinatorView": {
        "Shards": READ_COORDINATOR,
        "Domains": READ_COORDINATOR,
        "Clusters": READ_COORDINATOR,
        "Quotas": READ_COORDINATOR,
        "Providers": READ_COORDINATOR,
        "Instructions": READ_COORDINATOR,
        "Moves": READ_COORDINATOR,
        "Conflicts": READ_COORDINATOR,
        "Plan": READ_COORDINATOR,
        "Standing": READ_COORDINATOR,
    },
    "mainstay.v1.CoordinatorControl": {
        "MoveDomain": CONTROL_COORDINATOR,
        "SetQuota": CONTROL_COORDINATOR,
        "ClearQuota": CONTROL_COORDINATOR,
        "UnbindCluster": CONTROL_COORDINATOR,
        "CancelMove": CONTROL_COORDINATOR,
        "ReturnMachines": CONTROL_COORDINATOR,
    },
})  # fmt: skip
"""By service and call. A call that does not stand here cannot be served."""

UNLED: Final = frozenset({("mainstay.v1.CoordinatorView", "Standing")})
"""Calls that a coordinator answers whether it leads or not."""


def rule_of(service: str, call: str) -> Rule:
    """The row of a call."""
    return ACCESS[service][call]


def admit(rule: Rule, identity: Identity | None) -> None:
    """Refuse whoever could never make the call, before the request is read."""
    if identity is None or identity.role in rule.roles or identity.role is rule.own:
        return
    raise NotAllowed(f"{identity.uri} may not {rule.doing}: {' or '.join(rule.holders)} may")


def authorize(rule: Rule, identity: Identity | None, named: str = "") -> None:
    """Refuse whoever may not make the call; `named` is the name that the request gives."""
    if identity is None or identity.role in rule.roles:
        return
    if rule.own is None:
        admit(rule, identity)
    elif identity != (wanted := Identity(rule.own, named)):
        shown = wanted.uri[:_NAME_SHOWN_MAX]
        raise NotAllowed(f"{identity.uri} may not {rule.doing} as {shown}")
