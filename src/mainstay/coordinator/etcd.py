"""The store of a coordinator on etcd: replicated, and fenced by etcd itself.

The leader's key hangs on a lease and its create revision is the term. Every write compares that
revision in the transaction it is made by, so a leader that was deposed cannot write, however late.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from aetcd import rpc
from grpc import StatusCode
from grpc.aio import EOF, AioRpcError

from mainstay.coordinator.etcd_members import Member, Members
from mainstay.coordinator.store import (
    Change,
    Deposed,
    Entry,
    Everything,
    Leader,
    Leadership,
    Overtaken,
    check,
)
from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.wire.tls import MutualTls

LEASE_S_MIN: Final = 2.0
"""What etcd gives at least, with the ticks it has when nobody sets them."""

CALL_S: Final = 2.0
"""What one member gets to answer one call."""

PAGE_ENTRIES: Final = 1_000
LOADS: Final = 3
"""So often a load begins anew when etcd has dropped the revision it reads at."""

ATTEMPTS_A_LEASE: Final = 4
"""So many members can be asked to renew before a lease has run out."""

WATCH_PAUSE_S: Final = 0.05


class EtcdStore:
    """One fleet's state below one prefix of an etcd cluster.

    Endpoints are `http://host:port`, or all `https://host:port` with `tls`. The member that
    answered last is asked first; one that fails is left for the next. Let etcd compact its history
    (`--auto-compaction-retention=1h`), or it will be full one day.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        prefix: str = "mainstay/",
        lease_s: float = LEASE_S_MIN,
        call_s: float = CALL_S,
        tls: MutualTls | None = None,
    ) -> None:
        """Connects when it is first asked something. etcd counts leases in whole seconds."""
        if lease_s < LEASE_S_MIN:
            raise Rejected(f"a lease of {lease_s} s: etcd takes {LEASE_S_MIN} s or more")
        if not prefix.strip("/"):
            raise Rejected(f"not a prefix of keys: {prefix!a} (name the fleet)")
        self._members = Members(endpoints, tls)
        self._ttl_s = math.ceil(lease_s)
        self._call_s = call_s
        self._renew_s = min(call_s, self._ttl_s / ATTEMPTS_A_LEASE)
        self._leader_key = f"{prefix.rstrip('/')}/leader".encode()
        self._state = f"{prefix.rstrip('/')}/state/".encode()

    @property
    def label(self) -> str:
        """For people."""
        return f"etcd at {', '.join(self._members.targets)}"

    @property
    def lease_s(self) -> float:
        """How long a leadership lasts that nobody renews."""
        return float(self._ttl_s)

    async def load(self) -> Everything:
        """All there is at one revision, in pages."""
        for _ in range(LOADS):
            entries: dict[str, Entry] = {}
            revision = 0
            with suppress(_Compacted):
                async for page in self._pages():
                    revision = revision or int(page.header.revision)
                    entries.update(self._entries(page))
                return Everything(entries, revision)
        raise Unavailable("etcd drops revisions faster than they can be read")

    async def campaign(self, *, candidate: str, address: str) -> Leadership | None:
        """Lead, if nobody does."""
        granted = await self._members.any(
            lambda member: member.lease.LeaseGrant(
                rpc.LeaseGrantRequest(TTL=self._ttl_s), timeout=self._call_s
            )
        )
        value = json.dumps({"candidate": candidate, "address": address}).encode()
        put = rpc.PutRequest(key=self._leader_key, value=value, lease=granted.ID)
        try:
            answer = await self._transact(
                [self._leader_is(0)], [rpc.RequestOp(request_put=put)], []
            )
        except (MainstayError, asyncio.CancelledError):
            await self._revoke(granted.ID)  # it may have won: then nobody would lead for a lease
            raise
        if not answer.succeeded:
            await self._revoke(granted.ID)
            return None
        return _EtcdLeadership(self, int(answer.header.revision), int(granted.ID))

    async def leader(self) -> Leader | None:
        """Who leads now."""
        answer = await self._read_leader()
        return _leader(answer.kvs[0]) if answer.kvs else None

    async def leaderless(self, *, patience_s: float) -> bool:
        """Wait until nobody leads.

        It watches, and it asks now and then: a watch at a member that is cut off says nothing.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + patience_s
        while (answer := await self._read_leader()).kvs:
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                return False
            await self._leader_gone(
                int(answer.header.revision), within_s=min(left_s, self._ttl_s / 2)
            )
        return True

    async def close(self) -> None:
        """Let go of the connections."""
        await self._members.close()

    async def renew(self, lease: int, term: int) -> None:
        """Extend a lease, and see that it is still the leader's: a key can be gone before it."""

        async def asked(member: Member) -> tuple[int, Any]:
            stream = member.lease.LeaseKeepAlive(timeout=self._renew_s)
            try:
                await stream.write(rpc.LeaseKeepAliveRequest(ID=lease))
                kept = await stream.read()
            finally:
                stream.cancel()
            if kept is EOF:
                raise Unavailable(f"etcd at {member.target} ended a stream")
            return int(kept.TTL), await self._get_leader(member, self._renew_s)

        ttl, found = await self._members.once(asked)
        if ttl <= 0 or _created(found) != term:
            raise Deposed(f"the lease of term {term} is gone")

    async def commit(self, change: Change, term: int) -> int:
        """Write while that term leads."""
        check(change)
        compares = [self._leader_is(term)]
        for key, revision in change.expects.items():
            compares.append(_compare(self._at(key), mod_revision=revision))
        writes = [
            rpc.RequestOp(request_put=rpc.PutRequest(key=self._at(key), value=value))
            for key, value in change.puts.items()
        ]
        for key in sorted(change.deletes):
            gone = rpc.DeleteRangeRequest(key=self._at(key))
            writes.append(rpc.RequestOp(request_delete_range=gone))
        looked_at = [self._leader_key, *map(self._at, change.expects)]
        reads = [
            rpc.RequestOp(request_range=rpc.RangeRequest(key=key, keys_only=True))
            for key in looked_at
        ]
        answer = await self._transact(compares, writes, reads)
        if not answer.succeeded:
            raise _refused([read.response_range for read in answer.responses], change, term)
        return int(answer.header.revision)

    async def resign(self, lease: int) -> None:
        """Give a lease back, and the leader's key with it."""
        await self._revoke(lease)

    def _at(self, key: str) -> bytes:
        return self._state + key.encode()

    def _leader_is(self, term: int) -> Any:
        return _compare(self._leader_key, create_revision=term)

    async def _pages(self) -> AsyncIterator[Any]:
        """The first page fixes the revision for the others."""
        start, end, revision = self._state, _end(self._state), 0
        while True:
            request = rpc.RangeRequest(
                key=start, range_end=end, limit=PAGE_ENTRIES, revision=revision
            )
            page = await self._members.any(partial(self._range, request))
            yield page
            if not page.more:
                return
            start, revision = page.kvs[-1].key + b"\0", revision or page.header.revision

    async def _range(self, request: Any, member: Member) -> Any:
        try:
            return await member.kv.Range(request, timeout=self._call_s)
        except AioRpcError as error:
            if error.code() is StatusCode.OUT_OF_RANGE and request.revision:
                raise _Compacted from error
            raise

    def _entries(self, page: Any) -> Mapping[str, Entry]:
        skipped = len(self._state)
        return {
            kv.key[skipped:].decode(errors="replace"): Entry(kv.value, kv.mod_revision)
            for kv in page.kvs
        }

    async def _read_leader(self) -> Any:
        return await self._members.any(lambda member: self._get_leader(member, self._call_s))

    async def _get_leader(self, member: Member, within_s: float) -> Any:
        return await member.kv.Range(rpc.RangeRequest(key=self._leader_key), timeout=within_s)

    async def _leader_gone(self, revision: int, *, within_s: float) -> None:
        """Return when the leader's key was deleted after a revision, or perhaps was."""
        member = self._members.current()
        wanted = rpc.WatchCreateRequest(
            key=self._leader_key,
            start_revision=revision + 1,
            filters=[rpc.WatchCreateRequest.NOPUT],
        )
        stream = member.watch.Watch(timeout=within_s)
        try:
            await stream.write(rpc.WatchRequest(create_request=wanted))
            while (told := await stream.read()) is not EOF:
                if told.events:
                    return
                if told.canceled:
                    break
            await asyncio.sleep(WATCH_PAUSE_S)
        except AioRpcError as error:
            if error.code() is not StatusCode.DEADLINE_EXCEEDED:
                self._members.turn_from(member)
                await asyncio.sleep(WATCH_PAUSE_S)
        finally:
            stream.cancel()

    async def _transact(self, compares: list[Any], writes: list[Any], reads: list[Any]) -> Any:
        """Asked once: whoever does not hear the answer cannot know what became of it."""
        request = rpc.TxnRequest(compare=compares, success=writes, failure=reads)
        return await self._members.once(lambda member: member.kv.Txn(request, timeout=self._call_s))

    async def _revoke(self, lease: int) -> None:
        with suppress(MainstayError):  # it runs out by itself
            await self._members.any(
                lambda member: member.lease.LeaseRevoke(
                    rpc.LeaseRevokeRequest(ID=lease), timeout=self._renew_s
                )
            )


