"""A provider for benches, as a process of its own: `python -m mainstay.bench.list_server`.

It serves the fleet on which the Go reference was measured. The first line it prints is a JSON
object with its address; afterwards every line on stdin is a command, answered by one JSON object:
`change [EACH]`, `remove COUNT`, `facts`. It ends with its stdin, and so with whoever started it.
"""

import argparse
import asyncio
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import grpc

from mainstay.bench import lcg
from mainstay.bench.frame import resident_mb
from mainstay.bench.listed import HUNDREDTH, ListedFleet, changed_rows
from mainstay.model.calls import Call, ListRequest
from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.model.machine import Machine
from mainstay.model.metadata import encode
from mainstay.runtime.children import Child, Children
from mainstay.wire.calls import SERVICE, request_from_wire
from mainstay.wire.provider_server import provider_handler
from mainstay.wire.status import grpc_code, trailer
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import serving

Answer = Mapping[str, object]
Context = grpc.aio.ServicerContext[bytes, bytes]


def machines_of(fleet: lcg.Fleet) -> Iterator[Machine]:
    """The machines of a fleet as their provider reports them, one at a time."""
    forms = lcg.Forms()
    echoes: dict[int, Mapping[str, str]] = {}
    for number, slot in enumerate(fleet.slots):
        machine = forms.machine(number, slot)
        if slot.wish is None:
            yield machine
            continue
        if id(slot.wish) not in echoes:
            echoes[id(slot.wish)] = encode(forms.assignment(slot.wish))
        yield dataclasses.replace(machine, shard_metadata=echoes[id(slot.wish)])


def list_handler(fleet: ListedFleet) -> grpc.GenericRpcHandler:
    """List alone, from bytes; it goes before the handler of the other calls."""

    async def handle(data: bytes, context: Context) -> bytes:
        try:
            request = request_from_wire(Call.LIST, data)
            if not isinstance(request, ListRequest):
                raise Rejected("not a list")
            return fleet.answer(request)
        except MainstayError as error:
            await context.abort(grpc_code(error), error.message, trailer(error))

    method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(handle)
    return grpc.method_handlers_generic_handler(SERVICE, {Call.LIST.capitalize(): method})


def obey(fleet: ListedFleet, line: str) -> Answer:
    """Carry out one command."""
    word, _, rest = line.strip().partition(" ")
    number = rest.strip()
    if number and not number.isdecimal():
        return {"error": f"not a number: {number!r}"}
    command = COMMANDS.get(word)
    if command is None:
        return {"error": f"no such command: {word!r} (there are: {', '.join(COMMANDS)})"}
    return {**command(fleet, int(number or 0)), "revision": fleet.revision}


def _change(fleet: ListedFleet, each: int) -> Answer:
    return {"changed": fleet.change(each or HUNDREDTH)}


def _remove(fleet: ListedFleet, count: int) -> Answer:
    return {"removed": fleet.remove(count)}


def _facts(fleet: ListedFleet, _: int) -> Answer:
    return {
        "machines": len(fleet), "bytes": fleet.size_bytes, "calls": fleet.calls,
        "rss_mb": resident_mb(),
    }  # fmt: skip


class ListServer:
    """The process, in the hands of whoever started it."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._turn = 0
        told = self._told()
        self.address = str(told["address"])
        self.machines = int(told["machines"])
        self.size_bytes = int(told["bytes"])
        self.changed = 0

    def change(self) -> range:
        """Another price for one machine in a hundred: these."""
        self._turn += 1
        self._child.tell("change")
        self.changed += int(self._told()["changed"])
        return changed_rows(self._turn, self.machines)

    def calls(self) -> int:
        """How many steps it was asked for."""
        self._child.tell("facts")
        return int(self._told()["calls"])

    def _told(self) -> dict[str, Any]:
        line = self._child.line()
        if not line:
            raise Unavailable(f"the provider of the bench has ended: {self._child.tail()}")
        told: dict[str, Any] = json.loads(line)
        return told


def started(children: Children, machines: int, needs: int, racks: int) -> ListServer:
    """Start the process and wait until it serves."""
    size = [f"--machines={machines}", f"--needs={needs}", f"--racks={racks}"]
    return ListServer(children.module("provider", ["mainstay.bench.list_server", *size]))


COMMANDS: Final[Mapping[str, Callable[[ListedFleet, int], Answer]]] = {
    "change": _change,
    "remove": _remove,
    "facts": _facts,
}


async def serve(
    fleet: ListedFleet, lines: asyncio.StreamReader, say: Callable[[str], None]
) -> None:
    """Serve on a free port of loopback until there are no more lines."""
    handlers = [list_handler(fleet), provider_handler(fleet)]
    async with serving(handlers, "127.0.0.1:0", Plaintext("")) as address:
        say(json.dumps({"address": address, **_facts(fleet, 0)}))
        while line := await lines.readline():
            say(json.dumps(obey(fleet, line.decode(errors="replace"))))


async def _main(fleet: ListedFleet) -> None:
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await serve(fleet, lines, _say)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the fleet, serve it."""
    parser = argparse.ArgumentParser(prog="python -m mainstay.bench.list_server")
    for name, default in (("machines", 500_000), ("needs", 5_000), ("racks", 500)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args(arguments)
    fleet = ListedFleet(machines_of(lcg.generate(given.machines, given.needs, given.racks)))
    asyncio.run(_main(fleet))


if __name__ == "__main__":
    main()
