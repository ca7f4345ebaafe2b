"""What a node is called that is a life of a machine."""

import hashlib
import re
from typing import Final

NODE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def node_name(machine: str, incarnation: int) -> str:
    """Of one life of a machine. A name that a node could not have becomes a short hash."""
    if not NODE_NAME.fullmatch(machine):
        machine = f"m-{hashlib.blake2b(machine.encode(), digest_size=8).hexdigest()}"
    return f"{machine}.{incarnation}"
