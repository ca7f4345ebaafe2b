"""An app by HTTP while a block runs; signals stay the process's own business."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from typing_extensions import override

from mainstay.model.errors import Rejected

CLOSING_S: Final = 1
"""Streams that are still open at the end are cut after this."""


class _Server(uvicorn.Server):
    """Leaves signals alone."""

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing of it."""
        yield


@asynccontextmanager
async def serving_app(
    served: Starlette, listen: str, more: Mapping[str, Any]
) -> AsyncIterator[str]:
    """Serve while the block runs; gives the address, whose port may have been 0."""
    with _bound_to(listen) as bound:
        config = uvicorn.Config(
            served,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=CLOSING_S,
            server_header=False,
            **{"http": "httptools", **more},
        )
        server = _Server(config)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve(sockets=[bound]), name=f"serve {listen}")
            try:
                yield f"{listen.rpartition(':')[0]}:{bound.getsockname()[1]}"
            finally:
                server.should_exit = True


@contextmanager
def _bound_to(listen: str) -> Iterator[socket.socket]:
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host.strip("[]"), int(port)), family=family)
    except OSError as error:
        raise Rejected(f"cannot listen at {listen}: {error.strerror}") from error
    with bound:
        yield bound