class _EtcdLeadership:
    """One lease, and the term that began with it."""

    def __init__(self, store: EtcdStore, term: int, lease: int) -> None:
        self._store = store
        self._lease = lease
        self.term = term

    async def renew(self) -> None:
        await self._store.renew(self._lease, self.term)

    async def commit(self, change: Change) -> int:
        return await self._store.commit(change, self.term)

    async def resign(self) -> None:
        await self._store.resign(self._lease)


class _Compacted(Exception):
    """The revision that a load reads at is gone."""


def _compare(key: bytes, **revision: int) -> Any:
    (name,) = revision
    target = rpc.Compare.CREATE if name == "create_revision" else rpc.Compare.MOD
    return rpc.Compare(key=key, target=target, result=rpc.Compare.EQUAL, **revision)


def _created(found: Any) -> int:
    return int(found.kvs[0].create_revision) if found.kvs else 0


def _refused(found: Sequence[Any], change: Change, term: int) -> MainstayError:
    """Why a transaction was not made, from what it read instead: the leader's key first."""
    leads, *keys = found
    if _created(leads) != term:
        return Deposed(f"term {term} is over: {_created(leads) or 'nobody'} leads")
    for (key, expected), read in zip(change.expects.items(), keys, strict=True):
        revision = int(read.kvs[0].mod_revision) if read.kvs else 0
        if revision != expected:
            return Overtaken(f"{key} is at revision {revision}, not {expected}")
    return Unavailable("etcd refused a change and does not say why")


def _leader(kv: Any) -> Leader:
    try:
        told = json.loads(kv.value)
        return Leader(str(told["candidate"]), str(told["address"]), int(kv.create_revision))
    except (ValueError, TypeError, KeyError) as error:
        raise Rejected(f"not the record of a leader: etcd key {kv.key!a}") from error


def _end(prefix: bytes) -> bytes:
    """The first key behind all that begin so."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
