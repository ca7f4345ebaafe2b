"""What the worker needs of an engine for durable work: it remembers how far each piece of work got.

An engine may run a step twice, when it dies after the step and before it has noted so; every step
stands that. It never skips one, and never runs one out of its order.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from mainstay.tenancy.worker.tools import Tools

Facts = dict[str, Any]
"""What goes into steps and comes out of them: nothing but JSON."""


class Run(Protocol):
    """One piece of work under way, as its plan sees it."""

    async def step(self, name: str, **facts: Any) -> Facts:
        """The answer of a step of `steps.STEPS`: the first one it ever gave."""

    async def pause(self, seconds: float) -> None:
        """Wait; a pause that is over is not waited for again."""


Plan = Callable[[Run, Facts], Awaitable[None]]
"""Which steps follow which answers. It knows nothing but them: the same answers, the same steps."""

Step = Callable[..., Awaitable[Facts]]
Steps = Mapping[str, Step]
Plans = Mapping[str, Plan]


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Work that somebody has in hand, or had when it died."""

    workflow_id: str
    executor: str


class Workflows(Protocol):
    """An engine. Each method raises Unavailable when it cannot be reached."""

    async def start(self, workflow_id: str, name: str, argument: Facts) -> None:
        """Begin a plan of `plans.PLANS`; nothing if there ever was work with this id."""

    async def unfinished(self) -> list[Unfinished]:
        """All work in hand, of every executor."""

    async def resume(self, workflow_id: str) -> None:
        """Let some living executor go on with it. Who had it can note nothing about it any more."""

    async def prune(self, kept_s: float) -> int:
        """Forget some work that has been finished for so long; how much it was."""


class Engine(Protocol):
    """Starts one, for as long as a block runs."""

    def __call__(
        self, url: str, tools: Tools, executor: str, /, *, steps: Steps
    ) -> AbstractAsyncContextManager[Workflows]:
        """The engine that takes these steps, as this executor; `url` is of the database."""
