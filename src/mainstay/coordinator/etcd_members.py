"""The members of an etcd cluster as one that is asked: the next one when one fails.

Of aetcd only the stubs are used: its client knows one address, no TLS, and reads no pages.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from aetcd import rpc
from grpc import StatusCode
from grpc.aio import AioRpcError, Channel

from mainstay.coordinator.store import TooLarge
from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.wire.tls import MutualTls, Plaintext
from mainstay.wire.transport import open_channel

CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),  # a page is bounded by what was written
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 10_000),  # etcd hangs up on those that ask every 5 s
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Member:
    """One of them, and what it can be asked."""

    target: str
    channel: Channel
    kv: Any
    lease: Any
    watch: Any


class Members:
    """The one that answered last is asked first. A channel once opened stays, so that a call never
    loses its own to the failure of another.
    """

    def __init__(self, endpoints: Sequence[str], tls: MutualTls | None) -> None:
        self.targets = _targets(endpoints, is_tls=tls is not None)
        self._over: Plaintext | MutualTls = tls or Plaintext()
        self._opened: list[Member] = []
        self._turn = 0

    async def any(self, ask: Callable[[Member], Awaitable[AnswerT]]) -> AnswerT:
        """For what may be asked twice: of every member once."""
        for _ in self.targets[1:]:
            with suppress(Unavailable):
                return await self.once(ask)
        return await self.once(ask)

    async def once(self, ask: Callable[[Member], Awaitable[AnswerT]]) -> AnswerT:
        """Of one member, and only errors of ours."""
        member = self.current()
        try:
            return await ask(member)
        except AioRpcError as error:
            ours = _as_ours(error, member.target)
            if isinstance(ours, Unavailable):
                self.turn_from(member)
            raise ours from error

    def current(self) -> Member:
        """The one to ask next."""
        if not self._opened:
            self._opened = [self._open(target) for target in self.targets]
        return self._opened[self._turn % len(self._opened)]

    def turn_from(self, member: Member) -> None:
        """Ask the next one from now on, unless another call has turned already."""
        if self._opened and self.current() is member:
            self._turn += 1

    async def close(self) -> None:
        """Let go of the connections."""
        opened, self._opened = self._opened, []
        for member in opened:
            await member.channel.close()

    def _open(self, target: str) -> Member:
        channel = open_channel(target, self._over, options=CHANNEL_OPTIONS)
        stubs = rpc.KVStub(channel), rpc.LeaseStub(channel), rpc.WatchStub(channel)
        return Member(target, channel, *stubs)


_REACTIONS: Final[Mapping[StatusCode, type[MainstayError]]] = {
    StatusCode.INVALID_ARGUMENT: TooLarge,  # the only thing that can be wrong with ours
    StatusCode.UNAUTHENTICATED: Rejected,
    StatusCode.PERMISSION_DENIED: Rejected,
}


def _as_ours(error: AioRpcError, target: str) -> MainstayError:
    kind = _REACTIONS.get(error.code(), Unavailable)
    return kind(f"etcd at {target}: {error.code().name.lower()}", detail=error.details() or "")


def _targets(endpoints: Sequence[str], *, is_tls: bool) -> tuple[str, ...]:
    wanted = "https" if is_tls else "http"
    found = dict.fromkeys(_target(endpoint, wanted) for endpoint in endpoints)
    if not found:
        raise Rejected(f"no endpoint of etcd: name one as {wanted}://host:port")
    return tuple(found)


def _target(endpoint: str, wanted: str) -> str:
    with suppress(ValueError):  # a port that is none
        parts = urlsplit(endpoint)
        is_plain = endpoint.rstrip("/") == f"{wanted}://{parts.netloc}"
        if is_plain and parts.hostname and parts.port and not parts.username:
            return parts.netloc
    files = "" if wanted == "https" else "; https needs certificate, key and CA"
    raise Rejected(f"not an endpoint of etcd: {endpoint!a} ({wanted}://host:port{files})")
