"""The six calls: what is accepted, in which order it is refused, and how a step ends."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest
from typing_extensions import override

from hardware import Hardware, a_slot, configured, serving, state_of
from mainstay.model.calls import (
    BLOB_BYTES_MAX,
    INT64_MAX,
    METADATA_BYTES_MAX,
    Ack,
    Call,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    Fence,
    GetRequest,
    ListRequest,
    Mutation,
    Status,
    status_of,
)
from mainstay.model.errors import (
    Fenced,
    IllegalTransition,
    MainstayError,
    NoCapacity,
    NotSupported,
    Rejected,
    Unavailable,
    UnknownMachine,
)
from mainstay.model.ids import ClusterId
from mainstay.model.profile import CapacityType, Profile
from mainstay.model.state import State, can_transition
from mainstay.providers.kit.backend import Host, Job
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.server import ProviderServer
from mainstay.providers.kit.steps import STEPS
from virtual_loop import run

Scenario = Callable[[ProviderServer], Awaitable[None]]


def with_server(hardware: Hardware, scenario: Scenario, **options: object) -> None:
    async def whole() -> None:
        async with serving(hardware, options=Options(**options)) as server:  # type: ignore[arg-type]
            await scenario(server)

    run(whole())


async def send(server: ProviderServer, request: Mutation) -> Ack:
    match request:
        case CreateRequest():
            return await server.create(request)
        case ConfigureRequest():
            return await server.configure(request)
        case DrainRequest():
            return await server.drain(request)
        case DeleteRequest():
            return await server.delete(request)


def all_four(machine: str, fence: Fence = Fence()) -> list[Mutation]:  # noqa: B008 - frozen
    return [
        CreateRequest(machine, fence),
        ConfigureRequest(machine, "web", fence=fence),
        DrainRequest(machine, fence=fence),
        DeleteRequest(machine, fence),
    ]


def test_every_step_of_the_kit_is_two_legal_edges_of_the_model() -> None:
    for step in STEPS.values():
        assert can_transition(step.source, step.during)
        assert can_transition(step.during, step.after)
        assert can_transition(step.during, State.FAILED)


class TestLifecycle:
    def test_a_machine_goes_from_slot_to_cluster_and_back(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            seen = []
            for request in all_four("m-1"):
                ack = await send(server, request)
                seen.append(ack.machine.state)
                await asyncio.sleep(2)
                seen.append(await state_of(server))
            assert seen == [
                State.CREATING, State.IDLE, State.CONFIGURING, State.CONFIGURED,
                State.DRAINING, State.IDLE, State.DELETING, State.SPECULATIVE,
            ]  # fmt: skip

        with_server(Hardware(a_slot()), scenario)

    def test_the_binding_and_the_echo_are_there_from_accept_to_the_end_of_the_drain(self) -> None:
        echo = {"mainstay/x": "\x00\u2603", "": "empty key", "k": ""}

        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            given = dict(echo)
            ack = await server.configure(ConfigureRequest("m-1", "web", metadata=given))
            given.clear()
            assert (ack.machine.cluster, dict(ack.machine.shard_metadata)) == ("web", echo)
            await asyncio.sleep(2)
            draining = (await server.drain(DrainRequest("m-1"))).machine
            assert (draining.cluster, dict(draining.shard_metadata)) == ("web", echo)
            await asyncio.sleep(2)
            idle = await server.get(GetRequest("m-1"))
            assert (idle.cluster, dict(idle.shard_metadata)) == (None, {})
            assert idle.host is not None

        with_server(Hardware(a_slot()), scenario)

    def test_a_deleted_machine_is_a_slot_with_the_same_id_and_no_host(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            await server.delete(DeleteRequest("m-1"))
            await asyncio.sleep(2)
            machine = await server.get(GetRequest("m-1"))
            assert (machine.state, machine.host) == (State.SPECULATIVE, None)

        with_server(Hardware(a_slot()), scenario)

    def test_another_host_may_take_the_place_of_one_that_is_joined_or_emptied(self) -> None:
        class Replacing(Hardware):
            @override
            async def configure(self, job: Job, cluster: ClusterId, blob: bytes) -> Host:
                return self._replaced(job, "joined")

            @override
            async def drain(self, job: Job, grace_s: int) -> Host:
                return self._replaced(job, "clean")

            def _replaced(self, job: Job, host: str) -> Host:
                self.there[job.slot] = a_slot(job.slot, host=host)
                return Host(host)

        async def scenario(server: ProviderServer) -> None:
            hosts = []
            for request in all_four("m-1")[:3]:
                await send(server, request)
                await asyncio.sleep(2)
                assert (await server.reconcile()).lost == []
                host = (await server.get(GetRequest("m-1"))).host
                hosts.append(host.ref if host else "")
            assert hosts == ["host-of-m-1", "joined", "clean"]

        with_server(Replacing(a_slot()), scenario)

    def test_what_the_hardware_cannot_carry_is_refused_before_anything_is_bound(self) -> None:
        class Small(Hardware):
            @override
            def admit_binding(self, job: Job, blob: bytes, metadata: Mapping[str, str]) -> None:
                if len(blob) > 10:
                    raise Rejected(f"too large for {job.slot}: {len(blob)} bytes")

        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            with pytest.raises(Rejected, match="too large for m-1: 11 bytes"):
                await server.configure(ConfigureRequest("m-1", "web", bytes(11)))
            assert await state_of(server) is State.IDLE
            await server.configure(ConfigureRequest("m-1", "web", bytes(10)))

        with_server(Small(a_slot()), scenario)

    def test_grace_and_blob_reach_the_hardware_and_the_blob_is_not_kept(self) -> None:
        hardware = Hardware(a_slot())

        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            await server.configure(ConfigureRequest("m-1", "web", blob=b"secret"))
            await asyncio.sleep(2)
            await server.drain(DrainRequest("m-1", 77))
            await asyncio.sleep(2)

        with_server(hardware, scenario)

        assert (hardware.blob, hardware.grace_s) == (b"secret", 77)


class TestRepetition:
    def test_a_repeated_call_gets_the_same_operation_and_starts_nothing(self) -> None:
        hardware = Hardware(a_slot())

        async def scenario(server: ProviderServer) -> None:
            first = await server.create(CreateRequest("m-1"))
            again = await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            late = await server.create(CreateRequest("m-1"))
            assert first.operation == again.operation == late.operation != ""
            assert late.machine.state is State.IDLE

        with_server(hardware, scenario)

        assert len(hardware.did) == 1

    def test_each_new_cycle_has_new_operations(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            operations = []
            for request in [*all_four("m-1"), *all_four("m-1")]:
                operations.append((await send(server, request)).operation)
                await asyncio.sleep(2)
            assert len({*operations}) == 8

        with_server(Hardware(a_slot()), scenario)

    def test_a_second_configure_with_other_arguments_changes_nothing(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            await configured(server)
            ack = await server.configure(ConfigureRequest("m-1", "other", metadata={"k": "w"}))
            assert (ack.machine.cluster, dict(ack.machine.shard_metadata)) == ("web", {"k": "v"})

        with_server(Hardware(a_slot()), scenario)

    def test_sixteen_at_once_are_one_step(self) -> None:
        hardware = Hardware(a_slot())

        async def scenario(server: ProviderServer) -> None:
            async with asyncio.TaskGroup() as tasks:
                calls = [tasks.create_task(server.create(CreateRequest("m-1"))) for _ in range(16)]
            assert len({call.result().operation for call in calls}) == 1

        with_server(hardware, scenario)

        assert len(hardware.did) == 1

    def test_drain_at_idle_is_refused_when_it_never_drained(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            with pytest.raises(IllegalTransition, match="cannot drain machine m-1 in state Idle"):
                await server.drain(DrainRequest("m-1"))

        with_server(Hardware(a_slot()), scenario)


LONG: Final = "x" * 254
A: Final = Fence("a", 1, 1)

BAD: Final[list[tuple[Mutation, type[MainstayError], Status, str]]] = [
    *[(r, Rejected, Status.INVALID_ARGUMENT, "not a machine id: ''") for r in all_four("", A)],
    (CreateRequest(LONG, A), Rejected, Status.INVALID_ARGUMENT, "not a machine id"),
    (CreateRequest("two words", A), Rejected, Status.INVALID_ARGUMENT, "'two words'"),
    (ConfigureRequest("m-1", "", fence=A), Rejected, Status.INVALID_ARGUMENT, "not a cluster id"),
    (
        ConfigureRequest("m-1", "web", bytes(BLOB_BYTES_MAX + 1), fence=A),
        Rejected, Status.INVALID_ARGUMENT, f"blob too large: {BLOB_BYTES_MAX + 1} bytes",
    ),
    (
        ConfigureRequest("m-1", "web", metadata={"k": "v" * METADATA_BYTES_MAX}, fence=A),
        Rejected, Status.INVALID_ARGUMENT, f"metadata too large: {METADATA_BYTES_MAX + 1} bytes",
    ),
    (DrainRequest("m-1", -5, fence=A), Rejected, Status.INVALID_ARGUMENT, "seconds: -5"),
    (CreateRequest("m-1", Fence("a", -1, 1)), Rejected, Status.INVALID_ARGUMENT, "epoch.*: -1"),
    (CreateRequest("m-1", Fence("a", 1, -7)), Rejected, Status.INVALID_ARGUMENT, "sequence.*: -7"),
    (CreateRequest("m-1", Fence("", 1, 2)), Rejected, Status.INVALID_ARGUMENT, "its shard: 1/2"),
    (CreateRequest("ghost"), UnknownMachine, Status.NOT_FOUND, "no such machine: ghost"),
    (
        ConfigureRequest("m-1", "web"),
        IllegalTransition, Status.INTERNAL, "cannot configure machine m-1 in state Speculative",
    ),
    (DrainRequest("m-1"), IllegalTransition, Status.INTERNAL, "in state Speculative"),
    (DeleteRequest("m-1"), IllegalTransition, Status.INTERNAL, "in state Speculative"),
]  # fmt: skip


class TestRefusals:
    @pytest.mark.parametrize(("request_", "error", "status", "named"), BAD)
    def test_bad_input_gets_its_status_names_the_value_and_changes_nothing(
        self, request_: Mutation, error: type[MainstayError], status: Status, named: str
    ) -> None:
        hardware = Hardware(a_slot())

        async def scenario(server: ProviderServer) -> None:
            before = await server.list(ListRequest())
            with pytest.raises(error, match=named) as refusal:
                await send(server, request_)
            assert status_of(refusal.value) is status
            assert await server.list(ListRequest()) == before
            # A refusal of the form has left no mark either: the same fence still passes.
            await server.create(CreateRequest("m-1", A))
            await asyncio.sleep(2)

        with_server(hardware, scenario)

        assert len(hardware.did) == 1

    def test_a_get_of_nothing_and_of_nonsense_is_told_apart(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            with pytest.raises(UnknownMachine, match="ghost"):
                await server.get(GetRequest("ghost"))
            with pytest.raises(Rejected, match="not a machine id"):
                await server.get(GetRequest(""))

        with_server(Hardware(), scenario)

    def test_the_largest_blob_and_metadata_are_accepted(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            echo = {"": "v" * METADATA_BYTES_MAX}
            ack = await server.configure(
                ConfigureRequest("m-1", "web", bytes(BLOB_BYTES_MAX), echo)
            )
            assert dict(ack.machine.shard_metadata) == echo

        with_server(Hardware(a_slot()), scenario)

    def test_what_the_backend_refuses_is_told_and_nothing_is_begun(self) -> None:
        hardware = Hardware(a_slot())
        hardware.refuses = NoCapacity("out of stock: gp-4 in zone-a")

        async def scenario(server: ProviderServer) -> None:
            with pytest.raises(NoCapacity, match="gp-4 in zone-a") as refusal:
                await server.create(CreateRequest("m-1"))
            assert status_of(refusal.value) is Status.RESOURCE_EXHAUSTED
            assert await state_of(server) is State.SPECULATIVE

        with_server(hardware, scenario)


class TestOrderOfChecks:
    """Each call below is wrong in two ways: the earlier check must answer."""

    def test_form_comes_before_the_fence(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1", A))
            with pytest.raises(Rejected, match="grace period"):
                await server.drain(DrainRequest("m-1", -1, A))

        with_server(Hardware(a_slot()), scenario)

    def test_a_provider_without_delete_says_so_before_the_fence(self) -> None:
        hardware = Hardware(a_slot())
        hardware.deletable = frozenset()

        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1", A))
            with pytest.raises(NotSupported) as refusal:
                await server.delete(DeleteRequest("m-1", A))
            assert status_of(refusal.value) is Status.UNIMPLEMENTED

        with_server(hardware, scenario)

    def test_the_fence_comes_before_an_unknown_machine(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            with pytest.raises(UnknownMachine):
                await server.create(CreateRequest("ghost", A))
            for request in all_four("ghost", A):
                with pytest.raises(Fenced, match="machine ghost"):
                    await send(server, request)

        with_server(Hardware(a_slot()), scenario)

    def test_the_fence_comes_before_a_repetition(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            first = await server.create(CreateRequest("m-1", A))
            with pytest.raises(Fenced):
                await server.create(CreateRequest("m-1", A))
            again = await server.create(CreateRequest("m-1", Fence("a", 1, 2)))
            assert again.operation == first.operation

        with_server(Hardware(a_slot()), scenario)

    def test_a_repetition_comes_before_the_backends_own_refusal(self) -> None:
        hardware = Hardware(a_slot())

        async def scenario(server: ProviderServer) -> None:
            first = await server.create(CreateRequest("m-1"))
            hardware.refuses = NoCapacity("out of stock")
            assert (await server.create(CreateRequest("m-1"))).operation == first.operation

        with_server(hardware, scenario)

    def test_a_wrong_state_comes_before_the_backends_own_refusal(self) -> None:
        hardware = Hardware(a_slot())
        hardware.refuses = NoCapacity("out of stock")

        async def scenario(server: ProviderServer) -> None:
            with pytest.raises(IllegalTransition):
                await server.drain(DrainRequest("m-1"))

        with_server(hardware, scenario)

    @pytest.mark.parametrize("capacity", [CapacityType.BARE_METAL, CapacityType.RESERVED])
    def test_a_machine_that_is_kept_forever_is_not_deleted(self, capacity: CapacityType) -> None:
        slot = a_slot(profile=Profile("metal", "z", capacity), host="h")

        async def scenario(server: ProviderServer) -> None:
            with pytest.raises(NotSupported, match=f"{capacity} machine m-1"):
                await server.delete(DeleteRequest("m-1", A))
            with pytest.raises(UnknownMachine):
                await server.delete(DeleteRequest("ghost", A))
            assert await state_of(server) is State.IDLE

        with_server(Hardware(slot), scenario)


class TestFences:
    def test_a_fence_that_passed_counts_even_if_its_call_was_refused(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            with pytest.raises(IllegalTransition):
                await server.drain(DrainRequest("m-1", fence=Fence("a", 1, 5)))
            with pytest.raises(Fenced, match="seen for this machine: epoch 1 sequence 5"):
                await server.create(CreateRequest("m-1", Fence("a", 1, 5)))
            await server.create(CreateRequest("m-1", Fence("a", 1, 6)))

        with_server(Hardware(a_slot()), scenario)

    def test_a_refusal_says_the_newest_epoch_of_that_shard_and_of_no_other(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1", Fence("a", 2, 1)))
            await server.create(CreateRequest("m-1", Fence("b", 9, 1)))
            for stale in (Fence("a", 1, 8), Fence("a", 2, 1)):
                with pytest.raises(Fenced) as caught:
                    await server.create(CreateRequest("m-1", stale))
                assert caught.value.epoch == 2

        with_server(Hardware(a_slot()), scenario)

    def test_marks_are_per_machine_and_per_shard(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1", Fence("a", 5, 30)))
            await server.create(CreateRequest("m-2", Fence("a", 5, 7)))
            await server.create(CreateRequest("m-1", Fence("b", 1, 1)))
            for machine in ("m-1", "m-2"):
                with pytest.raises(Fenced):
                    await server.create(CreateRequest(machine, Fence("a", 5, 7)))

        with_server(Hardware(a_slot("m-1"), a_slot("m-2")), scenario)

    def test_an_older_life_of_a_shard_is_refused_on_machines_the_new_one_never_touched(
        self,
    ) -> None:
        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1", Fence("a", 2, 1)))
            with pytest.raises(Fenced, match="epoch 2 of that shard was seen"):
                await server.create(CreateRequest("m-2", Fence("a", 1, 99)))
            assert await state_of(server, "m-2") is State.SPECULATIVE

        with_server(Hardware(a_slot("m-1"), a_slot("m-2")), scenario)

    def test_the_floor_rises_with_every_new_life(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1", Fence("a", 1, 1)))
            await server.create(CreateRequest("m-1", Fence("a", 2, 1)))
            with pytest.raises(Fenced, match="epoch 2 of that shard was seen"):
                await server.create(CreateRequest("m-2", Fence("a", 1, 2)))

        with_server(Hardware(a_slot("m-1"), a_slot("m-2")), scenario)

    def test_a_new_epoch_starts_the_sequence_anew(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1", Fence("a", 1, 1000)))
            await server.create(CreateRequest("m-1", Fence("a", 2, 0)))
            with pytest.raises(Fenced):
                await server.create(CreateRequest("m-1", Fence("a", 2, 0)))

        with_server(Hardware(a_slot()), scenario)

    def test_no_fence_always_passes_and_leaves_no_mark(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1", Fence("a", 9, 9)))
            await server.create(CreateRequest("m-1"))
            await server.create(CreateRequest("m-1", Fence("", 0, 0)))

        with_server(Hardware(a_slot()), scenario)

    def test_the_largest_numbers_work(self) -> None:
        most = Fence("a", INT64_MAX, INT64_MAX)

        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1", most))
            for stale in (most, Fence("a", INT64_MAX - 1, INT64_MAX)):
                with pytest.raises(Fenced):
                    await server.create(CreateRequest("m-1", stale))
            with pytest.raises(Rejected, match="epoch of a fence"):
                await server.create(CreateRequest("m-1", Fence("a", INT64_MAX + 1, 0)))

        with_server(Hardware(a_slot()), scenario)


class TestFailure:
    @pytest.mark.parametrize("error", [NoCapacity("no more racks"), ValueError("no more racks")])
    def test_a_step_that_goes_wrong_fails_the_machine_with_its_diagnosis(
        self, error: Exception
    ) -> None:
        hardware = Hardware(a_slot())
        hardware.raises = {Call.CREATE: [error]}

        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            machine = await server.get(GetRequest("m-1"))
            assert machine.state is State.FAILED
            assert machine.last_error.startswith("create: ")
            assert "no more racks" in machine.last_error

        with_server(hardware, scenario)

    def test_failed_is_the_end_and_keeps_its_diagnosis(self) -> None:
        hardware = Hardware(a_slot())
        hardware.raises = {Call.CREATE: [NoCapacity("no more racks")]}

        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            before = await server.get(GetRequest("m-1"))
            for request in all_four("m-1"):
                with pytest.raises(IllegalTransition, match="in state Failed"):
                    await send(server, request)
            assert await server.get(GetRequest("m-1")) == before

        with_server(hardware, scenario)

    def test_a_passing_trouble_is_tried_again_under_the_same_operation(self) -> None:
        hardware = Hardware(a_slot())
        hardware.raises = {Call.CREATE: [Unavailable("throttled"), Unavailable("throttled")]}

        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(10)
            assert await state_of(server) is State.IDLE

        with_server(hardware, scenario)

        assert len(hardware.did) == 3
        assert len({operation for _, operation in hardware.did}) == 1

    def test_a_step_that_takes_too_long_fails(self) -> None:
        hardware = Hardware(a_slot(), delay_s=400)

        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(299)
            assert await state_of(server) is State.CREATING
            await asyncio.sleep(2)
            machine = await server.get(GetRequest("m-1"))
            assert machine.state is State.FAILED
            assert machine.last_error == "create: timed out after 300 s"

        with_server(hardware, scenario)

    def test_a_success_that_comes_too_late_is_thrown_away_and_the_host_given_back(self) -> None:
        hardware = Hardware(a_slot(), delay_s=400)
        hardware.deaf = True

        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2000)
            assert await state_of(server) is State.FAILED

        with_server(hardware, scenario, reconcile_interval_s=1e6)

        assert [call for call, _ in hardware.did] == ["create", "delete"]

    def test_a_drain_may_take_its_grace_period_longer(self) -> None:
        hardware = Hardware(a_slot(), delay_s=1)

        async def scenario(server: ProviderServer) -> None:
            await configured(server)
            hardware.delay_s = 1000
            await server.drain(DrainRequest("m-1", 500))
            await asyncio.sleep(1001)
            assert await state_of(server) is State.IDLE

        with_server(hardware, scenario)

    def test_a_node_that_never_joins_is_never_configured(self) -> None:
        hardware = Hardware(a_slot())
        hardware.joins = False

        async def scenario(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            await server.configure(ConfigureRequest("m-1", "web"))
            await asyncio.sleep(290)
            assert await state_of(server) is State.CONFIGURING
            await asyncio.sleep(20)
            assert await state_of(server) is State.FAILED

        with_server(hardware, scenario)

    def test_only_a_failed_machine_is_retired_and_its_slot_comes_back_under_a_new_id(self) -> None:
        hardware = Hardware(a_slot())
        hardware.raises = {Call.CREATE: [NoCapacity("no more racks")]}

        async def scenario(server: ProviderServer) -> None:
            with pytest.raises(Rejected, match="m-1 is Speculative"):
                await server.retire("m-1", reason="looks old")
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            with pytest.raises(Rejected, match="needs a reason"):
                await server.retire("m-1", reason="")
            await server.retire("m-1", reason="board replaced")
            await asyncio.sleep(1)
            assert await state_of(server, "m-1+1") is State.SPECULATIVE
            await server.create(CreateRequest("m-1+1"))

        with_server(hardware, scenario)
