"""Waiting on the command line: until something happens, and over outages of who is asked."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mainstay.cli import exits, output
from mainstay.model.errors import Unavailable
from mainstay.runtime.clock import Clock, SystemClock
from mainstay.session.reconnect import Pauses, ReconnectOptions

if TYPE_CHECKING:
    from mainstay.cli.client import Client

AnswerT = TypeVar("AnswerT")

LOOK_S: Final = 1.0
OUTAGE_S: Final = 600.0
"""How long an outage is seen through."""

PAUSES: Final = ReconnectOptions(shortest_s=0.5, longest_s=5.0)


class Outage:
    """Whoever waits sees outages of the API through, asking less and less often.

    Each is told of once. One from the beginning is a failure, and so is one that does not end.
    """

    def __init__(
        self, clock: Clock | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock or SystemClock(), sleep
        self._pauses = Pauses(Random(), PAUSES)
        self._has_answered = False
        self._since_s: float | None = None

    def through(self, ask: Callable[[], AnswerT]) -> AnswerT:
        """The answer, once there is one."""
        while True:
            try:
                answer = ask()
            except Unavailable as error:
                self._bear(error)
            else:
                self._heard()
                return answer

    def followed(
        self, api: "Callable[[], Client]", path: str, **query: object
    ) -> Iterator[Mapping[str, Any]]:
        """Notices as they come; empty after a while without, and where a stream broke off.

        The next stream goes on behind the last notice. It ends when the reader has seen enough.
        """
        after = 0
        while True:
            began_s = self._clock.elapsed_s()
            try:
                for event in api().events(path, after=after, **query):
                    self._heard()
                    after = event.get("position", after)
                    yield event
            except Unavailable as error:
                self._bear(error)
            else:
                self._sleep(self._pauses.after(self._clock.elapsed_s() - began_s))
                yield {}

    def pause(self, seconds: float) -> None:
        """Before the next question of somebody who is answered."""
        self._sleep(seconds)

    def _heard(self) -> None:
        if self._since_s is not None:
            self._pauses = Pauses(Random(), PAUSES)
        self._has_answered, self._since_s = True, None

    def _bear(self, error: Unavailable) -> None:
        now_s = self._clock.elapsed_s()
        since_s = now_s if self._since_s is None else self._since_s
        if not self._has_answered or now_s - since_s >= OUTAGE_S:
            raise error
        if self._since_s is None:
            self._since_s = now_s
            exits.complain(error.message, f"it is asked again for {OUTAGE_S / 60:.0f} minutes")
        self._sleep(self._pauses.after(0.0))


def waited(
    client: "Client",
    body: Mapping[str, Any],
    key: str | None,
    form: output.Format,
    *,
    outage: Outage | None = None,
) -> int:
    """Print the allocation's id once there is one; what is waited for is said on stderr."""
    outage = outage or Outage()
    found = outage.through(lambda: client.post("/capacity-requests", body, key=key))
    asked, said = f"/capacity-requests/{found['request_id']}", ""
    while found["state"] == "waiting":
        line = f"{found['request_id']} waits: {found['reason'] or 'machines are asked for'}"
        if line != said:
            sys.stderr.write(f"{line} (`mainstay alloc cancel` ends it)\n")
            said = line
        outage.pause(LOOK_S)
        found = outage.through(lambda: client.get(asked))
    if found["state"] == "placed":
        output.tell(found, found["allocation_id"], form)
        return exits.DONE
    sys.stderr.write(f"{found['request_id']} is {found['state']}: {found['reason']}\n")
    return exits.FAILED
