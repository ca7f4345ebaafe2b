"""The six calls for a check: typed requests in, raw answers out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mainstay.conformance import expect
from mainstay.conformance.check import Broken
from mainstay.model.calls import (
    NO_FENCE,
    Call,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    Fence,
    GetRequest,
    ListRequest,
    Mutation,
)
from mainstay.model.state import State
from mainstay.wire.raw_calls import Line, Record, Reply, raw_request

_CALLS: Mapping[type, Call] = {
    CreateRequest: Call.CREATE,
    ConfigureRequest: Call.CONFIGURE,
    DrainRequest: Call.DRAIN,
    DeleteRequest: Call.DELETE,
    GetRequest: Call.GET,
    ListRequest: Call.LIST,
}
PAGES_MAX = 10_000
MUTATING = (Call.CREATE, Call.CONFIGURE, Call.DRAIN, Call.DELETE)


class Caller:
    """Calls over one line. Without a fence a call is sent with the all-zero token."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def ask(self, request: Mutation | GetRequest | ListRequest) -> Reply:
        """Any request."""
        reply = await self._line.send(_CALLS[type(request)], raw_request(request))
        return replace(reply, asked=_shown(request))

    async def send(self, call: Call, data: bytes, asked: str) -> Reply:
        """Any bytes, as the request of a call."""
        return replace(await self._line.send(call, data), asked=asked)

    async def create(self, machine: str, fence: Fence = NO_FENCE) -> Reply:
        """Create."""
        return await self.ask(CreateRequest(machine, fence))

    async def configure(
        self,
        machine: str,
        fence: Fence = NO_FENCE,
        *,
        cluster: str = "conformance",
        metadata: Mapping[str, str] | None = None,
        blob: bytes = b"",
    ) -> Reply:
        """Configure."""
        return await self.ask(ConfigureRequest(machine, cluster, blob, metadata or {}, fence))

    async def drain(self, machine: str, fence: Fence = NO_FENCE, *, grace_s: int = 0) -> Reply:
        """Drain."""
        return await self.ask(DrainRequest(machine, grace_s, fence))

    async def delete(self, machine: str, fence: Fence = NO_FENCE) -> Reply:
        """Delete."""
        return await self.ask(DeleteRequest(machine, fence))

    async def mutate(self, call: Call, machine: str, fence: Fence = NO_FENCE) -> Reply:
        """One of the four, with nothing but what it must have."""
        match call:
            case Call.CREATE:
                return await self.create(machine, fence)
            case Call.CONFIGURE:
                return await self.configure(machine, fence)
            case Call.DRAIN:
                return await self.drain(machine, fence)
            case _:
                return await self.delete(machine, fence)

    async def seen(self, machine: str) -> Reply:
        """Get, whatever comes of it."""
        return await self.ask(GetRequest(machine))

    async def get(self, machine: str) -> Record:
        """The machine as it is now."""
        reply = expect.ok(await self.seen(machine))
        if reply.machine is None or reply.machine.id != machine:
            raise Broken(f"{reply.asked}: the answer is about another machine")
        return reply.machine

    async def list(
        self, *, states: Iterable[State] = (), since: bytes = b"", most: int = 0
    ) -> Reply:
        """One answer to List."""
        request = ListRequest(states=frozenset(states), since=since, results_max=most)
        return expect.ok(await self.ask(request))

    async def everything(self) -> dict[str, Record]:
        """All machines, however many answers that takes."""
        return {record.id: record for page in await self.pages() for record in page.machines}

    async def pages(self, most: int = 0) -> Sequence[Reply]:
        """Every answer that a full list consists of; one that does not end is broken."""
        answers = [await self.list(most=most)]
        machines = len(answers[0].machines)
        while answers[-1].more:
            known = {answer.cursor for answer in answers[:-1]}
            expect.that(answers[-1].cursor not in known, "a list goes on and its cursor does not")
            expect.that(
                len(answers) <= PAGES_MAX, f"a list has not ended after {machines} machines"
            )
            answers.append(await self.list(since=answers[-1].cursor, most=most))
            machines += len(answers[-1].machines)
        return answers

    async def listed(self, machine: str, *states: State) -> Record:
        """The machine as a list of these states shows it."""
        reply = await self.list(states=states)
        found = [record for record in reply.machines if record.id == machine]
        expect.that(len(found) == 1, f"List names machine {machine} {len(found)} times")
        return found[0]


def _shown(request: Mutation | GetRequest | ListRequest) -> str:
    name = _CALLS[type(request)].capitalize()
    match request:
        case GetRequest():
            return f"{name} {request.machine!a}"
        case ListRequest():
            states = ",".join(map(str, sorted(request.states))) or "all"
            since = f" since {request.since[:16]!r}" if request.since else ""
            return f"{name} {states} most {request.results_max}{since}"
        case _:
            fence = request.fence
            token = f" at {fence.epoch}/{fence.sequence}" if fence else ""
            return f"{name} {request.machine!a}{token}"
