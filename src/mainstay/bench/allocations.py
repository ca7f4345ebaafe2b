"""`mainstay bench allocations`: requests and releases that race on a real PostgreSQL.

A round begins with an empty fleet and asks for more than there is. Its phases follow each
other, so that each is measured by itself: create, activate, release, free. At the end SQL goes
through all claims there ever were.
"""

import json
import math
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mainstay.bench import allocation_ground as ground
from mainstay.bench.allocation_clients import (
    Call,
    Clients,
    Ended,
    Job,
    Task,
    Work,
    received,
    started,
)
from mainstay.bench.allocation_clients import clients as client_processes
from mainstay.bench.allocation_ground import Database, found
from mainstay.bench.frame import Bench, FixtureError
from mainstay.tenancy.request import Order

PACED_MAX: Final = 1000
PACED_SHARE: Final = 0.25
PACED_PER_S_MAX: Final = 50.0
"""A share of what can be created, and no more than this: so slow that an event finds relay and
consumer at leisure. The way is measured, not a queue."""

FLOOR_RUNS: Final = 50
CARRIER_TASKS: Final = 16
DELIVER_S: Final = 600.0
BUSY_SHARE: Final = 0.85
"""A process that uses so much of a CPU is what the others wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    requests: int
    nodes: int
    clients: int
    processes: int
    seed: int
    pressure: int = ground.PRESSURE


@dataclass(slots=True)
class Phase:
    """One kind of call over all rounds."""

    calls: list[Call] = field(default_factory=list)
    seconds: float = 0.0
    cpu_s: float = 0.0
    server_cpu_s: float | None = 0.0
    per_s: list[float] = field(default_factory=list)
    """Of each round."""

    def add(self, work: Work, server_cpu_s: float | None) -> None:
        """One round more."""
        self.calls += work.calls
        self.seconds += work.seconds
        self.cpu_s += work.cpu_s
        known = self.server_cpu_s is not None and server_cpu_s is not None
        self.server_cpu_s = (self.server_cpu_s or 0.0) + (server_cpu_s or 0.0) if known else None
        self.per_s.append(round(len(work.calls) / work.seconds, 1))

    def ms(self, ended: Ended) -> list[float]:
        """How long each call took that ended so."""
        return [call.seconds * 1000 for call in self.calls if call.ended is ended]


@dataclass(frozen=True, slots=True)
class Stage:
    """All that the phases need."""

    bench: Bench
    size: Size
    database: Database
    server: int | None
    clients: Clients

    def timed(self, phase: Phase, task: Task, items: Sequence[object]) -> Work:
        """A phase of a round, with what it cost the server."""
        before = ground.cpu_s(self.server)
        work = self.clients.do(task, items)
        after = ground.cpu_s(self.server)
        used = None if before is None or after is None else after - before
        phase.add(work, used)
        return work


def run(bench: Bench, *, size: Size, database: str | None, dump: Path | None = None) -> None:
    """All phases and all checks; a check that fails stops the bench."""
    with ExitStack() as stack:
        url, pid = stack.enter_context(ground.server(database))
        connection = stack.enter_context(ground.connected(url))
        _fixture(bench, connection, size)
        _floor(bench, connection)
        processes = stack.enter_context(
            client_processes(
                url, processes=size.processes, tasks=size.clients, seed=size.seed * 1000
            )
        )
        stage = Stage(bench, size, connection, pid, processes)
        create, release = Phase(), Phase()
        for number, orders in enumerate(
            ground.rounds(size.requests, nodes=size.nodes, seed=size.seed, pressure=size.pressure)
        ):
            _round(stage, orders, create, release)
            _deliver(stage, url) if number == 0 else _discard(connection)
            bench.progress(
                f"allocations: round {number + 1}, {len(create.calls)} requests, "
                f"create {create.per_s[-1]}/s, release {release.per_s[-1]}/s"
            )
        _figures(stage, create, release)
        _commit_to_consumer(stage, url, len(create.calls) / create.seconds)
        _check_claims(stage, create)
    if dump is not None:
        raw = {"create_ms": create.ms(Ended.DONE), "release_ms": release.ms(Ended.DONE)}
        dump.write_text(json.dumps(raw), encoding="utf-8")


def _fixture(bench: Bench, database: Database, size: Size) -> None:
    ground.furnish(database, nodes=size.nodes)
    gpus = size.nodes * ground.SLOTS
    counts = {
        "nodes": (size.nodes, "select count(*) as found from nodes where status = 'active'"),
        "gpus_free": (gpus, "select count(*) as found from slots where status = 'available'"),
        "allocations_before": (0, "select count(*) as found from allocations"),
        "events_before": (0, "select count(*) as found from outbox"),
        "projects": (ground.PROJECTS, "select count(*) as found from projects"),
    }
    for what, (expected, statement) in counts.items():
        bench.expect(what, expected=expected, actual=found(database, statement))
    for name in ("server_version", "fsync", "synchronous_commit"):
        bench.fixture[name] = ground.setting(database, name)


def _floor(bench: Bench, database: Database) -> None:
    """What no request can be faster than here: a round trip, and a commit that reaches the disk."""
    again = [lambda: None] * FLOOR_RUNS
    database.execute("create table bench_floor (number int)")
    bench.time_ms("round_trip_ms", lambda: database.execute("select 1"), prepare=again)
    bench.time_ms(
        "commit_ms", lambda: database.execute("insert into bench_floor values (1)"), prepare=again
    )
    for key in ("round_trip_ms", "commit_ms"):
        bench.figures[key] = percentile(bench.samples[key], 50)
    database.execute("drop table bench_floor")


def _round(stage: Stage, orders: list[Order], create: Phase, release: Phase) -> None:
    """An empty fleet is filled and emptied."""
    made = stage.timed(create, Task.CREATE, orders)
    held = [
        (call.allocation, call.order.project)
        for call in made.calls
        if call.allocation is not None and call.order is not None
    ]
    check_refusals(stage, made.calls)
    ids = [allocation for allocation, _ in held]
    stage.clients.do(Task.ACTIVATE, ids)
    given = found(
        stage.database, "select count(*) as found from allocations where status = 'active'"
    )
    _must("active", expected=len(held), actual=given)
    stage.timed(release, Task.RELEASE, held)
    stage.clients.do(Task.FREE, ids)
    left = found(stage.database, "select count(*) as found from slots where status <> 'available'")
    _must("gpus_not_given_back", expected=0, actual=left)


def check_refusals(stage: Stage, calls: Sequence[Call]) -> None:
    """Nothing is given back while a round creates: what was refused once must not be free now."""
    refused = {call.order.gpus for call in calls if call.order and call.ended is Ended.REFUSED}
    for gpus in refused:
        free = found(stage.database, ground.FREE_BLOCKS, gpus=gpus)
        _must(f"free_blocks_of_{gpus}_that_were_refused", expected=0, actual=free)


def _must(what: str, *, expected: int, actual: int) -> None:
    if expected != actual:
        raise FixtureError(f"allocations: {what} is {actual}, not {expected}")


def _deliver(stage: Stage, url: str) -> None:
    """The events of a round: first what a relay does alone, then all the way to a consumer."""
    bench, database = stage.bench, stage.database
    total = found(database, "select count(*) as found from outbox")
    keys = found(database, "select count(distinct key) as found from outbox")
    with started(url, CARRIER_TASKS, seed=0) as pipe:
        pipe.send(Job(Task.RELAY))
        relayed = received(pipe)
        bench.expect("events_relayed", expected=keys, actual=relayed.count)
        pipe.send(Job(Task.CARRY))
        _wait_until_consumed(stage, total)
        pipe.send(None)
        received(pipe)
    bench.figures["relay_per_s"] = _rate(relayed.count, relayed.seconds)
    bench.figures["deliver_per_s"] = _rate(total, seconds_of(database))
    bench.expect("events_delivered", expected=total, actual=found(database, CONSUMED))
    bench.expect("events_out_of_turn", expected=0, actual=found(database, ground.OUT_OF_TURN))


CONSUMED: Final = "select count(*) as found from consumed"


def _wait_until_consumed(stage: Stage, events: int) -> None:
    clock = stage.bench.clock
    deadline_s = clock.elapsed_s() + DELIVER_S
    while found(stage.database, CONSUMED) < events:
        if clock.elapsed_s() > deadline_s:
            raise FixtureError(
                f"allocations: {events} events were not consumed in {DELIVER_S:.0f} s"
            )
        time.sleep(0.1)


def seconds_of(database: Database) -> float:
    """From the first event that was consumed to the last one."""
    row = database.execute(
        "select extract(epoch from max(at) - min(at))::float8 as found from consumed"
    ).fetchone()
    assert row is not None
    return float(row["found"])


def _discard(database: Database) -> None:
    """The events of later rounds are like those of the first."""
    database.execute(
        """update outbox set status = 'discarded', ended_at = clock_timestamp()
           where status = 'pending'"""
    )


def _commit_to_consumer(stage: Stage, url: str, create_per_s: float) -> None:
    """Requests at a calm pace; from the write of the event to the consumer that begins with it."""
    bench, database = stage.bench, stage.database
    per_s = min(PACED_PER_S_MAX, PACED_SHARE * create_per_s)
    count = min(PACED_MAX, stage.size.requests, stage.size.nodes * ground.SLOTS)
    before = found(database, CONSUMED)
    orders = [ground.ordered(ground.SLICE, 1, number) for number in range(count)]
    with started(url, CARRIER_TASKS, seed=1) as carrier:
        carrier.send(Job(Task.CARRY))
        pipe = stage.clients.pipes[0]
        pipe.send(Job(Task.CREATE_PACED, orders, per_s))
        made = received(pipe)
        _must("paced", expected=count, actual=sum(call.ended is Ended.DONE for call in made.calls))
        _wait_until_consumed(stage, before + count)
        carrier.send(None)
        received(carrier)
    rows = database.execute(
        """select extract(epoch from consumed.at - outbox.created_at)::float8 * 1000 as ms
           from consumed join outbox on outbox.id = consumed.event_id
           order by outbox.position desc limit %s""",
        [count],
    ).fetchall()
    bench.expect("events_paced", expected=count, actual=len(rows))
    bench.figures["paced_per_s"] = round(per_s, 1)
    _spread(bench, "commit_to_consumer", [row["ms"] for row in rows])


def _figures(stage: Stage, create: Phase, release: Phase) -> None:
    bench = stage.bench
    for name, phase in (("create", create), ("release", release)):
        bench.figures[f"{name}_per_s"] = _rate(len(phase.calls), phase.seconds)
        _spread(bench, name, phase.ms(Ended.DONE))
        bench.samples[f"{name}_per_s"] = phase.per_s
        bench.figures[f"{name}_cpu"] = _cpu(phase, stage.size.processes)
    bench.figures["created"] = len(create.ms(Ended.DONE))
    bench.figures["busy"] = len(create.ms(Ended.BUSY))
    bench.figures["refused"] = len(create.ms(Ended.REFUSED))
    _spread(bench, "refuse", create.ms(Ended.REFUSED))
    bench.figures["released"] = len(release.calls)


def _cpu(phase: Phase, processes: int) -> dict[str, object]:
    """CPUs in use on both sides, and so what more of would help."""
    client = phase.cpu_s / phase.seconds
    server = None if phase.server_cpu_s is None else phase.server_cpu_s / phase.seconds
    if server is not None and client + server > BUSY_SHARE * (os.cpu_count() or 1):
        bound = "cpus"
    elif client > BUSY_SHARE * processes:
        bound = "client processes"
    else:
        bound = "waits for disk, locks or other programs"
    return {
        "clients": round(client, 2),
        "server": None if server is None else round(server, 2),
        "bound_by": bound,
    }


def _check_claims(stage: Stage, create: Phase) -> None:
    """Over everything that was ever claimed."""
    bench, database = stage.bench, stage.database
    paced = int(str(bench.fixture["events_paced"]))
    granted = len(create.ms(Ended.DONE)) + paced
    gpus = paced + sum(
        call.order.gpus for call in create.calls if call.order and call.ended is Ended.DONE
    )
    facts = {
        "allocations": (granted, "select count(*) as found from allocations"),
        "gpus_granted": (gpus, "select sum(gpus) as found from allocations"),
        "gpus_claimed": (gpus, ground.GPUS_CLAIMED),
        "claimed_twice": (0, ground.CLAIMED_TWICE),
        "held_otherwise": (0, ground.HELD_OTHERWISE),
    }
    for what, (expected, statement) in facts.items():
        bench.expect(what, expected=expected, actual=found(database, statement))


def _spread(bench: Bench, name: str, samples: Sequence[float]) -> None:
    """p50, p99 and max, from every single sample; null where there is none."""
    for key, share in (("p50", 50), ("p99", 99), ("max", 100)):
        value = percentile(samples, share) if samples else None
        bench.figures[f"{name}_{key}_ms"] = value


def percentile(samples: Sequence[float], share: int) -> float:
    """The least sample that so many of a hundred are not above."""
    ordered = sorted(samples)
    return round(ordered[max(0, math.ceil(share * len(ordered) / 100) - 1)], 3)


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 1) if seconds > 0 else 0.0
