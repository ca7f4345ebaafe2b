"""`mainstay postgres`: the database of tenancy, alone in a process."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mainstay.config.postgres import PostgresConfig
from mainstay.model.errors import Unavailable
from mainstay.processes.announce import announced
from mainstay.processes.database import our_own
from mainstay.processes.told import until_told
from mainstay.runtime.survivors import began

LOOK_S: Final = 0.2


async def serve_postgres(config: PostgresConfig, home: Path, say: Callable[[str], None]) -> None:
    """Until a signal, or until the server dies: whoever watches over us starts both again."""
    async with until_told() as stop:
        with our_own(home, config.port) as server:
            at = f"127.0.0.1:{server.port}"
            its = {"server_pid": server.pid, "server_began": began(server.pid)}
            facts = {"addresses": {"postgres": at}, **its}
            with announced(home, "postgres", str(server.port), facts):
                say(f"PostgreSQL is at {at}, its log is {home / 'postgres' / 'postgres.log'}.")
                while not stop.is_set():
                    if server.has_ended():
                        log = home / "postgres" / "postgres.log"
                        raise Unavailable("PostgreSQL has died", what_to_do=f"see {log}")
                    await asyncio.sleep(LOOK_S)
    say("Stopped.")
