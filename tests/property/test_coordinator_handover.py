"""Every way in which machines can change hands, with every pair of faults, one by one.

Not sampled: all scenes that can be reached are looked at. In each of them no machine has two
owners, and from each of them, when nothing more goes wrong, every machine ends with one.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

import handing_over
from coordinating import EAST, WEST, A, B, C, Kept, a_proposal
from handing_over import Scene, Side, Story, kept, number_of
from mainstay.coordinator import commands
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.records import ConflictKind, DomainState, MoveState
from mainstay.coordinator.store import Change
from mainstay.model.coordination import Domain, Instruction, TransferOwnership
from mainstay.model.ids import MachineId, ShardId
from oracles import plain_ownership
from oracles.plain_ownership import Plain
from outside import soak_factor

M1, M2, M3 = map(MachineId, ("m1", "m2", "m3"))


TWO: Final = {A: frozenset({EAST}), B: frozenset({WEST})}
THREE: Final = {**TWO, C: frozenset[Domain]()}
GROWING: Final = {A: None, B: frozenset[Domain](), C: frozenset[Domain]()}
"""One takes everything, and two have joined it."""


def beginning(
    story: Story,
    *script: str,
    bound: frozenset[MachineId] = frozenset(),
    owned: Mapping[ShardId, frozenset[Domain] | None] = TWO,
) -> Scene:
    """`a` has the east, where all machines are, and `b` the west; all have reported it."""
    sides = tuple(Side(name, Plain(domains=has), is_changed=True) for name, has in owned.items())
    empty = number_of(Kept())
    scene = Scene(empty, frozenset(), 1, sides, bound, (), 0)
    return ended(story, scene)._replace(script=script)


def ended(story: Story, scene: Scene) -> Scene:
    for _ in range(200):
        following = next(handing_over.steps(story, scene), None)
        if following is None:
            return scene
        scene = following
    raise AssertionError("nothing comes to an end")


def owners(story: Story, scene: Scene) -> Counter[MachineId]:
    world = story.world(scene)
    return Counter(
        machine
        for side in scene.sides
        for machine in story.lies_in
        if plain_ownership.owns(side.owned, machine, world)
    )


def check_end(story: Story, scene: Scene) -> None:
    fleet = Fleet.from_entries(kept(scene.store).entries)
    if not scene.lost:
        assert owners(story, scene) == dict.fromkeys(story.lies_in, 1)
    assert [*fleet.open_moves] == []
    assert dict(fleet.instructions) == {}
    assert {record.state for record in fleet.domains.values()} == {DomainState.HELD}
    for side in scene.sides:
        assert {machine for machine, _ in side.owned.here} == {*fleet.strays_of(side.name)}


def explore(story: Story, first: Scene, *, faults: int) -> tuple[int, set[Scene]]:
    """How many scenes there are, and how they end."""
    found = {handing_over.plainest(first._replace(faults=faults))}
    waiting = deque(found)
    good: set[Scene] = set()
    ends: set[Scene] = set()
    while waiting:
        scene = waiting.popleft()
        assert max(owners(story, scene).values(), default=0) <= 1, scene
        _check_way_out(story, scene._replace(faults=0), good, ends)
        for raw in (*handing_over.steps(story, scene), *handing_over.faults(story, scene)):
            following = handing_over.plainest(raw)
            if following not in found:
                found.add(following)
                waiting.append(following)
    return len(found), ends


def _check_way_out(story: Story, scene: Scene, good: set[Scene], ends: set[Scene]) -> None:
    way: list[Scene] = []
    while scene not in good:
        assert len(way) < 200, "nothing comes to an end"
        way.append(scene)
        following = next(handing_over.steps(story, scene), None)
        if following is None:
            check_end(story, scene)
            ends.add(scene)
            break
        scene = handing_over.plainest(following)
    good.update(way)


def last_owners(story: Story, ends: set[Scene]) -> set[tuple[tuple[str, str], ...]]:
    return {
        tuple(
            (machine, side.name)
            for machine in sorted(story.lies_in)
            for side in scene.sides
            if plain_ownership.owns(side.owned, machine, story.world(scene))
        )
        for scene in ends
    }


def _cancelled(fleet: Fleet) -> Change:
    asked = fleet.moves["move"].state in {MoveState.ASKED, MoveState.WITHDRAWN}
    return commands.cancel_move(fleet, "move") if asked else commands.NOTHING


COMMANDS: Final = {
    "ask": lambda fleet: commands.begin_move(fleet, a_proposal(), "move", 1),
    "cancel": _cancelled,
    "east to b": lambda fleet: commands.move_domain(fleet, EAST, B, 1),
    "east to a": lambda fleet: commands.move_domain(fleet, EAST, A, 1),
    "east to c": lambda fleet: commands.move_domain(fleet, EAST, C, 1),
    "east for a": lambda fleet: commands.assign_domain(fleet, EAST, A, 1),
    "west for b": lambda fleet: commands.assign_domain(fleet, WEST, B, 1),
    "west to c": lambda fleet: commands.move_domain(fleet, WEST, C, 1),
}


def a_story(*machines: MachineId, b_refuses: bool = False) -> Story:
    def refuses(shard: ShardId, told: Instruction) -> bool:
        takes = isinstance(told.payload, TransferOwnership) and told.payload.wanted is None
        return b_refuses and shard == B and takes

    return Story(dict.fromkeys(machines, EAST), COMMANDS, refuses)


class TestTwoFaults:
    def test_a_machine_that_is_asked_for_ends_with_the_recipient(self) -> None:
        story = a_story(M1)

        scenes, ends = explore(story, beginning(story, "ask"), faults=2)

        assert scenes > 3_000
        assert last_owners(story, ends) == {(("m1", "b"),)}

    def test_a_domain_that_moves_takes_its_machines_along_the_bound_one_when_it_is_free(
        self,
    ) -> None:
        story = a_story(M1, M2)
        first = beginning(story, "east to b", "frees m2", bound=frozenset({M2}))

        scenes, ends = explore(story, first, faults=2)

        assert scenes > 25_000
        assert last_owners(story, ends) == {(("m1", "b"), ("m2", "b"))}

    def test_what_the_recipient_refuses_goes_back_to_the_donor(self) -> None:
        story = a_story(M1, b_refuses=True)

        scenes, ends = explore(story, beginning(story, "ask"), faults=2)

        assert scenes > 6_000
        assert last_owners(story, ends) == {(("m1", "a"),)}

    def test_a_stray_that_is_given_up_goes_back_to_the_owner_of_its_domain(self) -> None:
        story = a_story(M1)

        scenes, ends = explore(story, beginning(story, "ask", "loses m1"), faults=2)

        assert scenes > 12_000
        assert last_owners(story, ends) == {(("m1", "a"),)}

    def test_a_move_that_is_called_off_is_undone_or_was_too_late(self) -> None:
        story = a_story(M1)

        scenes, ends = explore(story, beginning(story, "ask", "cancel"), faults=2)

        assert scenes > 6_000
        assert last_owners(story, ends) == {(("m1", "a"),), (("m1", "b"),)}


class TestLostStore:
    def test_a_machine_that_was_asked_for_has_one_owner_or_is_seen_to_have_none(self) -> None:
        story = a_story(M1)

        _, ends = explore(story, beginning(story, "ask", "store lost"), faults=1)

        assert last_owners(story, ends) == {(("m1", "a"),), (("m1", "b"),), ()}
        for scene in ends:
            a, _ = scene.sides
            led = handing_over.heeded(scene, handing_over.say(story, scene, a))
            assert (led.conflicts == {ConflictKind.ADRIFT}) == (not owners(story, scene))


class TestOneFault:
    """Two things at once: more than two faults' worth of scenes, so one fault, more in a soak."""

    FAULTS: Final = 2 if soak_factor() > 1 else 1

    def test_a_machine_that_is_given_while_its_domain_leaves_has_one_owner(self) -> None:
        story = a_story(M1)

        _, ends = explore(story, beginning(story, "ask", "east to b"), faults=self.FAULTS)

        assert last_owners(story, ends) == {(("m1", "b"),)}

    def test_a_domain_that_moves_and_comes_back_has_one_owner(self) -> None:
        story = a_story(M1)
        first = beginning(story, "east to b", "east to a")

        _, ends = explore(story, first, faults=self.FAULTS)

        assert last_owners(story, ends) == {(("m1", "a"),)}

    def test_a_bound_machine_whose_domain_moves_and_comes_back_has_one_owner(self) -> None:
        story = a_story(M1)
        first = beginning(story, "east to b", "east to a", "frees m1", bound=frozenset({M1}))

        _, ends = explore(story, first, faults=self.FAULTS)

        assert last_owners(story, ends) == {(("m1", "a"),)}


