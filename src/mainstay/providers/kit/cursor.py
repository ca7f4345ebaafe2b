"""Cursors: where a list goes on. Opaque to callers; one that was tampered with is not known."""

import zlib
from typing import NamedTuple

from mainstay.model.calls import Cursor


class Place(NamedTuple):
    """A place in the order of changes."""

    position: int
    """Machines that changed after it come next."""

    base: int
    """What went after it has not been told yet: the head when the list began."""


def encode(store: str, place: Place) -> Cursor:
    """The cursor for a place in this store."""
    body = f"{store}.{place.position}.{place.base}"
    return f"{body}.{_check(body)}".encode()


def decode(store: str, cursor: Cursor) -> Place | None:
    """The place a cursor of this store names; None for any other bytes."""
    try:
        body, _, check = cursor.decode("ascii").rpartition(".")
        origin, position, base = body.split(".")
        place = Place(int(position), int(base))
    except ValueError:
        return None
    return place if (origin, check) == (store, _check(body)) else None


def _check(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
