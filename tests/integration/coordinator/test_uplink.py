"""A shard process whose coordinator is not there, or lies: its cycles do not show it.

Real processes; the liar is a gRPC server of this test that answers with whatever bytes it likes.
"""

import asyncio
import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
from typing_extensions import override

from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    Instruction,
    Outcome,
    ReportAck,
    ShardReport,
    UnassignDomain,
)
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile
from mainstay.model.state import State
from mainstay.model.views import MachineQuery
from mainstay.session.client import ClientTools, SessionClient
from mainstay.session.reconnect import ReconnectOptions
from mainstay.wire.coordinator_codec import answer_to_wire, report_from_wire
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import open_channel
from running import Home, Process, at_home, until
from talking import Hands

METHOD: Final = "/bigfleet.v1alpha1.Coordinator/ReportShard"

FLEET: Final = """
name = "sim"
latency_s = { create = 0.1, configure = 0.1, drain = 0.1, delete = 0.1 }

[[pool]]
capacity = "Reserved"
type = "m5.large"
zone = "use1-az2"
slots = 12
"""

SETTINGS: Final = "[shard]\nreport_interval_s = 0.2\n"

TERM: Final = 10
PACE: Final = 0.9
"""Of two shards that do the same at the same time, the slower one's cycles to the other's."""

CYCLES: Final = "mainstay_shard_cycle_seconds_count"
REPORTS: Final = "mainstay_shard_uplink_reports_total"
INSTRUCTIONS: Final = "mainstay_shard_uplink_instructions_total"

Say = Callable[[bytes, grpc.ServicerContext], bytes]


def answer(*instructions: Instruction, term: int = TERM) -> bytes:
    return answer_to_wire(ReportAck(term=term, instructions=instructions))


def assign(name: str, *, term: int = TERM, sequence: int = 1) -> Instruction:
    payload = AssignDomain(domain=Domain("zone", "nowhere"))
    return Instruction(term=term, sequence=sequence, id=name, payload=payload)


def honest(_: bytes, __: grpc.ServicerContext) -> bytes:
    return answer()


def says(data: bytes) -> Say:
    return lambda _, __: data


def refuses(code: grpc.StatusCode) -> Say:
    def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(code, "no" * 1_000)
        raise AssertionError

    return refuse


def hangs(_: bytes, context: grpc.ServicerContext) -> bytes:
    gone = threading.Event()
    context.add_callback(gone.set)
    gone.wait(60)
    return b""


def many(count: int) -> bytes:
    """So many instructions of a kind that is not known, in few bytes each."""
    each = Instruction(term=TERM, sequence=1, id="i", payload=None)
    return answer() + answer(each)[len(answer()) :] * count


LIES: Final[dict[str, Say]] = {
    "garbage": says(b"\xff\xfe\xfd" * 1_000),
    "nothing": says(b""),
    "enormous": says(b"\x00" * (64 << 20)),
    "unavailable": refuses(grpc.StatusCode.UNAVAILABLE),
    "invalid": refuses(grpc.StatusCode.INVALID_ARGUMENT),
    "not leading": refuses(grpc.StatusCode.FAILED_PRECONDITION),
    "fenced": refuses(grpc.StatusCode.ABORTED),
    "stale": says(answer(assign("stale", term=3), term=3)),
    "unknown": says(answer(Instruction(term=TERM, sequence=1, id="unknown", payload=None))),
    "many": says(many(100_000)),
    "a million": says(many(1_000_000)),
    "hangs": hangs,
    "everything taken away": says(
        answer(
            Instruction(
                term=TERM,
                sequence=1,
                id="away",
                payload=UnassignDomain(domain=Domain("zone", "use1-az2")),
            )
        )
    ),
}


