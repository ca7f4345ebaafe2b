"""Whoever does what at the same time, claims, slots, nodes and events fit each other afterwards."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tenants
from mainstay.model.errors import NoCapacity, Rejected
from mainstay.tenancy.cleanup import force_cleanup, late_success
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.release import release
from mainstay.tenancy.request import request
from mainstay.tenancy.settle import cleaned
from mainstay.tenancy.states import Actor
from mainstay.tenancy.transition import locked
from outside import examples
from postgres import database_url, server
from tenants import NEW, PROJECT, PROOF, SLICE, WHOLE, faults, node, order, rows, run

__all__ = ["database_url", "server"]

_REGIONS: Final = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Ask:
    gpus: int
    sku: str


@dataclass(frozen=True, slots=True)
class Do:
    what: str
    whom: int
    """Counted among what was made so far."""


async def _by(pool: Pool, allocation: str, actor: Actor) -> Row:
    project = PROJECT if actor is Actor.TENANT else None
    return await release(pool, NEW, allocation, actor=actor, by=str(actor), project=project)


async def _clean(pool: Pool, allocation: str) -> Row:
    async with transaction(pool) as tx:
        return await cleaned(tx, await locked(tx, allocation), PROOF)


async def _late(pool: Pool, allocation: str) -> None:
    async with transaction(pool) as tx:
        await late_success(tx, await locked(tx, allocation))


async def _give_up(pool: Pool, allocation: str, *, absent: bool) -> Row:
    return await force_cleanup(pool, NEW, allocation, runtime_verified_absent=absent, by="root")


DEEDS: Final[dict[str, Callable[[Pool, str], Awaitable[object]]]] = {
    "begin": tenants.begin,
    "activate": tenants.activate,
    "fail clean": lambda pool, one: tenants.fail(pool, one, clean=True),
    "fail": lambda pool, one: tenants.fail(pool, one, clean=False),
    "tenant releases": lambda pool, one: _by(pool, one, Actor.TENANT),
    "billing releases": lambda pool, one: _by(pool, one, Actor.BILLING),
    "admin releases": lambda pool, one: _by(pool, one, Actor.ADMIN),
    "prove": tenants.prove,
    "prove in part": lambda pool, one: tenants.prove(pool, one, {**PROOF, "wiped": False}),
    "release fails": tenants.fail_release,
    "give up": lambda pool, one: _give_up(pool, one, absent=False),
    "give up, verified": lambda pool, one: _give_up(pool, one, absent=True),
    "late success": _late,
    "clean": _clean,
}

asks = st.builds(Ask, st.sampled_from([1, 1, 2, 4, 8]), st.just(SLICE)) | st.just(Ask(8, WHOLE))
deeds = st.builds(Do, st.sampled_from(sorted(DEEDS)), st.integers(0, 5))
forward = st.builds(
    Do, st.sampled_from(["begin", "activate", "tenant releases", "prove"]), st.integers(0, 5)
)
moments = st.lists(asks | forward | deeds, min_size=1, max_size=5)
"""What is done at once."""


@settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=st.lists(moments, min_size=4, max_size=14))
def test_any_interleaving_leaves_claims_slots_modes_and_events_in_agreement(
    database_url: str, history: Sequence[Sequence[Ask | Do]]
) -> None:
    """Each history has a region of its own; what must hold is asked of all of them."""
    region = f"region-p{next(_REGIONS)}"

    async def scenario(pool: Pool) -> None:
        await rows(pool, "insert into regions values (%s, '') returning code", [region])
        for name in ("a", "b"):
            await node(pool, f"{region}-{name}", region=region)
        made: list[str] = []
        for moment in history:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_done(pool, one, region, made)) for one in moment]
            made += [new for new in (task.result() for task in tasks) if new is not None]
            assert await faults(pool) == {}, moment

    run(database_url, scenario)


async def _done(pool: Pool, one: Ask | Do, region: str, made: Sequence[str]) -> str | None:
    """The id of what was made. A refusal is an answer; that the database is busy is none."""
    try:
        if isinstance(one, Ask):
            row = await request(pool, NEW, order(one.gpus, sku=one.sku, region=region))
            return str(row["id"])
        if made:
            await DEEDS[one.what](pool, made[-1 - one.whom % len(made)])
    except (Rejected, NoCapacity):
        pass
    return None


@pytest.mark.parametrize("sentence", sorted(tenants.FAULTS))
def test_each_thing_that_must_hold_is_seen_when_it_does_not(
    database_url: str, sentence: str
) -> None:
    """A check that cannot fail checks nothing: each is broken by hand once."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        await tenants.active(pool, 2)
        done = await tenants.active(pool, 1)
        await _by(pool, done["id"], Actor.TENANT)
        await tenants.prove(pool, done["id"])
        assert await faults(pool) == {}
        async with transaction(pool) as tx:
            await tx.execute("set local session_replication_role = replica")
            for statement in BREAKS[sentence]:
                await tx.execute(statement)
        assert sentence in await faults(pool)

    run(database_url, scenario)


BREAKS: Final[dict[str, Sequence[str]]] = {
    "I1: who is not at the end holds all it asked for, on its node": [
        "update allocations set gpus = 3 where status = 'active'"
    ],
    "a claim is where its allocation is": [
        "update claims set status = 'reserved' where status = 'active'"
    ],
    "a slot is where its live claim is, and free or out of service without one": [
        "update slots set status = 'available' where status = 'in_use'"
    ],
    "nobody has a slot or a node twice, nor a slot of a node that is taken whole": [
        """insert into claims (allocation_id, kind, node_id, status)
           select id, 'node_exclusive', node_id, 'active' from allocations
           where status = 'active'"""
    ],
    "a node is in the mode of its live claims": ["update nodes set mode = 'node_exclusive'"],
    "a claim that has ended says when": ["update claims set ended_at = null"],
    "I2: what is back in the pool was proved clean, undone, or verified absent": [
        "update claims set status = 'failed', ended_at = clock_timestamp()"
    ],
    "I3: every step but A2 wrote one event": [
        "delete from outbox where event_type = 'provisioning.active'"
    ],
    "I4: times are those of the steps, in their order, and no event is older than its step": [
        "update allocations set provisioning_started_at = active_at + interval '1 second'"
    ],
    "I6: payment ended at the first release, whatever was tried again": [
        "update allocations set releasing_at = releasing_at + interval '1 second'"
    ],
    "each attempt to release is told once": [
        "update allocations set release_attempt = 2 where status = 'released'"
    ],
}
