"""Waiting for capacity on the command line: ask, look, until there is an allocation or an end."""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mainstay.cli import exits, output

if TYPE_CHECKING:
    from mainstay.cli.client import Client

LOOK_S: Final = 1.0


def waited(client: "Client", body: Mapping[str, Any], key: str | None, form: output.Format) -> int:
    """Print the allocation's id once there is one; what is waited for is said on stderr."""
    found = client.post("/capacity-requests", body, key=key)
    said = ""
    while found["state"] == "waiting":
        line = f"{found['request_id']} waits: {found['reason'] or 'machines are asked for'}"
        if line != said:
            sys.stderr.write(f"{line} (`mainstay alloc cancel` ends it)\n")
            said = line
        time.sleep(LOOK_S)
        found = client.get(f"/capacity-requests/{found['request_id']}")
    if found["state"] == "placed":
        output.tell(found, found["allocation_id"], form)
        return exits.DONE
    sys.stderr.write(f"{found['request_id']} is {found['state']}: {found['reason']}\n")
    return exits.FAILED
