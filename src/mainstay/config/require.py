"""The checks that configurations share."""

from typing import Final

from mainstay.model.errors import Rejected

PORT_MAX: Final = 65_535


def require(holds: bool, rule: str) -> None:
    """Refuse a configuration in one line that states the rule."""
    if not holds:
        raise Rejected(rule)


def is_address(text: str) -> bool:
    """Whether it is HOST:PORT with a port there can be: gRPC would take 99999 for another one."""
    host, _, port = text.rpartition(":")
    return (
        bool(host)
        and port.isascii()
        and port.isdecimal()
        and len(port) <= 5
        and int(port) <= PORT_MAX
    )
