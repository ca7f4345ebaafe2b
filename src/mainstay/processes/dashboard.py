"""`mainstay dashboard`: the page over what runs here, and nothing that anybody depends on."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mainstay.config.dashboard import DashboardConfig
from mainstay.dashboard.access import ENDED_FILE, Doorkeeper, tokens_in
from mainstay.dashboard.app import Parts, build
from mainstay.dashboard.ended import Ended
from mainstay.dashboard.history import History, recording
from mainstay.dashboard.told import Answers
from mainstay.model.errors import Rejected
from mainstay.processes.announce import announced
from mainstay.processes.dashboard_sources import Running
from mainstay.processes.told import until_told
from mainstay.processes.web import serving_app
from mainstay.runtime.clock import Clock
from mainstay.wire.tls import is_loopback


@dataclass(frozen=True, slots=True)
class Around:
    """What the process is given from outside."""

    home: Path
    contexts: Path
    environment: Mapping[str, str]
    clock: Clock
    say: Callable[[str], None]
    """Prints a line for people."""


def _over_https(config: DashboardConfig) -> dict[str, Any]:
    """What the server is told of the certificate; Rejected when it is none or has another key."""
    if not config.page_cert:
        return {}
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(config.page_cert, config.page_key)
    except OSError as error:  # ssl.SSLError is one
        what = f"cannot serve HTTPS with {config.page_cert} and {config.page_key}"
        raise Rejected(f"{what}: {error.strerror or error}") from error
    return {"ssl_certfile": config.page_cert, "ssl_keyfile": config.page_key}


async def serve_dashboard(config: DashboardConfig, around: Around) -> None:
    """Until a signal."""
    if not config.page_cert and not is_loopback(config.listen):
        what = f"the page is served on loopback only without a certificate, not at {config.listen}"
        raise Rejected(f"{what}: give --page-cert and --page-key")
    path, people = tokens_in(around.home)
    async with AsyncExitStack() as stack:
        stop = await stack.enter_async_context(until_told())
        sources = Running(
            config, around.home, around.contexts, around.environment, clock=around.clock
        )
        stack.push_async_callback(sources.close)
        parts = Parts(
            sources=sources,
            answers=Answers(around.clock, deadline_s=config.deadline_s),
            door=Doorkeeper(
                people,
                around.clock,
                lasts_s=config.session_hours * 3_600,
                ended=Ended(path.with_name(ENDED_FILE)),
            ),
            history=History(),
            clock=around.clock,
            refresh_s=config.refresh_s,
            secure=bool(config.page_cert),
        )
        more = _over_https(config)
        at = await stack.enter_async_context(serving_app(build(parts), config.listen, more))
        url = f"{'https' if config.page_cert else 'http'}://{at}"
        facts = {"addresses": {"http": at, "page": url}, "tokens": str(path)}
        stack.enter_context(announced(around.home, "dashboard", at.rpartition(":")[2], facts))
        around.say(f"The dashboard is at {url}, tokens to sign in are in {path}.")
        async with asyncio.TaskGroup() as group:
            recorded = group.create_task(
                recording(parts.history, parts.asking().summaries, around.clock.now_s)
            )
            await stop.wait()
            recorded.cancel()
    around.say("Stopped.")
