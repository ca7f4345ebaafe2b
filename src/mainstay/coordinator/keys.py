"""Where each record stands: one small key per thing, its parts percent-encoded."""

from enum import StrEnum
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from mainstay.model.coordination import Domain, QuotaOf
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId, ShardId


class Kind(StrEnum):
    """What a key is about: its first part."""

    META = "meta"
    SHARD = "shard"
    CLUSTER = "cluster"
    DOMAIN = "domain"
    STRAY = "stray"
    QUOTA = "quota"
    PROVIDER = "provider"
    INSTRUCTION = "instruction"
    MOVE = "move"


PARTS: Final = {
    Kind.META: 0,
    Kind.SHARD: 1,
    Kind.CLUSTER: 1,
    Kind.DOMAIN: 2,
    Kind.STRAY: 1,
    Kind.QUOTA: 3,
    Kind.PROVIDER: 1,
    Kind.INSTRUCTION: 2,
    Kind.MOVE: 1,
}
"""How many parts follow the first."""

META: Final = Kind.META.value


def shard(name: ShardId) -> str:
    """Of a shard."""
    return _key(Kind.SHARD, name)


def cluster(name: ClusterId) -> str:
    """Of the binding of a cluster."""
    return _key(Kind.CLUSTER, name)


def domain(of: Domain) -> str:
    """Of a domain."""
    return _key(Kind.DOMAIN, of.key, of.value)


def stray(machine: MachineId) -> str:
    """Of a stray."""
    return _key(Kind.STRAY, machine)


def quota(of: QuotaOf) -> str:
    """Of an entitlement."""
    return _key(Kind.QUOTA, of.kind, of.name, of.region)


def provider(name: str) -> str:
    """Of a provider."""
    return _key(Kind.PROVIDER, name)


def instruction(to: ShardId, sequence: int) -> str:
    """Of an instruction; in the order of keys they stand in the order of their numbers."""
    return _key(Kind.INSTRUCTION, to, f"{sequence:012d}")


def move(name: str) -> str:
    """Of a move."""
    return _key(Kind.MOVE, name)


def parse(key: str) -> tuple[Kind, tuple[str, ...]]:
    """What a key is about, and its parts as they were given. Rejected names a key that is none."""
    first, *parts = key.split("/")
    if first not in PARTS or len(parts) != PARTS[Kind(first)]:
        raise Rejected(f"not a key of the coordinator: {key!r}")
    return Kind(first), tuple(_plain(part) if "%" in part else part for part in parts)


_plain = lru_cache(maxsize=1024)(unquote)
"""The label of domains is quoted, and the same in all of them."""


def _key(kind: Kind, *parts: str) -> str:
    return "/".join([kind.value, *(quote(part, safe="") for part in parts)])
