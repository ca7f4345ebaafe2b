"""The machines themselves: real ones start their agent by the blob, simulated ones start here.

What stands on a machine is its own affair. The bridge only says, again and again, which machines
are on and with which blob; whoever is behind the port makes that so.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final, Protocol

from mainstay.bridge.blob import Blob, read
from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.runtime.beside import beside
from mainstay.runtime.clock import Clock
from mainstay.runtime.log import logger
from mainstay.tenancy.agent_faults import Faults
from mainstay.tenancy.agent_host import Host
from mainstay.tenancy.agent_sim import WAIT_S, SimulatedAgent
from mainstay.tenancy.enrolment import EnrolmentRefused, NotThisNode
from mainstay.tenancy.http.agent_client import HttpAgentApi
from mainstay.tenancy.private_files import private_folder, read_private

PAUSE_S: Final = 0.5
LOOK_S: Final = 2.0

Invite = Callable[[str], Awaitable[str]]
"""A fresh token for a node, as a person at its console would be given."""


class Machines(Protocol):
    """Whoever stands behind the machines."""

    def stand(self, on: Mapping[str, bytes], unsaid: AbstractSet[str]) -> None:
        """These nodes are on, each with its blob; of those nobody has said anything. Never waits.

        All others are off.
        """


class RealMachines:
    """They look after themselves."""

    def stand(self, on: Mapping[str, bytes], unsaid: AbstractSet[str]) -> None:
        """Nothing to do."""


class SimulatedMachines:
    """Agents in this process that call like any other; their disk outlives the process."""

    def __init__(
        self, folder: Path, clock: Clock, faults: Faults, invite: Invite, tasks: asyncio.TaskGroup
    ) -> None:
        self._folder, self._clock, self._faults = folder, clock, faults
        self._invite, self._tasks = invite, tasks
        self._running: dict[str, asyncio.Task[None]] = {}

    def stand(self, on: Mapping[str, bytes], unsaid: AbstractSet[str]) -> None:
        """Start an agent on what is on, stop those of what is off; disks stay."""
        for node in sorted(self._running.keys() - on.keys() - unsaid):
            self._running.pop(node).cancel()
        for node in sorted(on.keys() - self._running.keys()):
            work = self._run(read(on[node]))
            self._running[node] = self._tasks.create_task(work, name=f"agent of {node}")

    async def _run(self, blob: Blob) -> None:
        """From boot to power-off; whatever goes wrong, the machine starts its agent again."""
        host = _from_disk(self._folder, blob.node)
        token = blob.token
        while True:
            try:
                await self._agent(blob, host, token)
            except (EnrolmentRefused, NotThisNode):  # its disk is older than its certificate
                host.certificate = b""
                token = await self._invited(blob.node) or token
            except MainstayError as error:
                logger(node=blob.node).info("simulated_agent_stumbled", error=error.message)
            except Exception:  # noqa: BLE001 - the boundary: one machine costs no other
                logger(node=blob.node).exception("simulated_agent_failed")
            await asyncio.sleep(PAUSE_S)

    async def _agent(self, blob: Blob, host: Host, token: str) -> None:
        api = HttpAgentApi(blob.url, blob.authority.encode())
        agent = SimulatedAgent(api, blob.node, self._faults, self._clock, Random(), host=host)
        if not host.certificate:
            await agent.enrol(token)
            _to_disk(self._folder, blob.node, host)
            await agent.run()
        await beside(agent.run(), _inherited(api, agent, blob.node))

    async def _invited(self, node: str) -> str | None:
        try:
            return await self._invite(node)
        except MainstayError:
            return None


@asynccontextmanager
async def simulated(
    folder: Path, clock: Clock, faults: Faults, invite: Invite
) -> AsyncIterator[SimulatedMachines]:
    """Machines that are on while the block runs."""
    async with asyncio.TaskGroup() as tasks:
        machines = SimulatedMachines(private_folder(folder), clock, faults, invite, tasks)
        try:
            yield machines
        finally:
            for task in tuple(machines._running.values()):  # noqa: SLF001 - our own
                task.cancel()


async def _inherited(api: HttpAgentApi, agent: SimulatedAgent, node: str) -> None:
    """Do what was handed to the agent before this one after it had died.

    Its last question may be open for as long as a poll lasts, and a task that is given in answer
    to it is in nobody's hands. What we have begun ourselves is left alone.
    """
    for _ in range(round(2 * WAIT_S / LOOK_S)):
        await asyncio.sleep(LOOK_S)
        with suppress(Unavailable):
            for envelope in await api.in_hand(node):
                if envelope.get("task_id") not in agent.host.begun:
                    await agent.perform(envelope)
    await asyncio.Event().wait()


def _file(folder: Path, node: str) -> Path:
    return folder / f"{node}.json"


def _from_disk(folder: Path, node: str) -> Host:
    """What the machine had when it was last on; a disk that cannot be read is a new one."""
    try:
        said = json.loads(read_private(_file(folder, node)))
        return Host(
            key=base64.b64decode(said["key"]),
            certificate=base64.b64decode(said["certificate"]),
            certificate_expires_s=float(said["expires_s"]),
            believed=dict(said["believed"]),
        )
    except (Rejected, ValueError, KeyError, TypeError):
        return Host()


def _to_disk(folder: Path, node: str, host: Host) -> None:
    text = json.dumps(
        {
            "key": base64.b64encode(host.key).decode(),
            "certificate": base64.b64encode(host.certificate).decode(),
            "expires_s": host.certificate_expires_s,
            "believed": dict(host.believed),
        }
    )
    unfinished = folder / f".{node}.new"
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(_file(folder, node))
