"""When a provider charges, on the network: the service beside the six calls, and who asks it."""

from typing import Final

import grpc
from google.protobuf.message import DecodeError

from mainstay.model.calls import INT64_MAX, ListRequest
from mainstay.model.charges import ChargeMark, Charges, Meter
from mainstay.model.errors import MainstayError, NotSupported, Rejected
from mainstay.model.ids import parse_machine_id
from mainstay.wire.pb.mainstay.v1 import provider_pb2 as pb
from mainstay.wire.provider_server import Context, authorize
from mainstay.wire.shard_view_server import Handler, refuse
from mainstay.wire.status import error_from
from mainstay.wire.tls import caller

SERVICE: Final = "mainstay.v1.ProviderMeter"
TIMEOUT_S: Final = 5.0
_NANOS: Final = 10**9


def meter_handler(meter: Meter) -> grpc.GenericRpcHandler:
    """The service of one provider; whoever may list its machines may ask."""

    async def handle(data: bytes, context: Context) -> bytes:
        try:
            authorize(caller(context), ListRequest())
            return charges_to_wire(await meter.charges(_query(data)))
        except MainstayError as error:
            await refuse(context, error)

    methods: dict[str, Handler] = {"Charges": grpc.unary_unary_rpc_method_handler(handle)}
    return grpc.method_handlers_generic_handler(SERVICE, methods)


class RemoteMeter:
    """`mainstay.model.charges.Meter` across the network; NotSupported where there is none."""

    def __init__(self, channel: grpc.aio.Channel, *, source: str) -> None:
        """`source` names the provider in errors; the channel stays the caller's to close."""
        self._source = source
        self._charges: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"/{SERVICE}/Charges"
        )

    async def charges(self, since: bytes) -> Charges:
        """Marks made after a cursor; with none, where to begin."""
        asked = pb.ChargesQuery(since=since).SerializeToString()
        try:
            return charges_from_wire(await self._charges(asked, timeout=TIMEOUT_S))
        except grpc.aio.AioRpcError as error:
            told = f"provider {self._source}: {error.details()}"
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise NotSupported(told) from error
            metadata = error.trailing_metadata() or ()
            raise error_from(error.code(), told, metadata=metadata) from error


def charges_to_wire(charges: Charges) -> bytes:
    """An answer as bytes."""
    return pb.ChargesAnswer(
        marks=[_mark_to_wire(mark) for mark in charges.marks],
        cursor=charges.cursor,
        more=charges.more,
        begins=charges.begins,
    ).SerializeToString()


def charges_from_wire(data: bytes) -> Charges:
    """The answer that bytes hold; refused whole when one mark of it is none."""
    try:
        message = pb.ChargesAnswer.FromString(data)
    except DecodeError as error:
        raise Rejected(f"{len(data)} bytes that are no charges") from error
    if not message.cursor:
        raise Rejected("charges without a cursor: they could not be gone on from")
    return Charges(
        marks=[_mark_from_wire(mark) for mark in message.marks],
        cursor=message.cursor,
        more=message.more,
        begins=message.begins,
    )


def _query(data: bytes) -> bytes:
    try:
        return pb.ChargesQuery.FromString(data).since
    except DecodeError as error:
        raise Rejected(f"{len(data)} bytes that ask for no charges") from error


def _mark_to_wire(mark: ChargeMark) -> pb.ChargeMark:
    whole, part = divmod(mark.at_s, 1.0)
    nanos = min(int(whole) * _NANOS + round(part * _NANOS), INT64_MAX)
    return pb.ChargeMark(
        machine_id=mark.machine, at_unix_nanos=nanos, price_per_hour=mark.price_per_hour
    )


def _mark_from_wire(message: pb.ChargeMark) -> ChargeMark:
    costs = message.HasField("price_per_hour")
    return ChargeMark(
        machine=parse_machine_id(message.machine_id),
        at_s=max(message.at_unix_nanos, 0) / _NANOS,
        price_per_hour=message.price_per_hour if costs else None,
    )
