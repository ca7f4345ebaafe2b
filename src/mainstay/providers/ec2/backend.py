"""EC2 as the kit sees it: every host is an instance, and no instance changes its purpose.

User data is read once, at an instance's first boot, and a disk remembers. So an instance is
launched for one purpose and never reused for another: Create launches one that holds the place,
Configure launches one with the blob as its user data and ends the one before, Drain the other way
round (ADR-0025). All steps can be repeated: what is there already is found by its tags.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from typing_extensions import override

from mainstay.model.calls import Call
from mainstay.model.errors import MainstayError, NoCapacity, Rejected, Unavailable
from mainstay.model.ids import ClusterId
from mainstay.model.notice import InterruptionNotice
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.providers.ec2 import tags
from mainstay.providers.ec2.cloud import BLOB_BYTES_MAX, Cloud, Wish
from mainstay.providers.ec2.config import Ec2Config, Pool
from mainstay.providers.ec2.instances import (
    ENDED,
    LIVE,
    Instance,
    Seen,
    host_of,
    in_role,
    names,
    to_spare,
)
from mainstay.providers.ec2.tags import Label, Role
from mainstay.providers.kit.backend import Backend, Host, Job, Slot
from mainstay.runtime.clock import Clock
from mainstay.runtime.log import logger

GRACE_POLLS: float = 5.0
"""While a grace period passes, instances are looked at so much less often."""


class Ec2Backend(Backend):
    """Steps on instances."""

    deletable = frozenset({CapacityType.ON_DEMAND, CapacityType.SPOT})
    gives_notice = True
    resumable = frozenset({Call.CREATE, Call.DRAIN, Call.DELETE})

    def __init__(self, config: Ec2Config, cloud: Cloud, clock: Clock) -> None:
        self.name = config.name
        self._config = config
        self._cloud = cloud
        self._clock = clock
        self._pool_of = {slot: pool for pool in config.pools for slot in pool.slots}
        self._hosts: dict[str, str] = {}
        """By slot, the host of a machine that is not Failed."""

        self._busy: set[str] = set()
        self._notices: Mapping[str, InterruptionNotice] = {}
        """By instance, as of the last look."""

        self._prices: Mapping[tuple[str, str], float] = {}
        self._prices_due_s = 0.0
        self._told: set[str] = set()
        self._log = logger(provider=config.name)

    @override
    async def adopt(self, known: Sequence[Job]) -> None:
        for job in known:
            # Of a Configure that a restart cut off nobody knows how far it came: let tags tell.
            settled = job.machine.state not in {State.FAILED, State.CONFIGURING}
            if settled and job.machine.host is not None:
                self._hosts[job.slot] = job.machine.host.ref

    @override
    async def slots(self) -> Sequence[Slot]:
        seen = await self._cloud.instances()
        await self._look_at_the_market()
        await self._end_spares(seen)
        return [
            slot
            for name, pool in self._pool_of.items()
            if (slot := self._slot(name, pool, seen)) is not None
        ]

    @override
    async def describe(self, job: Job) -> bool:
        if job.machine.host is None:
            return job.slot in self._pool_of
        found = await self._cloud.condition(job.machine.host.ref)
        return found is not None and found.state in LIVE

    @override
    def admit_binding(self, job: Job, blob: bytes, metadata: Mapping[str, str]) -> None:
        if len(blob) > BLOB_BYTES_MAX:
            size = f"{len(blob)} bytes (EC2 takes {BLOB_BYTES_MAX} of user data)"
            raise Rejected(f"bootstrap blob too large: {size}")
        tags.packed(metadata, tags_max=tags.room(self._config.tags))

    @override
    async def create(self, job: Job) -> Host:
        with self._at_work(job):
            seen = await self._seen_free(job)
            launched, _ = await self._launched(self._wish(job, Role.IDLE), seen)
            return self._hold(job, launched)

    @override
    async def configure(self, job: Job, cluster: ClusterId, blob: bytes) -> Host:
        with self._at_work(job):
            seen = await self._seen_free(job)
            label = Label(
                slot=job.slot,
                machine=job.machine.id,
                operation=job.operation,
                role=Role.SERVING,
                cluster=cluster,
                metadata=job.machine.shard_metadata,
            )
            wish = Wish(self._pool(job), label, blob)
            return self._hold(job, await self._exchanged(wish, seen, ends=Role.IDLE))

    @override
    async def ready(self, job: Job) -> bool:
        host = self._hosts.get(job.slot, "")
        return not self._config.timing.status_checks or await self._cloud.is_checked(host)

    @override
    async def drain(self, job: Job, grace_s: int) -> Host:
        with self._at_work(job):
            seen = await self._emptied(job, grace_s)
            wish = self._wish(job, Role.IDLE)
            return self._hold(job, await self._exchanged(wish, seen, ends=Role.SERVING))

    @override
    async def delete(self, job: Job) -> None:
        with self._at_work(job):
            seen = await self._seen_free(job)
            await self._cloud.terminate(names(in_role(seen, job.slot, Role.IDLE)))
            self._hosts.pop(job.slot, None)

    def _wish(self, job: Job, role: Role) -> Wish:
        label = Label(slot=job.slot, machine=job.machine.id, operation=job.operation, role=role)
        return Wish(self._pool(job), label)

    def _pool(self, job: Job) -> Pool:
        pool = self._pool_of.get(job.slot)
        if pool is None:
            raise Rejected(f"slot {job.slot} is in no pool any more")
        return pool

    async def _exchanged(self, wish: Wish, seen: Seen, *, ends: Role) -> Instance:
        """One instance for another: first the new one, so that a place is not given up for nothing.

        If there is no capacity for both, what the old one held may be all there is.
        """
        slot = wish.label.slot
        try:
            launched, seen = await self._launched(wish, seen)
        except NoCapacity:
            old = names(in_role(seen, slot, ends))
            if not old:
                raise
            await self._cloud.terminate(old)
            await self._gone(old)
            again = replace(wish, again=True)
            launched, seen = await self._launched(again, await self._cloud.in_slot(slot))
        await self._cloud.terminate(names(in_role(seen, slot, ends)))
        return launched

    async def _launched(self, wish: Wish, seen: Seen) -> tuple[Instance, Seen]:
        """The running instance that a wish is about: the one that is there, or a new one."""
        slot, role = wish.label.slot, wish.label.role
        made = ""
        if not in_role(seen, slot, role):
            made = await self._cloud.run(wish)
            seen = await self._cloud.in_slot(slot)
        while True:
            found = in_role(seen, slot, role)
            await self._cloud.terminate(names(found[1:]))  # of rivals the oldest stays
            if found and found[0].state == "running":
                return found[0], seen
            if made and not found:
                await self._check_alive(made)
            await asyncio.sleep(self._config.timing.poll_s)
            seen = await self._cloud.in_slot(slot)

    async def _check_alive(self, name: str) -> None:
        """One that EC2 does not know yet will come; one that has ended will not."""
        found = await self._cloud.condition(name)
        if found is not None and found.state in ENDED:
            why = found.reason or "EC2 does not say why"
            raise NoCapacity(f"instance {name} ended before it ran: {why}")

    async def _gone(self, ending: Sequence[str]) -> None:
        """Wait until instances take up no room: capacity is free only when they are gone."""
        for name in ending:
            while await self._takes_room(name):  # noqa: ASYNC110 - somebody else's event
                await asyncio.sleep(self._config.timing.poll_s)

    async def _takes_room(self, name: str) -> bool:
        found = await self._cloud.condition(name)
        return found is not None and found.state != "terminated"

    async def _emptied(self, job: Job, grace_s: int) -> Seen:
        """Give workloads their time; an instance that shuts itself down needs no more of it."""
        timing = self._config.timing
        until_s = self._clock.elapsed_s() + min(grace_s, timing.grace_s_max)
        while True:
            seen = await self._cloud.in_slot(job.slot)
            left_s = until_s - self._clock.elapsed_s()
            if left_s <= 0.0 or not in_role(seen, job.slot, Role.SERVING):
                return seen
            await asyncio.sleep(min(left_s, GRACE_POLLS * timing.poll_s))

    def _hold(self, job: Job, instance: Instance) -> Host:
        self._hosts[job.slot] = instance.id
        return Host(instance.id)

    async def _seen_free(self, job: Job) -> Seen:
        """A look, if nobody is served from the slot but by this very step.

        Never a second node, and never the end of one because a store has forgotten it.
        """
        seen = await self._cloud.in_slot(job.slot)
        for each in in_role(seen, job.slot, Role.SERVING):
            if each.label.operation != job.operation:
                whom = f"instance {each.id} of it serves cluster {each.label.cluster}"
                raise Rejected(f"slot {job.slot} is not free: {whom}")
        return seen

    @contextmanager
    def _at_work(self, job: Job) -> Iterator[None]:
        """While a step is at work on a slot, several instances may be in it; then one or none."""
        self._busy.add(job.slot)
        try:
            yield
        except Unavailable:
            raise  # the kit goes on
        except BaseException:
            self._hosts.pop(job.slot, None)
            raise
        finally:
            self._busy.discard(job.slot)

    async def _end_spares(self, seen: Seen) -> None:
        """What races and cut-off steps have left over."""
        for slot, instances in seen.items():
            host = host_of(instances, self._hosts.get(slot, ""))
            if host is not None and slot not in self._busy:
                await self._cloud.terminate(names(to_spare(instances, host)))

    async def _look_at_the_market(self) -> None:
        """Prices now and then, notices always; without an answer the last ones stay."""
        types = {pool.profile.instance_type for pool in self._config.pools if pool.is_spot}
        if not types:
            return
        try:
            self._notices = await self._cloud.notices()
            if self._clock.elapsed_s() >= self._prices_due_s:
                prices = await self._cloud.spot_prices(types, self._clock.now_s())
                self._prices = {**self._prices, **prices}
                every_s = self._config.timing.spot_prices_every_s
                self._prices_due_s = self._clock.elapsed_s() + every_s
        except MainstayError as error:
            self._log.warning("spot_market_not_seen", why=error.message)

    def _slot(self, name: str, pool: Pool, seen: Seen) -> Slot | None:
        host = host_of(seen.get(name, ()), self._hosts.get(name, ""))
        if host is not None and not _fits(host, pool):
            self._tell_once(host.id, name)
            return None
        price = self._prices.get((pool.profile.instance_type, pool.profile.zone))
        return Slot(
            name=name,
            profile=pool.profile,
            host=host.id if host else "",
            cluster=host.label.cluster if host else "",
            shard_metadata=host.label.metadata if host else {},
            allocatable=pool.allocatable,
            price_per_hour=price if pool.is_spot and price is not None else pool.price_per_hour,
            interruption_probability=pool.interruption_probability,
            notice=self._notices.get(host.id) if host else None,
        )

    def _tell_once(self, instance: str, slot: str) -> None:
        if instance not in self._told:
            self._told.add(instance)
            self._log.warning("instance_is_not_of_its_pool", instance=instance, slot=slot)


def _fits(instance: Instance, pool: Pool) -> bool:
    """Whether it is what the pool sells: a pool that was changed does not change its instances."""
    profile = pool.profile
    there = instance.type, instance.zone, instance.spot
    return there == (profile.instance_type, profile.zone, pool.is_spot)
