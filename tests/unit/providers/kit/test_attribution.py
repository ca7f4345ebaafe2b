"""What Create is told of its need: kept and echoed, so that a new shard knows whom it is for."""

import asyncio
import dataclasses
from typing import Final

import pytest

from builders import A_CLUSTER, A_FINGERPRINT
from hardware import Hardware, a_slot, serving, state_of
from mainstay.inventory.inventory import Inventory
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, NeedRef
from mainstay.model.calls import (
    METADATA_BYTES_MAX,
    Call,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
)
from mainstay.model.errors import NoCapacity, Rejected
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.metadata import encode
from mainstay.model.state import State
from mainstay.providers.kit.local import LocalProvider
from mainstay.providers.kit.server import ProviderServer
from virtual_loop import run

MEANT: Final = Assignment(fingerprint=A_FINGERPRINT, group="gang-1", cluster=A_CLUSTER)
OTHER_CLUSTER: Final = ClusterId("batch")
OTHER: Final = Assignment(fingerprint=A_FINGERPRINT, group="", cluster=OTHER_CLUSTER)
CREATE: Final = CreateRequest("m-1", attribution=encode(MEANT))


async def echo(server: ProviderServer) -> dict[str, str]:
    return dict((await server.get(GetRequest("m-1"))).shard_metadata)


async def known_to_a_new_shard(server: ProviderServer) -> Assignment:
    inventory = Inventory()
    inventory.merge(await LocalProvider(server).list(ListRequest()), now=0.0)
    return inventory.machine(MachineId("m-1")).assignment


def test_a_new_shard_knows_for_whom_a_machine_is_being_made() -> None:
    async def scenario() -> None:
        async with serving(Hardware(a_slot())) as server:
            ack = await server.create(CREATE)
            assert ack.machine.shard_metadata == encode(MEANT)
            assert await known_to_a_new_shard(server) == MEANT

    run(scenario())


def test_an_idle_machine_is_nobodys() -> None:
    async def scenario() -> None:
        async with serving(Hardware(a_slot())) as server:
            await server.create(CREATE)
            await asyncio.sleep(2)
            assert await state_of(server) is State.IDLE
            assert await echo(server) == {}
            assert await known_to_a_new_shard(server) == NO_ASSIGNMENT

    run(scenario())


def test_a_machine_that_could_not_be_made_still_says_for_whom() -> None:
    hardware = Hardware(a_slot())
    hardware.raises = {Call.CREATE: [NoCapacity("sold out")]}

    async def scenario() -> None:
        async with serving(hardware) as server:
            await server.create(CREATE)
            await asyncio.sleep(2)
            assert await state_of(server) is State.FAILED
            assert await known_to_a_new_shard(server) == MEANT

    run(scenario())


def test_of_repeated_creates_the_first_says_for_whom() -> None:
    """Arguments of a repetition are not compared; a machine on its way does not change hands."""

    async def scenario() -> None:
        async with serving(Hardware(a_slot())) as server:
            first = await server.create(CREATE)
            again = await server.create(CreateRequest("m-1", attribution=encode(OTHER)))
            silent = await server.create(CreateRequest("m-1"))
            assert first == again == silent
            assert await known_to_a_new_shard(server) == MEANT

    run(scenario())


def test_the_next_create_says_it_anew() -> None:
    async def scenario() -> None:
        async with serving(Hardware(a_slot())) as server:
            await server.create(CREATE)
            await asyncio.sleep(2)
            await server.delete(DeleteRequest("m-1"))
            await asyncio.sleep(2)
            await server.create(CreateRequest("m-1", attribution=encode(OTHER)))
            assert await known_to_a_new_shard(server) == OTHER

    run(scenario())


def test_nothing_of_it_is_left_in_what_configure_is_given() -> None:
    async def scenario() -> None:
        async with serving(Hardware(a_slot())) as server:
            await server.create(CREATE)
            await asyncio.sleep(2)
            await server.configure(ConfigureRequest("m-1", "web", metadata={"k": "v"}))
            assert await echo(server) == {"k": "v"}

    run(scenario())


def test_it_is_any_text_to_the_provider_but_not_of_any_size() -> None:
    most = {"": "é" * (METADATA_BYTES_MAX // 2)}

    async def scenario() -> None:
        async with serving(Hardware(a_slot())) as server:
            with pytest.raises(Rejected, match="attribution too large: 786433 bytes"):
                await server.create(CreateRequest("m-1", attribution=most | {"k": ""}))
            assert await state_of(server) is State.SPECULATIVE
            await server.create(CreateRequest("m-1", attribution=most))
            assert await echo(server) == most

    run(scenario())


def test_a_new_shard_knows_for_whom_a_machine_drains_and_what_configure_was_given_stays() -> None:
    purpose = encode(Assignment(drained_for=NeedRef(OTHER_CLUSTER, A_FINGERPRINT)))
    given = {"k": "v"} | encode(MEANT)

    async def scenario() -> None:
        async with serving(Hardware(a_slot())) as server:
            await server.create(CREATE)
            await asyncio.sleep(2)
            await server.configure(ConfigureRequest("m-1", A_CLUSTER, metadata=given))
            await asyncio.sleep(2)
            said = purpose | {"k": "over it", "other": "word"}
            ack = await server.drain(DrainRequest("m-1", attribution=said))
            assert ack.machine.shard_metadata == given | purpose
            known = await known_to_a_new_shard(server)
            assert known == dataclasses.replace(
                MEANT, drained_for=NeedRef(OTHER_CLUSTER, A_FINGERPRINT)
            )
            await asyncio.sleep(2)
            assert (await state_of(server), await echo(server)) == (State.IDLE, {})

    run(scenario())


def test_the_kit_declares_that_it_echoes() -> None:
    async def scenario() -> None:
        async with serving(Hardware(a_slot())) as server:
            assert server.capabilities.attribution
            assert server.capabilities.drain_attribution

    run(scenario())
