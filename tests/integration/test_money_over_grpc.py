"""When a provider charges, asked over the network."""

import asyncio
import dataclasses

import pytest

from mainstay.model.charges import ChargeMark, Charges
from mainstay.model.errors import NotSupported, Rejected, Unavailable
from mainstay.model.ids import MachineId
from mainstay.providers.sim.bill import Bill
from mainstay.providers.sim.meter import SimMeter
from mainstay.wire.meter import RemoteMeter, charges_from_wire, charges_to_wire, meter_handler
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import open_channel, serving

LOOPBACK = "127.0.0.1:0"


def a_bill() -> Bill:
    bill = Bill()
    bill.open("h-1", 2.5, now_s=1_700_000_000.25, machine="m-1")
    return bill


def test_marks_are_told_from_a_cursor_on() -> None:
    async def asked() -> None:
        bill = a_bill()
        async with (
            serving([meter_handler(SimMeter(bill))], LOOPBACK, Plaintext()) as address,
            open_channel(address, Plaintext()) as channel,
        ):
            meter = RemoteMeter(channel, source="cloud")
            first = await meter.charges(b"")
            assert (first.begins, list(first.marks)) == (True, [])
            bill.reprice("h-1", 3.0, now_s=1_700_000_100.5)
            bill.close("h-1", now_s=1_700_000_200.0)
            told = await meter.charges(first.cursor)
            assert list(told.marks) == [
                ChargeMark(machine=MachineId("m-1"), at_s=1_700_000_100.5, price_per_hour=3.0),
                ChargeMark(machine=MachineId("m-1"), at_s=1_700_000_200.0, price_per_hour=None),
            ]
            assert list((await meter.charges(told.cursor)).marks) == []
            assert (await SimMeter(Bill()).charges(told.cursor)).begins

    asyncio.run(asked())


def test_a_provider_without_a_meter_is_told_from_one_that_is_down() -> None:
    async def asked() -> None:
        async with (
            serving([], LOOPBACK, Plaintext()) as address,
            open_channel(address, Plaintext()) as channel,
        ):
            with pytest.raises(NotSupported):
                await RemoteMeter(channel, source="cloud").charges(b"")
        async with open_channel(address, Plaintext()) as channel:
            with pytest.raises(Unavailable):
                await RemoteMeter(channel, source="cloud").charges(b"")

    asyncio.run(asked())


def test_charges_travel_as_they_are_and_nonsense_is_refused() -> None:
    mark = ChargeMark(machine=MachineId("m-1"), at_s=5.0, price_per_hour=0.0)
    sent = Charges(marks=[mark], cursor=b"c", more=True)

    assert charges_from_wire(charges_to_wire(sent)) == sent
    for wrong in (b"\xff", charges_to_wire(dataclasses.replace(sent, cursor=b""))):
        with pytest.raises(Rejected):
            charges_from_wire(wrong)
