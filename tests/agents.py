"""The node side of a test's world: an authority, a signer, agents that enrolled, tasks for them."""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from cryptography import x509

from mainstay.runtime.clock import Clock, SystemClock
from mainstay.tenancy import enrolment, signing, tasks
from mainstay.tenancy.agent_api import LocalApi
from mainstay.tenancy.agent_faults import HEALTHY, Faults
from mainstay.tenancy.agent_host import Host
from mainstay.tenancy.agent_sim import SimulatedAgent
from mainstay.tenancy.authority import Authority, fingerprint, new_key
from mainstay.tenancy.bell import Bell
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.enrolment import Application
from mainstay.tenancy.signing import Signer
from mainstay.tenancy.states import TaskStatus
from mainstay.tenancy.tasks import Task
from mainstay.tenancy.work import TaskResult, TaskType
from tenants import NEW, value

DONE = TaskResult(status=TaskStatus.COMPLETED, output={"ready": True})
SLOT = {"slot_index": 0, "pci_address": "0000:01:00.0", "private_ip": "10.100.0.9"}


@dataclass
class NodeSide:
    """What the control plane has for its nodes."""

    pool: Pool
    folder: Path
    clock: Clock = field(default_factory=SystemClock)
    bell: Bell | None = None

    def __post_init__(self) -> None:
        self.signer = Signer(self.folder / "signing")
        self.authority = Authority(self.folder / "authority", self.clock)

    async def open(self) -> "NodeSide":
        """With a key that signs."""
        async with transaction(self.pool) as tx:
            await signing.ensure_active(tx, NEW, self.signer)
        return self

    def api(self) -> LocalApi:
        return LocalApi(self.pool, self.authority, self.bell)

    def api_of(self, agent: SimulatedAgent) -> LocalApi:
        """Speaks as this agent, so that a test can come between."""
        api = self.api()
        api.present(agent.host.certificate, agent.host.key)
        return api

    async def token(self, node: str = "node-a", *, valid_s: float = 900) -> str:
        async with transaction(self.pool) as tx:
            return await enrolment.invite(tx, node, valid_s=valid_s)

    async def certificate(self, node: str = "node-a") -> str:
        """The fingerprint that a freshly enrolled node goes by."""
        token = await self.token(node)
        await enrolment.enrol(self.pool, self.authority, token, application(node))
        return str(
            await value(self.pool, "select cert_fingerprint from nodes where id = %s", [node])
        )

    async def agent(
        self,
        faults: Faults = HEALTHY,
        *,
        node: str = "node-a",
        host: Host | None = None,
        clock: Clock | None = None,
    ) -> SimulatedAgent:
        """One that has enrolled; or, on a host that has, the next one."""
        found = SimulatedAgent(self.api(), node, faults, clock or self.clock, Random(0), host=host)
        if not found.host.certificate:
            await found.enrol(await self.token(node))
        return found

    async def queue(
        self,
        kind: TaskType = TaskType.VM_PROVISION,
        *,
        allocation: str | None = None,
        attempt: int = 1,
        expires_in_s: float = 60.0,
        **changes: Any,
    ) -> str:
        task = Task(
            node=changes.pop("node", "node-a"),
            allocation=allocation,
            type=kind,
            attempt=attempt,
            params=changes.pop("params", {"slots": [SLOT]}),
            expires_in_s=expires_in_s,
            correlation_id="cor_one",
        )
        async with transaction(self.pool) as tx:
            return await tasks.enqueue(tx, NEW, changes.pop("signer", self.signer), task)


def application(node: str = "node-a") -> Application:
    return Application(node=node, csr=new_key()[1], agent_version="test-1")


def shown(certificate: bytes) -> str:
    """The fingerprint of a certificate in PEM."""

    return fingerprint(x509.load_pem_x509_certificate(certificate))