@dataclass
class Liar(grpc.GenericRpcHandler):
    """Tells each of its lies once, the truth between two of them, and the truth at the end."""

    lies: Iterator[tuple[str, Say]] = field(default_factory=lambda: iter(()))
    told: list[str] = field(default_factory=list)
    heard: list[ShardReport] = field(default_factory=list)
    is_true: Iterator[bool] = field(default_factory=lambda: itertools.cycle((True, False)))

    @override
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._report)

    def _report(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.heard.append(report_from_wire(request))
        name, say = ("", honest) if next(self.is_true) else next(self.lies, ("", honest))
        if name:
            self.told.append(name)
        return say(request, context)

    def acks(self) -> dict[str, Outcome]:
        return {ack.instruction: ack.outcome for report in self.heard for ack in report.acks}


@contextmanager
def lying(liar: Liar) -> Iterator[str]:
    """At which address."""
    options = [("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(8), handlers=[liar], options=options)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def hanging_up() -> Iterator[tuple[str, list[int]]]:
    """Somebody who takes every connection and ends it at once; how many, so far."""
    taken: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    taken.append(1)
                    connection.close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}", taken
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def nobody() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


def provider(home: Home) -> Process:
    fleet = home.path / "fleet.toml"
    fleet.write_text(FLEET)
    return home.start("provider", "provider", "sim", "--fleet", str(fleet), *_listen("--listen"))


def shard(home: Home, name: str, of: Process, *words: str) -> Process:
    settings = home.path / "settings.toml"
    settings.write_text(SETTINGS)
    ours = ("--id", name, "--provider", f"sim={of.grpc}", "--config", str(settings))
    quick = ("--insecure", "--cycle-interval", "0.1")
    return home.start("shard", "shard", *ours, *quick, *_listen("--listen", "--http"), *words)


def _listen(*flags: str) -> list[str]:
    return [word for flag in flags for word in (flag, "127.0.0.1:0")]


async def serving(process: Process) -> int:
    query = MachineQuery(states=(State.CONFIGURED,), cluster="web")
    async with open_channel(process.grpc, Plaintext()) as channel:
        remote = RemoteShard(channel, name="shard")
        return len([row async for rows in remote.machines(query) for row in rows.rows])


async def demand_is_met(process: Process, machines: int, client: SessionClient) -> None:
    need = Need(
        cluster=ClusterId("web"),
        profile=NeedProfile(priority=100),
        aggregate={"cpu": machines * 2_000},
        min_unit={"cpu": 2_000},
    )
    client.set_needs([need])
    async with asyncio.timeout(60):
        while True:
            if await serving(process) == machines:
                return
            await asyncio.sleep(0.05)


async def demands_are_met(shards: list[tuple[Process, SessionClient]], machines: int) -> None:
    async with asyncio.TaskGroup() as tasks:
        for process, client in shards:
            tasks.create_task(demand_is_met(process, machines, client))


def a_cluster(process: Process) -> SessionClient:
    tools = ClientTools(
        reconnect=ReconnectOptions(shortest_s=0.05, longest_s=0.5), rollup_every_s=0.5
    )
    return SessionClient("web", process.grpc, Plaintext(), Hands(), tools=tools)


def test_cycles_and_demand_go_on_at_the_same_pace_whatever_the_coordinator_says(
    tmp_path: Path,
) -> None:
    async def scenario(shards: tuple[Process, Process], liar: Liar) -> None:
        async with asyncio.TaskGroup() as tasks:
            clients = [a_cluster(each) for each in shards]
            running = [tasks.create_task(client.run()) for client in clients]
            both = list(zip(shards, clients, strict=True))
            await demands_are_met(both, 3)
            await asyncio.to_thread(until, lambda: liar.heard)
            before = [each.metric(CYCLES) for each in shards]
            liar.lies = iter(LIES.items())
            for machines in itertools.cycle((5, 4)):
                await demands_are_met(both, machines)
                if len(liar.told) == len(LIES):
                    break
            after = [each.metric(CYCLES) for each in shards]
            alone, lied_to = (end - start for start, end in zip(before, after, strict=True))
            assert lied_to > PACE * alone > 20
            await asyncio.to_thread(until, lambda: "unknown" in liar.acks())
            for task in running:
                task.cancel()

    liar = Liar()
    with at_home(tmp_path) as home, lying(liar) as at:
        alone = shard(home, "alone", provider(home))
        lied_to = shard(home, "lied-to", provider(home), "--coordinator", at)
        asyncio.run(scenario((alone, lied_to), liar))

        assert liar.told == list(LIES)
        assert liar.acks()["stale"] is Outcome.REJECTED_STALE
        assert liar.acks()["unknown"] is Outcome.REJECTED_INVALID
        for outcome in ("answered", "stale", "unheard", "refused"):
            assert lied_to.metric(REPORTS, outcome=outcome) >= 1, outcome
        assert alone.metric(REPORTS) == 0
        assert lied_to.page("/readyz") == (200, "ok\n")
        assert lied_to.metric("mainstay_shard_uplink_defects_total") == 0
        numbers = [report.number for report in liar.heard]
        assert numbers == sorted(set(numbers))
        assert {report.address for report in liar.heard} == {lied_to.grpc}
        assert lied_to.stop() == 0


@contextmanager
def never_answering() -> Iterator[str]:
    """Somebody who takes connections and says nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_shard_is_ready_in_the_same_way_with_and_without_a_coordinator(tmp_path: Path) -> None:
    """Also with one that is silent, before the first report to it can have come to an end, and with
    one of which every word is a lie.
    """
    liar, truthful = Liar(itertools.cycle(LIES.items()), is_true=itertools.repeat(False)), Liar()
    with (
        at_home(tmp_path) as home,
        hanging_up() as (rude, taken),
        never_answering() as silent,
        lying(liar) as lied,
        lying(truthful) as at,
    ):
        one = provider(home)
        led = ("--coordinator", nobody(), "--coordinator", at, "--advertise", "here.example:7780")
        waits = shard(home, "unanswered", one, "--coordinator", silent)
        until(lambda: waits.page("/readyz") == (200, "ok\n"))
        assert waits.metric(REPORTS) == 0
        shards = [
            shard(home, "alone", one),
            shard(home, "deserted", one, "--coordinator", nobody()),
            shard(home, "hung-up-on", one, "--coordinator", rude),
            shard(home, "led", one, *led),
            shard(home, "lied-to", one, "--coordinator", lied),
        ]
        for each in shards:
            until(lambda each=each: each.page("/readyz") == (200, "ok\n"))
        until(lambda: taken)
        until(lambda: shards[1].metric(REPORTS, outcome="unheard"))
        until(lambda: shards[3].metric(REPORTS, outcome="answered"))
        until(lambda: liar.told)
        heard = truthful.heard[0]
        assert (heard.shard, heard.address) == ("led", "here.example:7780")
        assert heard.epoch == shards[3].facts["epoch"]
        assert [each.stop() for each in (waits, *shards)] == [0] * 6
