"""A provider killed in the middle of its work: nothing acknowledged is lost, the store opens."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import outside
from hardware import Hardware, a_slot, serving
from mainstay.model.calls import CreateRequest, Fence, GetRequest, ListRequest
from mainstay.model.errors import Fenced
from mainstay.model.state import State
from mainstay.providers.kit.server import ProviderServer
from mainstay.providers.kit.store import SqliteStore
from mainstay.runtime.clock import SystemClock

MACHINES: Final = 200
ACKED_BEFORE_THE_KILL: Final = 60

PROGRAM: Final = f'''
import asyncio, json, sys, time
from pathlib import Path
from hardware import Hardware, a_slot, serving
from mainstay.model.calls import CreateRequest, Fence
from mainstay.providers.kit.store import SqliteStore
from mainstay.runtime.clock import SystemClock

class SlowDisk(SqliteStore):
    """So that an answer which does not wait for the disk is ahead of it when the kill comes."""

    def _commit(self, taken):
        time.sleep(0.02)
        return super()._commit(taken)

async def main():
    hardware = Hardware(*(a_slot(f"m-{{n}}") for n in range({MACHINES})), delay_s=0.01)
    store = SlowDisk(Path(sys.argv[1]))
    async with serving(hardware, store=store, clock=SystemClock()) as server:
        numbers = iter(range(1, 10**9))

        async def churn(machine):
            while True:
                fence = Fence("s", 1, next(numbers))
                ack = await server.create(CreateRequest(machine, fence))
                line = [machine, ack.operation, fence.epoch, fence.sequence]
                sys.stdout.write(json.dumps(line) + "\\n")
                sys.stdout.flush()

        async with asyncio.TaskGroup() as tasks:
            for n in range({MACHINES}):
                tasks.create_task(churn(f"m-{{n}}"))

asyncio.run(main())
'''


def killed(path: Path) -> list[list[Any]]:
    """What a provider acknowledged before it was killed with SIGKILL, at no particular moment."""
    env = outside.environment(PYTHONPATH=str(outside.ROOT / "tests"))
    command = [sys.executable, "-c", PROGRAM, str(path)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(ACKED_BEFORE_THE_KILL)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    return [json.loads(line) for line in lines if line.endswith("\n")]


@pytest.mark.parametrize("turn", range(3))
def test_nothing_acknowledged_is_lost_when_a_provider_is_killed(tmp_path: Path, turn: int) -> None:
    path = tmp_path / "provider.db"
    acknowledged = killed(path)
    assert len(acknowledged) >= ACKED_BEFORE_THE_KILL

    async def after() -> None:
        store = SqliteStore(path)
        try:
            slots = [a_slot(f"m-{n}", host=f"host-of-m-{n}") for n in range(MACHINES)]
            async with serving(Hardware(*slots), store=store, clock=SystemClock()) as server:
                for machine, operation, epoch, sequence in acknowledged:
                    await remembered(server, machine, operation, Fence("s", epoch, sequence))
                assert len((await server.list(ListRequest())).machines) == MACHINES
        finally:
            store.close()

    asyncio.run(after())


async def remembered(server: ProviderServer, machine: str, operation: str, fence: Fence) -> None:
    with pytest.raises(Fenced):
        await server.create(CreateRequest(machine, fence))
    if (await server.get(GetRequest(machine))).state in {State.CREATING, State.IDLE}:
        assert (await server.create(CreateRequest(machine))).operation == operation
