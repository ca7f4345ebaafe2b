"""One task on a simulated host: its phases in order, and back again if one fails."""

import asyncio
import datetime as dt
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from mainstay.runtime.clock import Clock
from mainstay.tenancy.agent_faults import FAILING, AgentDied, Fault, Faults
from mainstay.tenancy.agent_host import Host, resources
from mainstay.tenancy.states import TaskStatus
from mainstay.tenancy.work import (
    PHASES,
    TAKES_BACK,
    ErrorCode,
    Phase,
    TaskResult,
    TaskType,
)

SSH_PORT: Final = 22


class PhaseFailed(Exception):
    """A phase could not be done."""

    def __init__(self, phase: Phase, code: ErrorCode, detail: str) -> None:
        super().__init__(f"{phase}: {detail}")
        self.phase, self.code, self.detail = phase, code, detail


class Run:
    """The work of one task."""

    def __init__(self, host: Host, node: str, faults: Faults, clock: Clock, random: Random) -> None:
        self._host, self._node, self._faults = host, node, faults
        self._clock, self._random = clock, random
        self._phases: list[dict[str, str]] = []

    async def result(
        self, kind: TaskType, allocation: str, params: Mapping[str, Any]
    ) -> TaskResult:
        """Do all its phases; how it ended."""
        try:
            for phase in PHASES[kind]:
                if phase is not Phase.REPORT:
                    await self._phase(phase, allocation, params)
        except PhaseFailed as failed:
            return self._failed(failed, kind, allocation)
        return TaskResult(
            status=TaskStatus.COMPLETED,
            output={**self._output(kind, allocation, params), "phases": self._phases},
        )

    def refused(self, code: ErrorCode, detail: str) -> TaskResult:
        """Nothing was touched."""
        phase = PhaseFailed(Phase.VERIFY_TASK, code, detail)
        self._note(Phase.VERIFY_TASK, self._clock.now_s(), "failed", detail)
        return self._said(phase, undo=[], clean=True)

    def undone(self, allocation: str) -> TaskResult:
        """The last agent died at it: take down what it left."""
        left = self._host.standing.get(allocation, [])
        phase = left[-1] if left else Phase.VERIFY_TASK
        undo = self._undo(allocation)
        died = PhaseFailed(phase, ErrorCode.AGENT_RESTARTED, f"the agent died after {phase}")
        return self._said(died, undo=undo, clean=self._host.is_clean(allocation))

    async def _phase(self, phase: Phase, allocation: str, params: Mapping[str, Any]) -> None:
        if phase is self._faults.dies_in:
            raise AgentDied(f"in {phase}")
        started_s = self._clock.now_s()
        await asyncio.sleep(self._takes_s(phase))
        try:
            self._do(phase, allocation, params)
        except PhaseFailed as failed:
            self._note(phase, started_s, "failed", failed.detail)
            raise
        self._note(phase, started_s, "ok", "")

    def _takes_s(self, phase: Phase) -> float:
        roughly = self._faults.phase_s * (0.5 + self._random.random())
        return roughly + (self._faults.slow or {}).get(phase, 0.0)

    def _do(self, phase: Phase, allocation: str, params: Mapping[str, Any]) -> None:
        for fault, failing in FAILING.items():
            if fault in self._faults.named and failing.phase is phase:
                raise PhaseFailed(phase, failing.code, failing.detail)
        if phase is Phase.LEASE_ACQUIRE:
            wanted = resources(self._node, params)
            holder = self._host.lease(allocation, wanted, self._clock.now_s())
            if holder is not None:
                raise PhaseFailed(phase, ErrorCode.LEASE_CONFLICT, f"held for {holder}")
        self._host.did(allocation, phase)
        if phase is Phase.LEASE_RELEASE:
            self._host.clear(allocation)

    def _failed(self, failed: PhaseFailed, kind: TaskType, allocation: str) -> TaskResult:
        if kind in TAKES_BACK:
            return self._said(failed, undo=[], clean=False, proof=_proof(wiped=False, leases=False))
        undo = self._undo(allocation)
        return self._said(failed, undo=undo, clean=self._host.is_clean(allocation))

    def _undo(self, allocation: str) -> list[dict[str, Any]]:
        """In reverse; each step says whether it worked."""
        steps = []
        fails = Fault.UNDO_FAILS in self._faults.named
        for phase in reversed(self._host.standing.get(allocation, [])):
            worked = not (fails and phase is not Phase.LEASE_ACQUIRE)
            steps.append({"phase": str(phase), "undone": worked})
        if all(step["undone"] for step in steps):
            self._host.clear(allocation)
        return steps

    def _said(
        self,
        failed: PhaseFailed,
        *,
        undo: list[dict[str, Any]],
        clean: bool,
        proof: Mapping[str, Any] | None = None,
    ) -> TaskResult:
        return TaskResult(
            status=TaskStatus.FAILED,
            output={
                "phase": str(failed.phase),
                "clean": clean,
                "undo": undo,
                "phases": self._phases,
                **(proof or {}),
            },
            error_code=str(failed.code),
            error_detail=failed.detail,
        )

    def _output(self, kind: TaskType, allocation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if kind in TAKES_BACK:
            return self._proved()
        if kind is TaskType.TOPOLOGY_DISCOVER:
            return self._host.topology()
        if kind is TaskType.HEALTH_PROBE:
            return {"healthy": True, "machines": len(self._host.standing)}
        name = "machine" if kind is TaskType.VM_PROVISION else "username"
        return {
            "ready": True,
            name: str(params.get(name, allocation)),
            "host": _address(params) or f"10.100.0.{2 + self._random.randrange(250)}",
            "ssh_port": SSH_PORT,
        }

    def _proved(self) -> dict[str, Any]:
        hard = Fault.HARD_STOP in self._faults.named
        if Fault.WRONG_PROOF in self._faults.named:
            return dict.fromkeys(_proof(), "true")
        return _proof(wiped=Fault.PARTIAL_PROOF not in self._faults.named, hard_stopped=hard)

    def _note(self, phase: Phase, started_s: float, status: str, detail: str) -> None:
        self._phases.append(
            {
                "name": str(phase),
                "started_at": _written(started_s),
                "ended_at": _written(self._clock.now_s()),
                "status": status,
                "detail": detail,
            }
        )


def _proof(
    *, wiped: bool = True, leases: bool = True, hard_stopped: bool = False
) -> dict[str, Any]:
    return {
        "released": True,
        "hard_stopped": hard_stopped,
        "wiped": wiped,
        "leases_released": leases,
    }


def _address(params: Mapping[str, Any]) -> str:
    slots = [slot for slot in params.get("slots") or [] if isinstance(slot, dict)]
    return str(slots[0].get("private_ip", "")) if slots else ""


def _written(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, tz=dt.UTC).isoformat(timespec="milliseconds")
