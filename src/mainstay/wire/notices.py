"""Interruption notices to and from the wire: a field of a machine's message, read by itself.

So a notice counts whatever else is wrong with the record that it stands in.
"""

from typing import Final

import numpy as np
from google.protobuf.message import DecodeError

from mainstay.model.calls import INT64_MAX
from mainstay.model.notice import InterruptionNotice
from mainstay.wire import scan
from mainstay.wire.machines import sendable
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb
from mainstay.wire.pb.mainstay.v1 import provider_pb2 as our_pb

_NANOS: Final = 10**9


def notice_bytes(notice: InterruptionNotice | None) -> bytes:
    """What stands behind the bytes of a machine with this notice."""
    if notice is None:
        return b""
    whole, part = divmod(notice.at_s, 1.0)
    nanos = min(int(whole) * _NANOS + round(part * _NANOS), INT64_MAX)
    message = our_pb.InterruptionNotice(deadline_unix_nanos=nanos, reason=sendable(notice.reason))
    return pb.Machine(interruption_notice=message).SerializeToString()


def notice_in(record: bytes) -> InterruptionNotice | None:
    """The notice in a machine's message; one whose words cannot be read still says: it will go."""
    try:
        message = pb.Machine.FromString(record)
    except DecodeError:
        told = _payload(record)
        return None if told is None else _read(told)
    return _notice(message.interruption_notice) if message.HasField("interruption_notice") else None


def _payload(record: bytes) -> bytes | None:
    """The bytes of the notice, in a record that is not whole."""
    data = np.frombuffer(record, dtype=np.uint8)
    told: bytes | None = None
    at = 0
    while 0 <= at < len(record):
        tag, _, start, at = scan.field(data, at, len(record))
        if tag == scan.NOTICE and at >= 0:
            told = (told or b"") + record[start:at]  # parts of one message join end to end
    return told


def _read(told: bytes) -> InterruptionNotice:
    try:
        return _notice(our_pb.InterruptionNotice.FromString(told))
    except DecodeError:
        return InterruptionNotice()


def _notice(message: our_pb.InterruptionNotice) -> InterruptionNotice:
    return InterruptionNotice(max(message.deadline_unix_nanos, 0) / _NANOS, message.reason)
