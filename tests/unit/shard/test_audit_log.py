"""The audit log beside the loop: nobody waits for the disk, and nothing is lost without a word."""

import asyncio
import errno
import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

import virtual_loop
from mainstay.shard.audit.files import AuditFiles, Sizes, files_of
from mainstay.shard.audit.log import AuditLog, AuditOptions
from mainstay.shard.audit.verify import verify
from mainstay.shard.events import Event
from mainstay.shard.orders import Disposed

AnswerT = TypeVar("AnswerT")


async def at_once(work: Callable[[], AnswerT], /) -> AnswerT:
    return work()


class Journal:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Event, Mapping[str, object]]] = []

    def disposed(self, records: Iterable[Disposed]) -> None:
        raise AssertionError

    def noticed(self, event: Event, *, reason: str = "", **facts: object) -> None:
        self.told.append((event, facts))


class Disk:
    def __init__(self) -> None:
        self.full = False
        self.writes = 0

    def write(self, file: int, content: memoryview) -> int:
        self.writes += 1
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(file, content)


def content(number: int) -> Mapping[str, object]:
    return {"number": number}


def lines_of(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(x) for path in files_of(directory) for x in path.read_text().splitlines()]


def tell(log: AuditLog, numbers: Iterable[int]) -> None:
    for number in numbers:
        log.append(partial(content, number))


async def running(log: AuditLog, journal: Journal, seconds: float) -> None:
    """Let it run for so long."""
    try:
        async with asyncio.timeout(seconds):
            await log.run(journal)
    except TimeoutError:
        return


def test_what_is_told_is_written_in_batches_and_in_order(tmp_path: Path) -> None:
    disk, journal = Disk(), Journal()

    async def scenario() -> None:
        files = AuditFiles(tmp_path, Sizes(), write=disk.write)
        log = AuditLog(files, at_once, AuditOptions(batch_lines=40))
        tell(log, range(100))
        assert (len(log), disk.writes) == (100, 0)
        await running(log, journal, 1)
        assert (len(log), log.written) == (0, 100)
        await log.close(journal)

    virtual_loop.run(scenario())

    assert [line["number"] for line in lines_of(tmp_path)] == [*range(100)]
    assert (disk.writes, journal.told) == (3, [])
    assert verify(tmp_path).broken == ""


def test_closing_writes_what_waits_and_leaves_the_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = AuditLog(AuditFiles(tmp_path, Sizes()), at_once)
        tell(log, range(5))
        await log.close(Journal())

    virtual_loop.run(scenario())

    assert verify(tmp_path).lines == 5
    AuditFiles(tmp_path, Sizes()).close()


def test_a_full_disk_is_told_and_what_waits_is_written_when_there_is_room(tmp_path: Path) -> None:
    disk, journal = Disk(), Journal()

    async def scenario() -> None:
        log = AuditLog(AuditFiles(tmp_path, Sizes(), write=disk.write), at_once)
        disk.full = True
        tell(log, range(5))
        await running(log, journal, 5)
        assert (len(log), log.written) == (5, 0)
        disk.full = False
        await running(log, journal, 100)
        await log.close(journal)

    virtual_loop.run(scenario())

    assert [line["number"] for line in lines_of(tmp_path)] == [*range(5)]
    assert {event for event, _ in journal.told} == {Event.AUDIT_LOG_FAILED}
    assert journal.told[0][1] == {"why": "No space left on device", "waiting": 5, "lost": 0}
    assert len(journal.told) == 3  # at 0.2 s, then 1 and 2 s later


def test_lines_without_room_are_counted_in_a_line_of_their_own(tmp_path: Path) -> None:
    disk, journal = Disk(), Journal()

    async def scenario() -> None:
        files = AuditFiles(tmp_path, Sizes(), write=disk.write)
        log = AuditLog(files, at_once, AuditOptions(waiting_max=3))
        tell(log, range(10))
        assert (len(log), log.lost) == (3, 7)
        await log.flush(journal)
        tell(log, [10])
        await log.close(journal)

    virtual_loop.run(scenario())

    told = [line.get("number", (line.get("what"), line.get("lines"))) for line in
            lines_of(tmp_path)]  # fmt: skip
    assert told == [0, 1, 2, ("lost", 7), 10]


def test_a_disk_that_is_full_to_the_end_does_not_keep_a_shard_from_stopping(tmp_path: Path) -> None:
    disk, journal = Disk(), Journal()

    async def scenario() -> None:
        log = AuditLog(AuditFiles(tmp_path, Sizes(), write=disk.write), at_once)
        disk.full = True
        tell(log, range(5))
        await log.close(journal)

    virtual_loop.run(scenario())

    assert [event for event, _ in journal.told] == [Event.AUDIT_LOG_FAILED]


def test_what_a_start_found_is_told_first(tmp_path: Path) -> None:
    journal = Journal()
    AuditFiles(tmp_path, Sizes()).close()
    (tmp_path / "audit-000000000001.jsonl").write_bytes(b"half a line")
    (tmp_path / "head.json").write_bytes(b"x")

    async def scenario() -> None:
        await running(AuditLog(AuditFiles(tmp_path, Sizes()), at_once), journal, 1)

    virtual_loop.run(scenario())

    assert journal.told == [
        (Event.AUDIT_LOG_TORN, {"file": "audit-000000000001.torn-1", "bytes": 11}),
        (Event.AUDIT_LOG_BROKEN, {"why": "head.json is not as it was written"}),
    ]


@pytest.mark.parametrize("cancelled_after", range(0, 30, 3))
def test_nothing_is_lost_or_doubled_when_the_writing_is_cancelled(
    cancelled_after: int, tmp_path: Path
) -> None:
    """In real threads: what a thread has taken, it writes, whoever stopped waiting for it."""

    async def scenario() -> None:
        options = AuditOptions(gather_s=0.0, batch_lines=7)
        log = AuditLog(AuditFiles(tmp_path, Sizes()), asyncio.to_thread, options)
        journal = Journal()
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(log.run(journal))
            for number in range(100):
                tell(log, [number])
                if number % 3 == 0:
                    await asyncio.sleep(0)
                if number == cancelled_after:
                    writing.cancel()
        await log.close(journal)

    asyncio.run(scenario())

    assert [line["number"] for line in lines_of(tmp_path)] == [*range(100)]
    assert verify(tmp_path).broken == ""
