"""No provider can invent a sequence: every step is an edge of the model's own table."""

import pytest

from builders import REAL_STATES, a_machine
from hardware import Hardware, a_slot, serving
from mainstay.model.errors import IllegalTransition, InvalidMachine
from mainstay.model.profile import HostRef
from mainstay.model.state import State, can_transition
from mainstay.providers.kit.ledger import Ledger
from mainstay.providers.kit.steps import placed, stepped
from mainstay.providers.kit.store import MemoryStore
from virtual_loop import run


@pytest.mark.parametrize("old", REAL_STATES)
@pytest.mark.parametrize("new", REAL_STATES)
def test_a_machine_moves_only_along_the_edges_of_the_table(old: State, new: State) -> None:
    machine = a_machine(old)
    parts = {"host": HostRef("lab", "h"), "cluster": "web", "last_error": "broken"}
    carried = {
        State.IDLE: ("host",),
        State.CONFIGURED: ("host", "cluster"),
        State.FAILED: ("last_error",),
    }
    given = {name: parts[name] for name in carried.get(new, ())}

    if can_transition(old, new):
        assert stepped(machine, new, **given).state is new
    else:
        with pytest.raises(IllegalTransition):
            stepped(machine, new, **given)


def test_the_ledger_refuses_an_illegal_step_and_keeps_the_record() -> None:
    async def scenario() -> None:
        store = MemoryStore("lab")
        async with serving(Hardware(a_slot()), store=store) as server:
            ledger: Ledger = server._ledger
            revision = ledger.revision
            with pytest.raises(IllegalTransition, match="Speculative -> Configured"):
                ledger.step("m-1", State.CONFIGURED)
            assert ledger.revision == revision
            assert ledger.known("m-1").machine.state is State.SPECULATIVE

    run(scenario())


def test_a_fault_may_skip_the_table_but_not_make_a_machine_that_cannot_be() -> None:
    with pytest.raises(InvalidMachine, match="must have a host"):
        placed(a_machine(State.SPECULATIVE), State.CONFIGURED)
