"""What a shard asks, handed to the handlers side by side: a bug in one of them ends no other."""

import asyncio
from collections.abc import Callable
from typing import Final

from mainstay.model.calls import BLOB_BYTES_MAX
from mainstay.model.errors import MainstayError
from mainstay.model.frames import (
    BootstrapAnswer,
    BootstrapAsked,
    CapacityHint,
    NodeState,
    ReclaimAck,
    ReclaimTold,
)
from mainstay.runtime.log import logger
from mainstay.session.handlers import Handlers
from mainstay.session.newest import Newest

HANDLERS_MAX: Final = 32
"""So many node states, and so many hints, are handled at a time."""

_INT32_MAX: Final = 2**31 - 1

Answer = Callable[[BootstrapAnswer | ReclaimAck], None]


class Work:
    """Outlives a stream: what was begun is finished, and answered on the next one."""

    def __init__(self, handlers: Handlers, answer: Answer, tasks: asyncio.TaskGroup) -> None:
        self._handlers = handlers
        self._answer = answer
        self._tasks = tasks
        self._bootstraps: set[str] = set()
        self._states = Newest(self._node_state, tasks, workers_max=HANDLERS_MAX)
        self._hints = Newest(self._hint, tasks, workers_max=HANDLERS_MAX)

    def hear(self, frame: BootstrapAsked | ReclaimTold | NodeState | CapacityHint) -> None:
        """Begin what a frame asks for; never waits."""
        match frame:
            case BootstrapAsked():
                if frame.request not in self._bootstraps:  # asked again on a new stream
                    self._bootstraps.add(frame.request)
                    self._tasks.create_task(self._bootstrap(frame))
            case ReclaimTold():
                self._tasks.create_task(self._reclaim(frame))
            case NodeState():
                self._states.put(frame.key, frame)
            case CapacityHint():
                self._hints.put(frame.key, frame)

    async def _bootstrap(self, asked: BootstrapAsked) -> None:
        blob, error = b"", ""
        try:
            blob = await self._handlers.bootstrap(asked)
        except MainstayError as refusal:
            error = refusal.message or refusal.code
        except Exception as defect:  # noqa: BLE001 - the boundary: a bug costs one answer
            logger().exception("bootstrap_handler_failed", request=asked.request)
            error = f"the bootstrap handler failed: {type(defect).__name__}"
        if len(blob) > BLOB_BYTES_MAX:
            error = f"bootstrap too large: {len(blob)} bytes (at most {BLOB_BYTES_MAX})"
        self._bootstraps.discard(asked.request)
        self._answer(BootstrapAnswer(asked.request, b"" if error else blob, error=error))

    async def _reclaim(self, told: ReclaimTold) -> None:
        started = 0
        try:
            started = await self._handlers.reclaim(told)
        except Exception:  # noqa: BLE001 - the boundary: the drain goes on without us
            logger().exception("reclaim_handler_failed", nodes=told.nodes)
        self._answer(ReclaimAck(told.instruction, max(0, min(started, _INT32_MAX))))

    async def _node_state(self, state: NodeState) -> None:
        try:
            await self._handlers.node_state(state)
        except Exception:  # noqa: BLE001 - the boundary: the next state comes all the same
            logger().exception("node_state_handler_failed", machine=state.machine)

    async def _hint(self, hint: CapacityHint) -> None:
        try:
            await self._handlers.hint(hint)
        except Exception:  # noqa: BLE001 - the boundary: it was only a hint
            logger().exception("hint_handler_failed", fingerprint=hint.fingerprint)