class TestThreeShards:
    """A machine is one shard's, its domain goes to another, and a third wants it."""

    FAULTS: Final = 2 if soak_factor() > 1 else 1
    FEWER: Final = FAULTS - 1
    """Where three things happen: there are as many scenes without a fault as elsewhere with one."""

    def test_a_machine_that_is_given_while_its_domain_goes_to_a_third_has_one_owner(self) -> None:
        story = a_story(M1)
        first = beginning(story, "ask", "east to c", owned=THREE)

        scenes, ends = explore(story, first, faults=self.FAULTS)

        assert scenes > 1_000
        assert last_owners(story, ends) == {(("m1", "b"),), (("m1", "c"),)}

    def test_what_its_shard_gives_up_goes_to_the_third_which_owns_its_domain(self) -> None:
        story = a_story(M1)
        first = beginning(story, "ask", "east to c", "loses m1", owned=THREE)

        _, ends = explore(story, first, faults=self.FEWER)

        assert last_owners(story, ends) == {(("m1", "c"),)}

    def test_a_bound_machine_of_a_domain_that_passes_through_a_second_ends_with_the_third(
        self,
    ) -> None:
        story = a_story(M1)
        script = "east to b", "east to c", "frees m1"
        first = beginning(story, *script, bound=frozenset({M1}), owned=THREE)

        _, ends = explore(story, first, faults=self.FAULTS)

        assert last_owners(story, ends) == {(("m1", "c"),)}


class TestGrowing:
    """One shard that takes everything is narrowed, and others get the rest."""

    FAULTS: Final = 2 if soak_factor() > 1 else 1
    FEWER: Final = FAULTS - 1

    def story(self) -> Story:
        kinds = frozenset({ConflictKind.TAKES_ALL})
        return Story({M1: WEST, M2: WEST, M3: EAST}, COMMANDS, conflicts=kinds)

    def test_each_machine_has_one_owner_while_a_second_shard_gets_its_domain(self) -> None:
        story = self.story()
        script = "east for a", "west for b", "frees m2"
        first = beginning(story, *script, bound=frozenset({M2}), owned=GROWING)

        scenes, ends = explore(story, first, faults=self.FAULTS)

        assert scenes > 1_000
        assert last_owners(story, ends) == {(("m1", "b"), ("m2", "b"), ("m3", "a"))}

    def test_and_while_a_third_gets_it_after_that(self) -> None:
        story = self.story()
        script = "east for a", "west for b", "west to c", "frees m2"
        first = beginning(story, *script, bound=frozenset({M2}), owned=GROWING)

        _, ends = explore(story, first, faults=self.FEWER)

        assert last_owners(story, ends) == {(("m1", "c"), ("m2", "c"), ("m3", "a"))}
