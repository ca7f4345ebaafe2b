"""Typed ids and the only ways text from outside becomes one."""

from typing import Final, NewType

from mainstay.model.errors import Rejected

MachineId = NewType("MachineId", str)
ClusterId = NewType("ClusterId", str)
ShardId = NewType("ShardId", str)
Fingerprint = NewType("Fingerprint", str)
"""The identity of a need's profile; opaque to everyone but mainstay.model.need."""

ID_LENGTH_MAX: Final = 253
"""As long as a Kubernetes object name may be."""


def parse_machine_id(text: str) -> MachineId:
    """A machine id from outside: printable ASCII without spaces, so that byte order is id order."""
    return MachineId(_checked(text, "machine id"))


def parse_cluster_id(text: str) -> ClusterId:
    """A cluster id from outside."""
    return ClusterId(_checked(text, "cluster id"))


def _checked(text: str, what: str) -> str:
    if not is_id(text):
        form = f"1 to {ID_LENGTH_MAX} printable ASCII characters, no space"
        raise Rejected(f"not a {what}: {text[:80]!r} ({form})")
    return text


def is_id(text: str) -> bool:
    """Whether `text` can be an id."""
    printable = text.isascii() and text.isprintable() and " " not in text
    return printable and 0 < len(text) <= ID_LENGTH_MAX
