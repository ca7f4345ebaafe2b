"""A provider across the network, as a shard calls it."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

import grpc

from mainstay.model.batch import MachineBatch
from mainstay.model.calls import (
    Ack,
    Call,
    Capabilities,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
)
from mainstay.model.machine import Machine
from mainstay.wire.calls import (
    METHODS,
    Request,
    ack_from_wire,
    get_answer_from_wire,
    request_to_wire,
)
from mainstay.wire.listing import Listing
from mainstay.wire.provider_lists import PAGE_MACHINES, ListReader
from mainstay.wire.status import error_from

LIST_TIMEOUT_S: Final = 120.0
CALL_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How patient a client is."""

    call_timeout_s: float = CALL_TIMEOUT_S
    """Of everything but List: it bounds the acceptance of a step, not the step."""

    list_timeout_s: float = LIST_TIMEOUT_S
    """Of each answer to List."""

    page_machines: int = PAGE_MACHINES
    """How many machines to ask for at a time, where the request does not say."""


class RemoteProvider:
    """The six calls over gRPC. Raises only MainstayError; repeating is up to the caller."""

    def __init__(
        self, channel: grpc.aio.Channel, *, source: str, options: ClientOptions | None = None
    ) -> None:
        """`source` names the provider in every batch; the channel stays the caller's to close."""
        self._source = source
        self._options = options or ClientOptions()
        self._methods: dict[Call, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {
            call: channel.unary_unary(path) for call, path in METHODS.items()
        }
        self._lists = ListReader(
            lambda request: self._call(Call.LIST, request),
            source=source,
            page_machines=self._options.page_machines,
        )

    @property
    def capabilities(self) -> Capabilities | None:
        """What the provider last declared; None if nothing, or if it was never listed."""
        return self._lists.capabilities

    @property
    def refused(self) -> Counter[str]:
        """Records of lists that could not be read, by the rule they break."""
        return self._lists.refused

    async def create(self, request: CreateRequest) -> Ack:
        """Begin to make hardware of a quota slot."""
        return ack_from_wire(await self._call(Call.CREATE, request))

    async def configure(self, request: ConfigureRequest) -> Ack:
        """Begin to join an idle machine to a cluster."""
        return ack_from_wire(await self._call(Call.CONFIGURE, request))

    async def drain(self, request: DrainRequest) -> Ack:
        """Begin to empty a machine and take it out of its cluster."""
        return ack_from_wire(await self._call(Call.DRAIN, request))

    async def delete(self, request: DeleteRequest) -> Ack:
        """Begin to give hardware back; a quota slot is left."""
        return ack_from_wire(await self._call(Call.DELETE, request))

    async def get(self, request: GetRequest) -> Machine:
        """One machine."""
        return get_answer_from_wire(await self._call(Call.GET, request))

    async def list(self, request: ListRequest) -> MachineBatch:
        """All machines, or all that changed, however many answers that takes."""
        return await self._lists.batch(request)

    async def listing(self, request: ListRequest) -> Listing:
        """The same list, of which only what changed need ever be read."""
        return await self._lists.read(request)

    async def _call(self, call: Call, request: Request) -> bytes:
        options = self._options
        timeout_s = options.list_timeout_s if call is Call.LIST else options.call_timeout_s
        try:
            answer: bytes = await self._methods[call](request_to_wire(request), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise error_from(
                error.code(),
                f"provider {self._source}: {error.details()}",
                call=call,
                metadata=error.trailing_metadata() or (),
            ) from error
        return answer
