"""What only a store in one file has to bear: kill -9, and files that are something else."""

import asyncio
import os
import sqlite3
import sys
from pathlib import Path
from typing import Final

import pytest

from mainstay.coordinator.embedded import EmbeddedStore
from mainstay.coordinator.store import Change
from mainstay.model.errors import Rejected, Unavailable
from mainstay.runtime.children import Children
from mainstay.runtime.clock import StepClock, SystemClock
from running import until
from store_processes import THIS, said
from stores import Backend, held, on_a_file

PAGE: Final = 4096


def _loaded(path: Path) -> None:
    async def scenario() -> None:
        store = EmbeddedStore(path, clock=StepClock())
        try:
            await store.load()
        finally:
            await store.close()

    asyncio.run(scenario())


def test_it_says_that_it_is_not_replicated(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "c.db", clock=StepClock())

    assert "not replicated" in store.label


def test_what_was_committed_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    with Children(tmp_path / "home") as children:
        writer = children.program("writer", [sys.executable, str(THIS), "write", str(path)])
        until(lambda: len(said(writer.log)) > 50)
        writer.kill()
        committed = {line["committed"] for line in said(writer.log)}

    async def scenario() -> None:
        store = EmbeddedStore(path, clock=SystemClock(), lease_s=60.0)
        found = await held(store)
        sides = [{key.split("/")[1] for key in found if key.startswith(s)} for s in ("l", "r")]
        assert sides[0] == sides[1]  # each change is whole
        assert {str(number) for number in committed} <= sides[0]
        assert await store.leader() is not None  # its lease outlives it
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "content", [b"no database at all, " * 100, b"SQLite format 3\0" + b"\xff" * 4080]
)
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.db"
    path.write_bytes(content)

    with pytest.raises(Rejected, match=r"c\.db"):
        _loaded(path)
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    base = sqlite3.connect(path)
    base.execute("create table theirs (x)")
    base.close()
    content = path.read_bytes()

    with pytest.raises(Rejected, match=r"not a store of a coordinator: .*c\.db"):
        _loaded(path)
    assert path.read_bytes() == content


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    _loaded(path)
    base = sqlite3.connect(path)
    base.execute("pragma user_version = 9")
    base.close()

    with pytest.raises(Rejected, match="newer version"):
        _loaded(path)


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.db"

    async def filled(stage: Backend) -> None:
        _, leads = await stage.led()
        await leads.commit(Change(puts={f"k{n}": b"v" * 4000 for n in range(90)}))

    on_a_file(path).run(filled)
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(size // 2 // PAGE * PAGE)
        file.write(b"\xff" * PAGE)

    with pytest.raises(Rejected, match=r"damaged: .*c\.db .*restore a snapshot"):
        _loaded(path)


def test_a_file_that_cannot_be_opened_passes_for_an_outage(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot use"):
        _loaded(tmp_path)


def test_after_closing_nothing_is_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = EmbeddedStore(tmp_path / "c.db", clock=StepClock())
        await store.load()
        await store.close()
        await store.close()
        with pytest.raises(Unavailable, match="closed"):
            await store.load()

    asyncio.run(scenario())
