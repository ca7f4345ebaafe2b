"""The simulated provider, and what the shard does when the two see a machine differently."""

import dataclasses
from random import Random
from typing import Any

import pytest

from mainstay.model.action import Action, ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment
from mainstay.model.ids import Fingerprint, MachineId
from mainstay.model.machine import Machine, faults
from mainstay.model.metadata import decode
from mainstay.model.state import NEXT, State
from mainstay.sim.execute import begin
from mainstay.sim.loop import start
from mainstay.sim.provider import FAILED_REST, WORK, Provider
from mainstay.sim.spec import LoopSpec
from mainstay.sim.stage import WEB
from mainstay.sim.world import Loop

SERVING, SLOT = MachineId("m-000"), MachineId("m-016")
MEANT = Assignment(fingerprint=Fingerprint("f"), group="", cluster=WEB)


def a_loop(**settings: Any) -> Loop:
    return start(LoopSpec(seed=1, cycles=1, scene="plain", **settings))


def a_provider(**settings: Any) -> Provider:
    return a_loop(**settings).provider


def has(provider: Provider, name: MachineId) -> Machine:
    machine = provider.find(name)
    assert machine is not None
    return machine


def called(provider: Provider, kind: ActionKind, name: MachineId, *, cycle: int = 0) -> bool:
    return provider.call(kind, name, WEB, MEANT, cycle=cycle)


class TestCalls:
    @pytest.mark.parametrize("kind", ActionKind)
    def test_work_goes_over_legal_edges(self, kind: ActionKind) -> None:
        work = WORK[kind]

        assert work.during in NEXT[work.before]
        assert work.after in NEXT[work.during]

    def test_a_machine_goes_all_the_way_and_is_valid_in_every_state(self) -> None:
        provider = a_provider()
        kinds = [ActionKind.PROVISION, ActionKind.BOOTSTRAP, ActionKind.RECLAIM, ActionKind.DELETE]
        for place, kind in enumerate(kinds):
            assert called(provider, kind, SLOT, cycle=10 * place)
            assert has(provider, SLOT).state is WORK[kind].during
            assert list(faults(has(provider, SLOT))) == []
            provider.complete(10 * place + 9, Random(1))
            assert has(provider, SLOT).state is WORK[kind].after
            assert list(faults(has(provider, SLOT))) == []

    @pytest.mark.parametrize("kind", [ActionKind.PROVISION, ActionKind.BOOTSTRAP])
    def test_a_call_on_a_machine_in_another_state_is_refused(self, kind: ActionKind) -> None:
        provider = a_provider()
        before = has(provider, SERVING)

        assert not called(provider, kind, SERVING)
        assert has(provider, SERVING) is before

    def test_the_same_call_again_is_refused(self) -> None:
        provider = a_provider()

        assert called(provider, ActionKind.PROVISION, SLOT)
        assert not called(provider, ActionKind.PROVISION, SLOT)

    def test_a_call_on_a_machine_that_is_not_there_is_refused(self) -> None:
        assert not called(a_provider(), ActionKind.PROVISION, MachineId("nobody"))

    def test_work_is_done_after_its_dwell_and_not_before(self) -> None:
        provider = a_provider(create_dwell=2)
        called(provider, ActionKind.PROVISION, SLOT, cycle=5)

        seen = []
        for cycle in range(6, 9):
            provider.complete(cycle, Random(1))
            seen.append(has(provider, SLOT).state)

        assert seen == [State.CREATING, State.CREATING, State.IDLE]


class TestRecords:
    def test_a_create_that_fails_leaves_a_record_for_a_while_and_then_a_slot(self) -> None:
        provider = a_provider()
        provider.creates_to_fail = 1
        called(provider, ActionKind.PROVISION, SLOT, cycle=0)

        assert provider.complete(1, Random(1)) == 1
        assert has(provider, SLOT).state is State.FAILED
        assert provider.complete(FAILED_REST, Random(1)) == 0
        assert provider.find(SLOT) is not None
        assert provider.complete(1 + FAILED_REST, Random(1)) == 0
        assert provider.find(SLOT) is None
        assert has(provider, MachineId("m-016+001")).state is State.SPECULATIVE

    def test_a_lost_machine_makes_room_for_a_slot(self) -> None:
        provider = a_provider()

        provider.lose(has(provider, SERVING))

        slot = has(provider, MachineId("m-000+001"))
        assert provider.find(SERVING) is None
        assert slot.state is State.SPECULATIVE
        assert list(faults(slot)) == []

    @pytest.mark.parametrize(
        ("settings", "creating", "serving"),
        [
            ({}, True, True),
            ({"echo_create": False}, False, True),
            ({"echo": False}, False, False),
        ],
    )
    def test_what_it_was_told_comes_back_as_far_as_it_echoes(
        self, settings: dict[str, Any], creating: bool, serving: bool
    ) -> None:
        provider = a_provider(**settings)
        called(provider, ActionKind.PROVISION, SLOT)

        echoes = [decode(has(provider, name).shard_metadata) for name in (SLOT, SERVING)]

        assert (echoes[0].assignment == MEANT) is creating
        assert (echoes[1].assignment.priority == 100) is serving
        assert all(machine.assignment == NO_ASSIGNMENT for machine in provider.machines())

    def test_a_list_is_the_same_object_until_something_changes(self) -> None:
        provider = a_provider()
        first = provider.listed(Random(1))

        assert provider.listed(Random(2)) is first

        called(provider, ActionKind.PROVISION, SLOT)

        assert provider.listed(Random(1)) is not first


class TestTwoViews:
    RECLAIM = Action(ActionKind.RECLAIM, SERVING, WEB, None)

    def test_a_machine_that_has_moved_on_here_is_left_alone_there(self) -> None:
        loop = a_loop()
        ours = loop.inventory.machine(SERVING)
        loop.inventory.apply(dataclasses.replace(ours, state=State.DRAINING), now=0.0)

        assert not begin(loop, self.RECLAIM, MEANT)
        assert has(loop.provider, SERVING).state is State.CONFIGURED

    def test_a_machine_that_is_gone_there_is_left_alone_here(self) -> None:
        """The next list says so."""
        loop = a_loop()
        loop.provider.lose(has(loop.provider, SERVING))
        revision = loop.inventory.revision

        assert not begin(loop, self.RECLAIM, MEANT)
        assert loop.inventory.revision == revision

    def test_a_machine_that_is_gone_here_is_left_alone_there(self) -> None:
        loop = a_loop()
        loop.inventory.remove(SERVING)

        assert not begin(loop, self.RECLAIM, MEANT)
        assert has(loop.provider, SERVING).state is State.CONFIGURED
