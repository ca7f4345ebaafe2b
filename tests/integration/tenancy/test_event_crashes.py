"""Processes killed with SIGKILL at every point of the way of an event, on every bus."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

import tenants
from event_stage import (
    BUSES,
    IDS,
    Effect,
    a_place,
    all_ended,
    consuming,
    effects,
    program,
    relaying,
    rows,
    run,
    running,
    status,
    tell,
    until,
)
from mainstay.tenancy import consume, relay
from mainstay.tenancy.bus import Envelope
from mainstay.tenancy.bus_metrics import ConsumerMetrics
from mainstay.tenancy.database.connect import Connection, Pool, transaction
from mainstay.tenancy.request import request
from mainstay.tenancy.states import Actor, EventType, Status
from mainstay.tenancy.subscribers import WORKER, subjects_of
from mainstay.tenancy.transition import Step, locked, move
from postgres import database_url, server

__all__ = ["database_url", "server"]

every_bus = pytest.mark.parametrize("kind", BUSES)


async def reached(said: IO[str], point: str) -> None:
    assert await asyncio.to_thread(said.readline) == point + "\n"


@every_bus
class TestCrashTable:
    def test_before_the_commit_there_is_neither_row_nor_event(
        self, kind: str, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(kind, tmp_path) as place:
                with program("writer", database_url, place, "before commit") as writer:
                    await reached(writer, "before commit")
                async with place.bus(pool) as bus:
                    consumer = Effect()
                    async with running(
                        relay.run(pool, bus, relaying()),
                        consume.run(pool, bus, [consumer], consuming()),
                    ):
                        later = await tell(pool, "alc_2")
                        await all_ended(pool)
            assert consumer.handled == [later]
            assert [row["id"] for row in await rows(pool, "select id from outbox")] == [later]

        run(database_url, test)

    def test_after_the_commit_and_before_the_publication_another_relay_publishes_it(
        self, kind: str, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(kind, tmp_path) as place:
                event = await tell(pool)
                with program("relay", database_url, place, "before publish") as dying:
                    await reached(dying, "before publish")
                assert await status(pool, event) == "pending"
                consumer = Effect()
                with program("relay", database_url, place):
                    async with (
                        place.bus(pool) as bus,
                        running(consume.run(pool, bus, [consumer], consuming())),
                    ):
                        await all_ended(pool)
            assert consumer.handled == [event]

        run(database_url, test)

    def test_after_the_publication_and_before_the_mark_it_is_published_twice_and_done_once(
        self, kind: str, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(kind, tmp_path) as place:
                event = await tell(pool)
                with program("relay", database_url, place, "after publish") as dying:
                    await reached(dying, "after publish")
                assert await status(pool, event) == "pending"
                with program("relay", database_url, place, "after publish") as second:
                    await reached(second, "after publish")  # it did publish it again
                    async with (
                        place.bus(pool) as bus,
                        running(
                            relay.run(pool, bus, relaying()),
                            consume.run(pool, bus, [Effect()], consuming()),
                        ),
                    ):
                        await all_ended(pool)
            assert await effects(pool) == [event]

        run(database_url, test)

    def test_a_consumer_killed_before_its_commit_leaves_nothing_and_the_event_comes_again(
        self, kind: str, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(kind, tmp_path) as place, program("relay", database_url, place):
                event = await tell(pool)
                with program("consumer", database_url, place, "before commit") as dying:
                    await reached(dying, "before commit")
                assert await effects(pool) == []
                assert await status(pool, event) != "done"
                with program("consumer", database_url, place):
                    await all_ended(pool)
            assert await effects(pool) == [event]

        run(database_url, test)

    def test_a_consumer_killed_after_its_effect_and_before_the_ack_does_nothing_the_second_time(
        self, kind: str, database_url: str, tmp_path: Path
    ) -> None:
        async def test(pool: Pool) -> None:
            with a_place(kind, tmp_path) as place, program("relay", database_url, place):
                event = await tell(pool)
                with program("consumer", database_url, place, "before ack") as dying:
                    await reached(dying, "before ack")
                assert await effects(pool) == [event]
                assert await status(pool, event) == "done"
                told = ConsumerMetrics()
                async with (
                    place.bus(pool) as bus,
                    running(consume.run(pool, bus, [Effect()], consuming(), told)),
                ):
                    later = await tell(pool)
                    await all_ended(pool)
                    if kind != "postgres":  # which forgets what it has said

                        async def repeated() -> bool:
                            labels = {"consumer": "one", "outcome": "repeated"}
                            return told.registry.get_sample_value(
                                "mainstay_consumer_deliveries_total", labels
                            ) == 1  # fmt: skip

                        await until(repeated)
            assert await effects(pool) == [event, later]

        run(database_url, test)


@every_bus
def test_relays_and_consumers_killed_under_load_lose_nothing_and_repeat_nothing(
    kind: str, database_url: str, tmp_path: Path
) -> None:
    async def test(pool: Pool) -> None:
        with a_place(kind, tmp_path) as place:
            told = [await tell(pool, f"alc_{n % 20}") for n in range(120)]
            for wanted in (15, 45):
                with (
                    program("relay", database_url, place),
                    program("relay", database_url, place),
                    program("consumer", database_url, place),
                ):

                    async def so_many(wanted: int = wanted) -> bool:
                        return len(await effects(pool)) >= wanted

                    await until(so_many)
            with program("relay", database_url, place), program("consumer", database_url, place):
                await all_ended(pool)
        had = await effects(pool)
        assert sorted(had) == sorted(told)
        for n in range(20):
            assert [event for event in had if event in told[n::20]] == told[n::20]

    run(database_url, test)


@dataclass
class Provisioner:
    """What the worker does at first, in one transaction: a workflow, a task, a step."""

    name: str = WORKER
    subjects: frozenset[EventType] = subjects_of(WORKER)

    async def handle(self, tx: Connection, event: Envelope) -> None:
        await tx.execute("insert into workflows values (%s)", [f"provisioning-{event.event_id}"])
        row = await locked(tx, event.payload["allocation_id"])
        await move(tx, IDS, row, Step(new=Status.PROVISIONING, actor=Actor.WORKER))
        await tx.execute(
            """insert into node_tasks (id, node_id, allocation_id, task_type, idempotency_key,
                   params, signature, signer_version_id, status, correlation_id, expires_at)
               values (%s, %s, %s, 'slice.vm_provision', %s, '{}', '', '', 'queued', 'c',
                   clock_timestamp() + interval '1 hour')""",
            [IDS("tsk"), row["node_id"], row["id"], IDS("key")],
        )


@every_bus
def test_scenario_11_a_relay_killed_after_publication_makes_one_workflow_one_task_one_step(
    kind: str, database_url: str, tmp_path: Path
) -> None:
    worker_alone = dict.fromkeys(subjects_of(WORKER), frozenset({WORKER}))

    async def test(pool: Pool) -> None:
        await tenants.furnish(pool)
        await tenants.node(pool)
        async with transaction(pool) as tx:
            await tx.execute("create table workflows (id text primary key)")
        row = await request(pool, IDS, tenants.order())
        with a_place(kind, tmp_path) as place:
            for _ in range(2):
                with program("relay", database_url, place, "after publish") as dying:
                    await reached(dying, "after publish")
            async with (
                place.bus(pool) as bus,
                running(
                    relay.run(pool, bus, relaying(worker_alone)),
                    consume.run(pool, bus, [Provisioner()], consuming(worker_alone)),
                ),
            ):
                await all_ended(pool)

        assert len(await rows(pool, "select from workflows")) == 1
        assert len(await rows(pool, "select from node_tasks")) == 1
        (found,) = await rows(pool, "select * from allocations")
        assert (found["id"], found["status"]) == (row["id"], "provisioning")
        assert found["version"] == row["version"] + 1

    run(database_url, test)
