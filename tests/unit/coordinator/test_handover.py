"""The table of a move, and what each of its rows does to the machines."""

import itertools
from functools import partial

import pytest

from coordinating import EAST, NOW, A, B, C, Desk, a_proposal, a_stray, accepted, handed, invalid
from mainstay.config.coordinator import RANGES
from mainstay.coordinator import commands, handover
from mainstay.coordinator.fleet import Draft
from mainstay.coordinator.handover import TABLE, Effect, Event, advance
from mainstay.coordinator.records import SETTLED, MoveState, StrayState
from mainstay.coordinator.tiers import Tier
from mainstay.model.coordination import InstructAck, TransferOwnership
from mainstay.model.errors import IllegalTransition
from mainstay.model.ids import ID_LENGTH_MAX, MachineId, ShardId

M1 = MachineId("m1")
GIVEN = (handed("m1"),)


def asked() -> Desk:
    """`a`, which has the east, is asked for machines for `b`."""
    desk = Desk()
    desk.report(A, domains=(EAST,))
    desk.report(B)
    desk.report(C)
    desk.do(commands.begin_move(desk.fleet, a_proposal(), "m", NOW))
    return desk


def only(desk: Desk, shard: ShardId) -> str:
    [(_, record)] = desk.fleet.pending(shard)
    return record.id


def state_of(desk: Desk, move: str = "m") -> MoveState:
    return desk.fleet.moves[move].state


def given() -> Desk:
    """It has given m1."""
    desk = asked()
    desk.report(A, domains=(EAST,), acks=(accepted(only(desk, A), *GIVEN),))
    return desk


class TestTable:
    @pytest.mark.parametrize(("state", "event"), [*itertools.product(MoveState, Event)])
    def test_what_is_not_in_the_table_does_not_happen(self, state: MoveState, event: Event) -> None:
        if (state, event) in TABLE:
            assert advance(state, event) == TABLE[state, event]
        else:
            with pytest.raises(IllegalTransition, match=f"{state} .*: {event}"):
                advance(state, event)

    def test_nothing_follows_what_is_settled_and_something_everything_else(self) -> None:
        assert {state for state, _ in TABLE} == {*MoveState} - SETTLED

    def test_machines_are_granted_only_once_they_were_given(self) -> None:
        for (state, event), step in TABLE.items():
            if step.effect in {Effect.TO_RECIPIENT, Effect.TO_DONOR}:
                assert event is Event.GAVE or state is MoveState.GIVEN
            assert (step.effect in {Effect.HOLD, Effect.LEAVE}) == (
                step.state in SETTLED and state in {MoveState.GIVEN, MoveState.RETURNING}
            )


