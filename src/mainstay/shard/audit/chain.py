"""The lines of the audit log: each carries the hash of the one before it, and its own.

What is hashed is what stands on the disk, byte for byte: the line up to its own hash, closed by a
brace. So a reader needs no idea of how it was made to tell whether it was changed. Pure.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from mainstay.model.errors import Rejected

GENESIS: Final = "0" * 64
"""What stands for the hash before the first line."""

OWN_KEYS: Final = frozenset({"n", "prev", "hash"})

TEXT_LENGTH_MAX: Final = 2_000
"""A longer text is cut: nobody's words may make a line without end."""

_JSON: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_BEFORE_HASH: Final = b',"hash":"'
_AFTER_HASH: Final = b'"}\n'
_SUFFIX: Final = len(_BEFORE_HASH) + len(GENESIS) + len(_AFTER_HASH)


class Link(NamedTuple):
    """Where a chain stands: the number of its last line, and that line's hash."""

    n: int
    hash: str


START: Final = Link(0, GENESIS)


class Read(NamedTuple):
    """A line that is in itself as it was written."""

    link: Link
    prev: str
    content: Mapping[str, object]


def sealed(content: Mapping[str, object], after: Link) -> tuple[bytes, Link]:
    """The next line of a chain, and where the chain then stands."""
    if OWN_KEYS & content.keys():
        raise ValueError(f"these keys are the chain's own: {sorted(OWN_KEYS & content.keys())}")
    n = after.n + 1
    told = {"n": n, "prev": after.hash, **{key: plain(value) for key, value in content.items()}}
    body = _JSON.encode(told).encode("ascii")
    digest = hashlib.sha256(body).hexdigest()
    line = body[:-1] + _BEFORE_HASH + digest.encode("ascii") + _AFTER_HASH
    return line, Link(n, digest)


def read(line: bytes) -> Read:
    """A line, its newline included; Rejected when it is not as it was written."""
    body, suffix = line[:-_SUFFIX] + b"}", line[-_SUFFIX:]
    if not line.endswith(b"\n"):
        raise Rejected("the line has no end: it was cut off while it was written")
    digest = hashlib.sha256(body).hexdigest()
    if suffix != _BEFORE_HASH + digest.encode("ascii") + _AFTER_HASH:
        raise Rejected("the line does not have the hash that it states: it was altered")
    try:
        content = json.loads(body)
        return Read(Link(int(content["n"]), digest), str(content["prev"]), content)
    except (ValueError, KeyError, TypeError) as error:
        raise Rejected("the line is sealed and yet no line of an audit log") from error


def plain(value: object) -> object:
    """As JSON can say it: what it has no word for becomes text."""
    match value:
        case str():
            return value if len(value) <= TEXT_LENGTH_MAX else value[:TEXT_LENGTH_MAX]
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case dict() | Mapping():
            return {str(key)[:TEXT_LENGTH_MAX]: plain(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(each) for each in value]
        case _:
            return str(value)[:TEXT_LENGTH_MAX]
