"""The six calls over a real connection: plaintext on loopback, and mutual TLS 1.3."""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

import hardware
import outside
from builders import A_CLUSTER, A_FINGERPRINT
from certificates import Authority
from hardware import Hardware, a_slot
from mainstay.inventory.inventory import Inventory
from mainstay.model.assignment import Assignment
from mainstay.model.calls import (
    INT64_MAX,
    Ack,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    Fence,
    GetRequest,
    ListRequest,
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
from mainstay.model.ids import MachineId
from mainstay.model.metadata import encode
from mainstay.model.notice import InterruptionNotice
from mainstay.model.profile import HostRef
from mainstay.model.state import State
from mainstay.providers.kit.server import ProviderServer
from mainstay.runtime.clock import SystemClock
from mainstay.wire.calls import METHODS, SERVICE
from mainstay.wire.provider_client import ClientOptions, RemoteProvider
from mainstay.wire.provider_server import provider_handler
from mainstay.wire.status import NotAllowed
from mainstay.wire.tls import MutualTls, Plaintext, TlsFlags, transport
from mainstay.wire.transport import Over, open_channel, serving

LOOPBACK = "127.0.0.1:0"
SHARD = "bigfleet://shard/s-0"


@dataclass(frozen=True)
class Lab:
    """A provider, and somebody who calls it over the network."""

    server: ProviderServer
    remote: RemoteProvider
    address: str

    async def settled(self, machine: str, state: State) -> None:
        """Poll, as a shard does, until the machine is there."""
        async with asyncio.timeout(20):
            while (await self.remote.get(GetRequest(machine))).state is not state:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@asynccontextmanager
async def lab(
    *slots: str,
    server_over: Over | None = None,
    client_over: Over | None = None,
    options: ClientOptions | None = None,
    backend: Hardware | None = None,
) -> AsyncIterator[Lab]:
    backend = backend or Hardware(*map(a_slot, slots), delay_s=0.0)
    async with (
        hardware.serving(backend, clock=SystemClock()) as server,
        serving([provider_handler(server)], LOOPBACK, server_over or Plaintext()) as address,
        open_channel(address, client_over or server_over or Plaintext()) as channel,
    ):
        yield Lab(server, RemoteProvider(channel, source="lab", options=options), address)


def in_lab(scenario: Callable[[Lab], Awaitable[None]], *slots: str, **given: object) -> None:
    async def whole() -> None:
        async with lab(*slots, **given) as laboratory:  # type: ignore[arg-type]
            await scenario(laboratory)

    asyncio.run(whole())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tls(authority: Authority, *uris: str, name: str = "leaf") -> Over:
    return transport(authority.flags(*uris, name=name), "example.org:1")


@pytest.fixture(params=["plaintext", "mutual TLS"])
def over(request: pytest.FixtureRequest, authority: Authority) -> Over:
    return Plaintext() if request.param == "plaintext" else tls(authority, SHARD)


class TestLifecycle:
    def test_a_machine_goes_from_slot_to_cluster_and_back(self, over: Over) -> None:
        async def scenario(at: Lab) -> None:
            fence = iter(Fence("s-0", 1, number) for number in range(1, 9))
            metadata = {"k\x00": "é", "": "\u2028"}

            created = await at.remote.create(CreateRequest("m-1", next(fence)))
            assert created.machine.state is State.CREATING
            await at.settled("m-1", State.IDLE)

            request = ConfigureRequest(
                "m-1", "web", blob=b"\x00secret", metadata=metadata, fence=next(fence)
            )
            configured = await at.remote.configure(request)
            assert configured.machine.shard_metadata == metadata
            assert configured.operation != created.operation
            await at.settled("m-1", State.CONFIGURED)

            machine = await at.remote.get(GetRequest("m-1"))
            assert machine.cluster == "web"
            assert machine.host == HostRef("lab", "host-of-m-1")

            await at.remote.drain(DrainRequest("m-1", 3, next(fence)))
            await at.settled("m-1", State.IDLE)
            assert (await at.remote.get(GetRequest("m-1"))).shard_metadata == {}

            await at.remote.delete(DeleteRequest("m-1", next(fence)))
            await at.settled("m-1", State.SPECULATIVE)

        in_lab(scenario, "m-1", server_over=over)

    def test_the_blob_the_grace_and_the_repeat_arrive(self) -> None:
        backend = Hardware(a_slot(), delay_s=0.0)

        async def scenario(at: Lab) -> None:
            first = await at.remote.create(CreateRequest("m-1"))
            again = await at.remote.create(CreateRequest("m-1"))
            assert first.operation == again.operation
            await at.settled("m-1", State.IDLE)
            await at.remote.configure(ConfigureRequest("m-1", "web", blob=b"\xffb"))
            await at.settled("m-1", State.CONFIGURED)
            await at.remote.drain(DrainRequest("m-1", 7))
            await at.settled("m-1", State.IDLE)

        in_lab(scenario, backend=backend)
        assert (backend.blob, backend.grace_s) == (b"\xffb", 7)


class TestRefusals:
    def test_each_error_of_the_provider_is_the_same_error_here(self) -> None:
        async def scenario(at: Lab) -> None:
            high = Fence("s-0", 5, 5)
            await at.remote.create(CreateRequest("m-1", high))
            cases: list[tuple[Awaitable[object], type[MainstayError]]] = [
                (at.remote.create(CreateRequest("m-1", high)), Fenced),
                (at.remote.create(CreateRequest("m-1", Fence("s-0", 4, 9))), Fenced),
                (at.remote.get(GetRequest("ghost")), UnknownMachine),
                (at.remote.create(CreateRequest("ghost")), UnknownMachine),
                (at.remote.get(GetRequest("")), Rejected),
                (at.remote.configure(ConfigureRequest("m-2", "web")), IllegalTransition),
                (at.remote.list(ListRequest(results_max=-1)), Rejected),
                (at.remote.drain(DrainRequest("m-1", INT64_MAX + 1)), Rejected),
            ]
            for call, error in cases:
                with pytest.raises(error) as caught:
                    await call
                assert type(caught.value) is error

        in_lab(scenario, "m-1", "m-2")

    def test_a_fence_comes_with_the_newest_epoch_of_that_shard(self) -> None:
        async def scenario(at: Lab) -> None:
            await at.remote.create(CreateRequest("m-1", Fence("s-0", 7, 5)))
            for stale in (Fence("s-0", 6, 9), Fence("s-0", 7, 5)):
                with pytest.raises(Fenced) as caught:
                    await at.remote.create(CreateRequest("m-1", stale))
                assert caught.value.epoch == 7

        in_lab(scenario, "m-1")

    def test_out_of_stock_and_no_delete_keep_their_meaning(self) -> None:
        backend = Hardware(a_slot(), delay_s=0.0)
        backend.deletable = frozenset()
        backend.refuses = NoCapacity("sold out")

        async def scenario(at: Lab) -> None:
            with pytest.raises(NoCapacity, match="sold out"):
                await at.remote.create(CreateRequest("m-1"))
            with pytest.raises(NotSupported):
                await at.remote.delete(DeleteRequest("m-1"))

        in_lab(scenario, backend=backend)

    def test_nobody_there_is_unavailable(self) -> None:
        async def scenario() -> None:
            async with open_channel("127.0.0.1:1", Plaintext()) as channel:
                with pytest.raises(Unavailable):
                    await RemoteProvider(channel, source="lab").get(GetRequest("m-1"))

        asyncio.run(scenario())

    def test_a_provider_that_does_not_answer_is_unavailable_in_time(self) -> None:
        async def silent(data: bytes, context: object) -> bytes:
            await asyncio.sleep(60)
            return b""

        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(silent)
        handler = grpc.method_handlers_generic_handler(SERVICE, {"Get": method, "List": method})
        options = ClientOptions(call_timeout_s=0.2, list_timeout_s=0.2)

        async def scenario() -> None:
            async with (
                serving([handler], LOOPBACK, Plaintext()) as address,
                open_channel(address, Plaintext()) as channel,
            ):
                remote = RemoteProvider(channel, source="lab", options=options)
                with pytest.raises(Unavailable):
                    await remote.get(GetRequest("m-1"))
                with pytest.raises(Unavailable):
                    await remote.list(ListRequest())

        asyncio.run(scenario())

    def test_bytes_that_are_no_request_are_an_invalid_argument(self) -> None:
        async def scenario(at: Lab) -> None:
            async with open_channel(at.address, Plaintext()) as channel:
                for path in METHODS.values():
                    method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
                    method = channel.unary_unary(path)
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await method(b"\xff\xff")
                    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

        in_lab(scenario, "m-1")

    def test_an_address_that_is_taken_is_refused(self) -> None:
        async def scenario(at: Lab) -> None:
            with pytest.raises(Rejected, match=f"cannot listen at {at.address}"):
                async with serving([provider_handler(at.server)], at.address, Plaintext()):
                    pass

        in_lab(scenario, "m-1")


class TestLists:
    SLOTS = tuple(f"m-{number:03}" for number in range(25))

    @pytest.mark.parametrize("page", [1, 7, 1000])
    def test_a_list_is_complete_whatever_its_pages(self, page: int) -> None:
        async def scenario(at: Lab) -> None:
            batch = await at.remote.list(ListRequest())

            assert sorted(batch.ids) == list(self.SLOTS)
            assert batch.full
            assert batch.source == "lab"
            capabilities = at.remote.capabilities
            assert capabilities == at.server.capabilities

        in_lab(scenario, *self.SLOTS, options=ClientOptions(page_machines=page))

    def test_a_later_list_names_what_changed_and_what_is_gone(self) -> None:
        backend = Hardware(*map(a_slot, self.SLOTS), delay_s=0.0)

        async def scenario(at: Lab) -> None:
            first = await at.remote.list(ListRequest())
            nothing = await at.remote.list(ListRequest(since=first.cursor))
            assert (len(nothing), nothing.full, nothing.tombstones) == (0, False, ())

            await at.remote.create(CreateRequest("m-003"))
            await at.settled("m-003", State.IDLE)
            del backend.there["m-004"]
            await at.server.reconcile()
            changed = await at.remote.list(ListRequest(since=first.cursor))

            assert list(changed.ids) == ["m-003"]
            assert changed.tombstones == ("m-004",)
            assert not changed.full

        in_lab(scenario, backend=backend)

    def test_an_inventory_takes_the_list_in_lazily_or_not(self) -> None:
        async def scenario(at: Lab) -> None:
            eager, lazy = Inventory(), Inventory()
            eager.merge(await at.remote.list(ListRequest()), now=1.0)
            lazy.merge(await at.remote.listing(ListRequest()), now=1.0)
            again = lazy.merge(await at.remote.listing(ListRequest()), now=2.0)

            assert len(eager) == len(self.SLOTS)
            assert eager.values() == lazy.values()
            assert again.unchanged == len(self.SLOTS)

        in_lab(scenario, *self.SLOTS)

    def test_only_the_states_asked_for_are_listed(self) -> None:
        async def scenario(at: Lab) -> None:
            await at.remote.create(CreateRequest("m-003"))
            await at.settled("m-003", State.IDLE)

            batch = await at.remote.list(ListRequest(states=frozenset({State.IDLE})))

            assert list(batch.ids) == ["m-003"]
            assert not batch.full

        in_lab(scenario, *self.SLOTS)


class TestAdditions:
    """What we add to the protocol goes all the way."""

    def test_a_shard_that_was_restarted_knows_for_whom_a_machine_is_being_made(
        self, over: Over
    ) -> None:
        meant = Assignment(fingerprint=A_FINGERPRINT, group="", cluster=A_CLUSTER)
        backend = Hardware(a_slot("m-1"), a_slot("m-2"), delay_s=60.0)

        async def scenario(at: Lab) -> None:
            fence = Fence("s-0", 1, 1)
            ack = await at.remote.create(CreateRequest("m-1", fence, encode(meant)))
            assert ack.machine.shard_metadata == encode(meant)
            for report in (
                await at.remote.list(ListRequest()),
                await at.remote.listing(ListRequest()),
            ):
                inventory = Inventory()
                inventory.merge(report, now=1.0)
                assert inventory.machine(MachineId("m-1")).assignment == meant
                assert not inventory.machine(MachineId("m-2")).assignment
            declared = at.remote.capabilities
            assert declared is not None
            assert declared.attribution

        in_lab(scenario, backend=backend, server_over=over)

    def test_the_second_create_changes_nothing_of_what_the_first_has_said(self) -> None:
        backend = Hardware(a_slot("m-1"), delay_s=60.0)

        async def scenario(at: Lab) -> None:
            first = await at.remote.create(CreateRequest("m-1", attribution={"for": "one"}))
            again = await at.remote.create(CreateRequest("m-1", attribution={"for": "other"}))
            assert first == again
            assert (await at.remote.get(GetRequest("m-1"))).shard_metadata == {"for": "one"}

        in_lab(scenario, backend=backend)

    @pytest.mark.parametrize("page", [1, 1000])
    def test_a_notice_comes_changes_and_is_withdrawn(self, page: int) -> None:
        backend = Hardware(a_slot("m-1", host="h-1"), a_slot("m-2", host="h-2"), delay_s=0.0)
        backend.gives_notice = True
        soon, later = InterruptionNotice(1.8e9, "spot"), InterruptionNotice(1.8e9 + 0.5)

        async def scenario(at: Lab) -> None:
            batch = await at.remote.list(ListRequest())
            assert (batch.notices, at.server.capabilities.notices) == ({}, True)
            for notice in (soon, later, None):
                backend.there["m-2"] = a_slot("m-2", host="h-2", notice=notice)
                await at.server.reconcile()
                asked = ListRequest(since=batch.cursor)
                batch, listing = await at.remote.list(asked), await at.remote.listing(asked)
                assert list(batch.ids) == ["m-2"]
                assert batch.notices == listing.notices == ({"m-2": notice} if notice else {})

        in_lab(scenario, backend=backend, options=ClientOptions(page_machines=page))


HANDSHAKE = """
import asyncio, socket, ssl, sys
from mainstay.wire.tls import TlsFlags, transport
from mainstay.wire.transport import serving

cert, key, ca, version = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.load_verify_locations(ca)
context.load_cert_chain(cert, key)
context.set_alpn_protocols(["h2"])
context.maximum_version = ssl.TLSVersion[version]

def shakes_hands(port):
    try:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost"),
        ):
            return True
    except (ssl.SSLError, ConnectionError):
        return False

async def main():
    over = transport(TlsFlags(cert=cert, key=key, ca=ca), "example.org:1")
    async with serving([], "127.0.0.1:0", over) as address:
        print(await asyncio.to_thread(shakes_hands, int(address.rpartition(":")[2])))

asyncio.run(main())
"""


async def create(at: Lab, shard: str) -> Ack:
    return await at.remote.create(CreateRequest("m-1", Fence(shard, 1, 1)))


class TestMutualTls:
    def test_a_shard_acts_in_its_own_name_only(self, authority: Authority) -> None:
        async def scenario(at: Lab) -> None:
            with pytest.raises(NotAllowed, match="in the name of shard 's-1'"):
                await create(at, "s-1")
            with pytest.raises(NotAllowed, match="in the name of nobody"):
                await at.remote.create(CreateRequest("m-1"))
            await create(at, "s-0")

        in_lab(scenario, "m-1", server_over=tls(authority, SHARD))

    @pytest.mark.parametrize(
        ("uri", "reads", "acts"),
        [
            ("bigfleet://admin", True, True),
            ("bigfleet://readonly", True, False),
            ("bigfleet://cluster/s-0", False, False),
            ("https://example.org/", False, False),
        ],
    )
    def test_who_may_do_what(self, authority: Authority, uri: str, reads: bool, acts: bool) -> None:
        async def allowed(call: Awaitable[object]) -> bool:
            try:
                await call
            except NotAllowed:
                return False
            return True

        async def scenario(at: Lab) -> None:
            assert await allowed(at.remote.get(GetRequest("m-1"))) is reads
            assert await allowed(at.remote.list(ListRequest())) is reads
            assert await allowed(create(at, "s-0")) is acts

        in_lab(
            scenario, "m-1", server_over=tls(authority), client_over=tls(authority, uri, name="it")
        )

    def test_a_certificate_of_another_authority_gets_no_connection(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        stranger = Authority(tmp_path, "strangers").flags(SHARD, name="stranger")
        flags = TlsFlags(cert=stranger.cert, key=stranger.key, ca=str(authority.path))

        async def scenario(at: Lab) -> None:
            with pytest.raises(Unavailable):
                await at.remote.get(GetRequest("m-1"))

        in_lab(
            scenario, "m-1",
            server_over=tls(authority), client_over=transport(flags, "example.org:1"),
        )  # fmt: skip

    def test_plaintext_gets_no_answer_from_a_server_with_tls(self, authority: Authority) -> None:
        async def scenario(at: Lab) -> None:
            with pytest.raises(Unavailable):
                await at.remote.get(GetRequest("m-1"))

        in_lab(scenario, "m-1", server_over=tls(authority), client_over=Plaintext())

    @pytest.mark.parametrize(("version", "shakes"), [("TLSv1_2", "False"), ("TLSv1_3", "True")])
    def test_tls_before_1_3_does_not_even_shake_hands(
        self, authority: Authority, version: str, shakes: str
    ) -> None:
        """In a process of its own: gRPC looks once, when it is imported."""
        flags = authority.flags(SHARD)

        ended = outside.run(
            [sys.executable, "-c", HANDSHAKE, flags.cert, flags.key, flags.ca, version]
        )

        assert ended.stdout == f"{shakes}\n", ended.stderr

    def test_a_server_shows_a_new_certificate_without_a_restart(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        over = tls(authority, SHARD)
        assert isinstance(over, MutualTls)

        def shown(port: int) -> str:
            return ssl.get_server_certificate(("127.0.0.1", port))

        async def scenario(at: Lab) -> None:
            port = int(at.address.rpartition(":")[2])
            before = await asyncio.to_thread(shown, port)
            authority.write([SHARD])
            over.channel_credentials()  # a client of this process saw the new files first
            after = await asyncio.to_thread(shown, port)

            assert before.split() != after.split()
            assert after.split() == (tmp_path / "leaf.crt").read_text().split()

        in_lab(scenario, "m-1", server_over=over)