class TestMoves:
    def test_what_the_donor_gives_is_granted_to_the_recipient_in_one_change(self) -> None:
        desk = given()

        record = desk.fleet.strays[M1]
        assert (record.shard, record.state, record.home) == (B, StrayState.GRANTED, A)
        assert desk.fleet.pending(A) == []
        take = TransferOwnership(from_shard=A, to_shard=B, machines=GIVEN)
        assert [each.payload for each in desk.report(B).instructions] == [take]
        assert {"stray/m1", "move/m", "instruction/b/000000000001"} <= {*desk.kept.changes[-1].puts}

    def test_what_the_recipient_took_is_its_own(self) -> None:
        desk = given()

        desk.report(B, strays=(a_stray("m1"),), acks=(accepted(only(desk, B)),))

        assert state_of(desk) is MoveState.DONE
        assert desk.fleet.moves["m"].settled_at_ns == NOW
        assert desk.fleet.strays[M1].state is StrayState.HELD
        assert dict(desk.fleet.instructions) == {}

    def test_the_largest_move_with_the_longest_names_fits_into_changes(self) -> None:
        """What a store takes at once is checked by the desk."""
        desk, long = asked(), "m" * (ID_LENGTH_MAX - 4)
        most = RANGES["rebalance_machines_max"][1]
        names = [f"{long}{number:04}" for number in range(int(most))]

        gave = accepted(only(desk, A), *map(handed, names))
        desk.report(A, domains=(EAST,), acks=(gave,))
        desk.report(B, strays=tuple(map(a_stray, names)), acks=(accepted(only(desk, B)),))

        assert state_of(desk) is MoveState.DONE
        assert len(desk.fleet.strays_of(B)) == most

    def test_what_it_took_and_lists_leaving_is_recorded_so(self) -> None:
        desk = given()

        desk.report(B, strays=(a_stray("m1", leaving=True),), acks=(accepted(only(desk, B)),))

        assert desk.fleet.strays[M1].leaving

    def test_what_it_took_and_lists_is_its_stray_whoever_owns_the_domain(self) -> None:
        desk = given()
        desk.report(B, acks=(invalid(only(desk, B)),))

        desk.report(A, domains=(EAST,), strays=(a_stray("m1"),), acks=(accepted(only(desk, A)),))

        assert desk.fleet.strays[M1].state is StrayState.HELD

    def test_a_donor_with_nothing_to_give_ends_the_move(self) -> None:
        desk = asked()

        desk.report(A, domains=(EAST,), acks=(accepted(only(desk, A)),))

        assert state_of(desk) is MoveState.REFUSED
        assert dict(desk.fleet.instructions) == {}

    def test_a_donor_that_does_not_understand_gives_nothing(self) -> None:
        desk = asked()
        ack = InstructAck(instruction=only(desk, A), outcome=invalid("").outcome, given=GIVEN)

        desk.report(A, domains=(EAST,), acks=(ack,))

        assert state_of(desk) is MoveState.REFUSED
        assert dict(desk.fleet.strays) == {}

    def test_what_is_given_after_it_was_called_off_goes_back(self) -> None:
        desk = asked()
        desk.do(commands.cancel_move(desk.fleet, "m"))

        desk.report(A, domains=(EAST,), acks=(accepted(only(desk, A), *GIVEN),))

        assert state_of(desk) is MoveState.RETURNING
        assert desk.fleet.strays[M1].shard == A
        back = TransferOwnership(from_shard=B, to_shard=A, machines=GIVEN)
        assert [told.payload for told in desk.report(A, domains=(EAST,)).instructions] == [back]
        desk.report(A, domains=(EAST,), acks=(accepted(only(desk, A)),))
        assert state_of(desk) is MoveState.RETURNED
        assert dict(desk.fleet.strays) == {}

    def test_what_the_recipient_refuses_goes_back(self) -> None:
        desk = given()

        desk.report(B, acks=(invalid(only(desk, B)),))

        assert state_of(desk) is MoveState.RETURNING
        assert desk.fleet.strays[M1].shard == A

    def test_a_return_that_is_refused_is_offered_to_whoever_owns_the_domain_then(self) -> None:
        desk = given()
        desk.report(B, acks=(invalid(only(desk, B)),))
        desk.report(A, domains=(EAST,), acks=(invalid(only(desk, A)),))
        assert state_of(desk) is MoveState.LOST

        desk.report(A, domains=(EAST,))

        [(_, record)] = desk.fleet.pending(A)
        assert desk.fleet.moves[record.move].tier is Tier.RETURN

    def test_a_machine_whose_domain_has_gone_to_another_shard_stays_there(self) -> None:
        desk = asked()
        told = only(desk, A)
        desk.do(commands.move_domain(desk.fleet, EAST, C, NOW))
        desk.report(A, acks=(accepted(desk.fleet.pending(A)[1][1].id),))

        desk.report(A, acks=(accepted(told, *GIVEN),))

        assert state_of(desk) is MoveState.REFUSED
        assert dict(desk.fleet.strays) == {}

    def test_a_stray_that_went_back_before_its_giver_spoke_is_not_given_twice(self) -> None:
        """The giver died between letting go and saying so."""
        desk = asked()
        desk.report(B, strays=(a_stray("m1"),))
        desk.do(commands.begin_move(desk.fleet, a_proposal(donor=B, recipient=C), "n", NOW))
        told = only(desk, B)
        desk.report(B)
        assert desk.fleet.strays[M1].shard == A

        desk.report(B, acks=(accepted(told, *GIVEN),))

        assert desk.fleet.moves["n"].state is MoveState.REFUSED
        assert desk.fleet.pending(C) == []

    def test_a_stray_that_is_given_is_not_taken_for_let_go(self) -> None:
        desk = asked()
        desk.report(B, strays=(a_stray("m1"),))
        desk.do(commands.begin_move(desk.fleet, a_proposal(donor=B, recipient=C), "n", NOW))

        desk.report(B, acks=(accepted(only(desk, B), *GIVEN),))

        assert desk.fleet.strays[M1].shard == C
        assert desk.fleet.moves["n"].state is MoveState.GIVEN

    def test_hundreds_of_machines_are_given_taken_and_returned_in_changes_that_fit(self) -> None:
        desk = asked()
        many = tuple(handed(f"m{at}") for at in range(300))

        desk.report(A, domains=(EAST,), acks=(accepted(only(desk, A), *many),))
        assert len(desk.fleet.strays_of(B)) == 300
        desk.report(B, acks=(invalid(only(desk, B)),))
        assert len(desk.fleet.strays_of(A)) == 300
        desk.report(A, domains=(EAST,), acks=(accepted(only(desk, A)),))

        assert dict(desk.fleet.strays) == {}
        assert state_of(desk) is MoveState.RETURNED

    def test_what_was_begun_is_finished_when_the_answer_is_repeated(self) -> None:
        """The leader dies after each of the changes of a large gift."""
        many = tuple(handed(f"m{at}") for at in range(100))
        for survived in range(3):
            desk = asked()
            told = only(desk, A)
            said = handover.Happening(
                event=Event.GAVE, now_ns=NOW, given=many, answers="instruction/a/000000000001"
            )
            gift = handover.give(partial(Draft, desk.fleet), "m", said)
            desk.do(itertools.islice(gift, survived))
            after = desk.successor()

            after.report(A, domains=(EAST,), acks=(accepted(told, *many),))

            assert len(after.fleet.strays_of(B)) == 100
            assert len(after.fleet.pending(B)) == 1
