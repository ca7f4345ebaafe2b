"""Delete: hardware goes back, a quota slot stays."""

import pytest

from mainstay.model.action import ActionKind
from mainstay.model.calls import Call
from mainstay.model.errors import MainstayError, NotSupported, Rejected
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.outcomes import Outcome
from shard_hands import M, a_link, an_order, carried_out, changed, finished, hands, in_time

DELETE = an_order(ActionKind.DELETE)


class TestDelete:
    def test_the_slot_is_left_without_its_host(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_link(State.IDLE)), DELETE)
            machine = world.machine()
            assert (machine.state, machine.host) == (State.SPECULATIVE, None)
            assert world.journal.outcomes() == [Outcome.SUCCESS]
            assert len(world.journal.reasons(Event.IDLE_RELEASED)) == 1

        in_time(scenario)

    def test_one_that_is_still_going_stays_deleting_with_its_host(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_link(State.IDLE, slow=True)), DELETE)
            machine = world.machine()
            assert machine.state is State.DELETING
            assert machine.host is not None
            assert world.journal.outcomes() == [Outcome.ACCEPTED]
            assert len(world.journal.reasons(Event.IDLE_RELEASED)) == 1

        in_time(scenario)

    @pytest.mark.parametrize(
        ("error", "outcome"),
        [
            (NotSupported("never"), Outcome.NOT_SUPPORTED),
            (Rejected("in use"), Outcome.PROVIDER_ERROR),
        ],
    )
    def test_a_refusal_is_failed_and_never_repeated(
        self, error: MainstayError, outcome: Outcome
    ) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            link.will(Call.DELETE, error)
            world = await carried_out(hands(link), DELETE)
            assert world.machine().state is State.FAILED
            assert world.machine().last_error == f"delete: {error.message}"
            assert world.journal.outcomes() == [outcome]
            assert world.journal.reasons(Event.IDLE_RELEASED) == []
            assert len(link.calls) == 1

        in_time(scenario)

    def test_an_ack_that_cannot_be_is_failed(self) -> None:
        async def scenario() -> None:
            link = a_link(State.IDLE)
            link.will(Call.DELETE, changed(price_per_hour=-1.0))
            world = await carried_out(hands(link), DELETE)
            assert world.machine().state is State.FAILED
            assert world.journal.outcomes() == [Outcome.REFUSED_ACK]

        in_time(scenario)

    def test_a_machine_that_was_taken_meanwhile_is_left_alone(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.IDLE))
            executor = world.executor()
            executor.offer([DELETE], cycle=1)
            world.tools.moves.to(M, State.CONFIGURING)
            await finished(executor)
            assert world.journal.outcomes() == [Outcome.STALE_STATE]
            assert world.link.calls == []

        in_time(scenario)
