"""Machines that nobody has: they are seen, and nobody gets them who might not be the only one."""

import itertools
from typing import Any

import pytest

from coordinating import (
    EAST,
    NOW,
    PROVIDERS,
    WEST,
    A,
    B,
    C,
    Desk,
    a_proposal,
    a_stray,
    accepted,
    handed,
    invalid,
)  # fmt: skip
from mainstay.coordinator import adrift, commands, reports
from mainstay.coordinator.fleet import Draft
from mainstay.coordinator.memory import Memory
from mainstay.coordinator.records import ConflictKind, DomainState, StrayState
from mainstay.model.coordination import (
    AssignDomain,
    ProviderLine,
    ShardReport,
    Stray,
    TransferOwnership,
)
from mainstay.model.errors import Rejected, Taken, Unavailable, Unknown
from mainstay.model.ids import MachineId, ShardId

M1 = MachineId("m1")
CLOUD = ProviderLine("cloud", "cloud:1")
BOTH = (*PROVIDERS, CLOUD)
C1 = handed("c1")._replace(provider="cloud")


def kinds(desk: Desk) -> list[ConflictKind]:
    return [conflict.kind for conflict in desk.conflicts]


def told(desk: Desk, shard: ShardId, **parts: Any) -> list[object]:
    return [each.payload for each in desk.report(shard, **parts).instructions]


def heard(**reports: dict[str, Any]) -> dict[ShardId, ShardReport]:
    return {
        ShardId(name): ShardReport(shard=ShardId(name), **parts) for name, parts in reports.items()
    }


class TestAdrift:
    def test_what_was_given_before_all_state_was_lost_goes_to_nobody_by_itself(self) -> None:
        """Its donor repeats old answers after a restart, and its recipient is only silent."""
        desk = Desk()
        old = accepted("a-1-5", handed("m1"))

        for acks in ((old,), ()):
            assert told(desk, A, domains=(EAST,), away=(handed("m1"),), acks=acks) == []
            assert kinds(desk) == [ConflictKind.ADRIFT]

        assert told(desk, B, strays=(a_stray("m1"),)) == []
        assert kinds(desk) == []
        assert told(desk, A, domains=(EAST,), away=(handed("m1"),)) == []
        assert kinds(desk) == []
        assert desk.fleet.strays[M1].shard == B

    def test_a_conflict_names_the_shard_how_many_there_are_and_one_of_them(self) -> None:
        desk = Desk()

        desk.report(A, domains=(EAST,), away=(handed("m2"), handed("m1")))

        [conflict] = desk.conflicts
        assert (conflict.subject, conflict.shards) == (A, (A,))
        assert "2 machines such as m1 of a" in conflict.what

    def test_what_is_being_given_is_not_adrift(self) -> None:
        """The donor has written it down, and its answer comes with the next report."""
        desk = Desk()
        desk.report(A, domains=(EAST,))
        desk.report(B)
        desk.do(commands.begin_move(desk.fleet, a_proposal(), "m", NOW))

        desk.report(A, domains=(EAST,), away=(handed("m1"),))

        assert kinds(desk) == []

    def test_what_lies_in_a_domain_that_leaves_is_not_adrift(self) -> None:
        desk = Desk()
        desk.report(A, domains=(EAST,))
        desk.do(commands.unassign_domain(desk.fleet, EAST, NOW))

        desk.report(A, domains=(EAST,), away=(handed("m1"),))

        assert kinds(desk) == []


class TestReturning:
    def desk(self) -> Desk:
        desk = Desk()
        desk.report(A, domains=(EAST,), away=(handed("m1"), handed("m2")))
        return desk

    def says(self, **parts: Any) -> dict[ShardId, ShardReport]:
        return heard(a={"domains": (EAST,), "away": (handed("m1"), handed("m2"))}, **parts)

    def test_all_that_is_adrift_is_returned_when_none_is_named(self) -> None:
        desk = self.desk()

        desk.do(adrift.return_machines(desk.fleet, A, (), self.says(), NOW))

        [take] = desk.report(A, domains=(EAST,), away=(handed("m1"), handed("m2"))).instructions
        both = (handed("m1"), handed("m2"))
        assert take.payload == TransferOwnership(from_shard=A, to_shard=A, machines=both)
        desk.report(A, domains=(EAST,), acks=(accepted(take.id),))
        assert (dict(desk.fleet.strays), kinds(desk)) == ({}, [])

    def test_only_those_that_are_named(self) -> None:
        desk = self.desk()

        desk.do(adrift.return_machines(desk.fleet, A, (M1,), self.says(), NOW))

        assert {*desk.fleet.strays} == {M1}

    def test_what_a_shard_is_recorded_to_have_is_taken(self) -> None:
        desk = self.desk()
        desk.report(B, strays=(a_stray("m1"),))

        with pytest.raises(Taken, match="b has m1"):
            desk.do(adrift.return_machines(desk.fleet, A, (M1,), self.says(), NOW))
        desk.do(adrift.return_machines(desk.fleet, A, (), self.says(), NOW))
        assert desk.fleet.strays[M1].shard == B

    def test_what_a_shard_lists_is_taken(self) -> None:
        desk = self.desk()
        says = self.says(b={"strays": (a_stray("m1"),)})

        with pytest.raises(Taken, match="b says that it has m1"):
            desk.do(adrift.return_machines(desk.fleet, A, (M1,), says, NOW))
        desk.do(adrift.return_machines(desk.fleet, A, (), says, NOW))
        assert {*desk.fleet.strays} == {MachineId("m2")}

    def test_what_the_shard_does_not_miss_is_unknown(self) -> None:
        desk = self.desk()
        before = desk.kept.values

        with pytest.raises(Unknown, match="m9"):
            desk.do(adrift.return_machines(desk.fleet, A, (M1, MachineId("m9")), self.says(), NOW))
        assert desk.kept.values == before

    def test_a_shard_that_has_not_reported_to_this_leader_cannot_be_helped_yet(self) -> None:
        desk = self.desk()

        with pytest.raises(Unavailable, match="a has not reported"):
            desk.do(adrift.return_machines(desk.fleet, A, (), {}, NOW))
        with pytest.raises(Unknown, match="x"):
            desk.do(adrift.return_machines(desk.fleet, ShardId("x"), (), {}, NOW))

    def test_hundreds_fit_into_changes(self) -> None:
        many = tuple(handed(f"m{at:03}") for at in range(300))
        desk = Desk()
        desk.report(A, domains=(EAST,), away=many)
        says = heard(a={"domains": (EAST,), "away": many})

        assert desk.do(adrift.return_machines(desk.fleet, A, (), says, NOW)) == 8
        assert len(desk.fleet.strays_of(A)) == 300


def refused() -> Desk:
    """`b` got the east without one of its providers, and would not take c1 when `a` let go."""
    desk = Desk()
    desk.report(B, domains=(EAST,))
    stray = Stray(C1.machine, "cloud", EAST, leaving=True)
    desk.report(A, providers=BOTH, strays=(stray,))
    desk.report(B, domains=(EAST,), away=(C1,))
    desk.report(A, providers=BOTH)
    [take] = desk.report(B, domains=(EAST,), away=(C1,)).instructions
    desk.report(B, domains=(EAST,), away=(C1,), acks=(invalid(take.id),))
    return desk


class TestParked:
    def test_what_the_owner_refuses_is_not_offered_to_it_again(self) -> None:
        desk = refused()
        before = len(desk.kept.changes)

        for _ in range(20):
            assert told(desk, B, domains=(EAST,), away=(C1,)) == []
            assert kinds(desk) == [ConflictKind.PARKED]

        assert len(desk.kept.changes) == before
        assert "c1 of cloud" in desk.conflicts[0].what
        assert desk.fleet.strays[C1.machine].state is StrayState.PARKED

    def test_it_is_offered_again_when_the_shard_has_that_provider(self) -> None:
        desk = refused()

        [take] = desk.report(B, providers=BOTH, domains=(EAST,), away=(C1,)).instructions

        assert take.payload == TransferOwnership(from_shard=B, to_shard=B, machines=(C1,))
        desk.report(B, providers=BOTH, domains=(EAST,), acks=(accepted(take.id),))
        assert (dict(desk.fleet.strays), kinds(desk)) == ({}, [])

    def test_another_provider_that_is_of_no_use_to_it_changes_nothing(self) -> None:
        desk = refused()
        other = (*PROVIDERS, ProviderLine("other", "other:1"))

        assert told(desk, B, providers=other, domains=(EAST,), away=(C1,)) == []

    def test_it_is_offered_again_when_an_administrator_asks(self) -> None:
        desk = refused()
        says = heard(b={"domains": (EAST,), "away": (C1,)})

        desk.do(adrift.return_machines(desk.fleet, B, (), says, NOW))

        assert len(told(desk, B, domains=(EAST,), away=(C1,))) == 1

    def test_whoever_gets_the_domain_next_has_it(self) -> None:
        desk = refused()
        desk.report(A, providers=BOTH)
        desk.do(commands.move_domain(desk.fleet, EAST, A, NOW))
        [unassign] = desk.report(B, domains=(EAST,), away=(C1,)).instructions

        desk.report(B, acks=(accepted(unassign.id),))

        assert told(desk, A, providers=BOTH) == [AssignDomain(domain=EAST)]
        assert dict(desk.fleet.strays) == {}

    def test_a_leader_that_dies_in_between_makes_it_nobodys_no_longer_than_that(self) -> None:
        """The domain has gone on, and the last owner's part of it is not tidied up yet."""
        desk = refused()
        desk.report(A, providers=BOTH)
        desk.do(commands.move_domain(desk.fleet, EAST, A, NOW))
        [unassign] = desk.report(B, domains=(EAST,), away=(C1,)).instructions
        report = ShardReport(
            shard=B, epoch=1, number=99, can_hand_over=True, providers=PROVIDERS,
            acks=(accepted(unassign.id),),
        )  # fmt: skip
        desk.do(
            itertools.islice(
                reports.taken_in(desk.fleet, report, certified=True, now_ns=NOW, conflicts=[]), 1
            )
        )
        assert desk.fleet.strays[C1.machine].state is StrayState.PARKED

        [assign] = desk.report(A, providers=BOTH).instructions
        assert assign.payload == AssignDomain(domain=EAST)
        desk.report(A, providers=BOTH, domains=(EAST,), acks=(accepted(assign.id),))
        desk.report(C)
        desk.do(commands.begin_move(desk.fleet, a_proposal(recipient=C), "m", NOW))
        [asked] = desk.report(A, providers=BOTH, domains=(EAST,)).instructions
        desk.report(A, providers=BOTH, domains=(EAST,), acks=(accepted(asked.id, C1),))
        assert desk.fleet.strays[C1.machine].shard == C

    def test_a_shard_that_has_it_after_all_has_it(self) -> None:
        desk = refused()

        desk.report(C, strays=(Stray(C1.machine, "cloud", EAST, leaving=False),))

        assert kinds(desk) == []
        record = desk.fleet.strays[C1.machine]
        assert (record.shard, record.state) == (C, StrayState.HELD)


class TestUnaware:
    """A live shard was removed by mistake, and comes back with what it has."""

    def desk(self) -> Desk:
        desk = Desk()
        desk.report(A, domains=(EAST,))
        desk.report(B, strays=(a_stray("m1"),))
        return desk

    def test_the_owner_that_may_have_it_too_is_told_and_a_conflict_shown(self) -> None:
        desk = self.desk()

        answer = desk.report(A, domains=(EAST,), away=(handed("m7"),))

        assert kinds(desk) == [ConflictKind.STRAY]
        [assign] = answer.instructions
        assert assign.payload == AssignDomain(domain=EAST, away=(M1, MachineId("m7")))
        desk.report(
            A, domains=(EAST,), away=(handed("m1"), handed("m7")), acks=(accepted(assign.id),)
        )
        assert desk.fleet.domains[EAST].state is DomainState.HELD
        assert kinds(desk) == [ConflictKind.ADRIFT]

    def test_an_owner_that_knows_is_told_nothing(self) -> None:
        desk = self.desk()

        assert told(desk, A, domains=(EAST,), away=(handed("m1"),)) == []
        assert kinds(desk) == []

    def test_an_owner_that_cannot_say_all_that_is_away_is_not_made_to_forget_it(self) -> None:
        desk = self.desk()
        many = tuple(handed(f"x{at:05}") for at in range(adrift.AWAY_MAX))

        assert told(desk, A, domains=(EAST,), away=many) == []
        draft = Draft(desk.fleet)
        commands.assign(draft, EAST, A, NOW)
        desk.do(draft.change())
        assert told(desk, A, domains=(EAST,), away=many) == []
        assert len(told(desk, A, domains=(EAST,), away=many[1:])) == 1


class TestUnowned:
    def test_a_domain_that_its_shard_has_lost_is_disputed_until_somebody_owns_it(self) -> None:
        desk, memory = Desk(), Memory()
        desk.report(A, domains=(EAST, WEST))

        for at in range(3):
            desk.report(A, domains=(WEST,))
            memory.hear(ShardReport(shard=A), desk.conflicts, NOW + at)
            memory.forget(desk.fleet)
            [dispute] = memory.disputes.values()
            assert dispute.conflict.kind is ConflictKind.UNOWNED

        desk.do(commands.assign_domain(desk.fleet, EAST, A, NOW))
        memory.forget(desk.fleet)
        assert memory.disputes == {}


class TestTakingEverything:
    """Where its machines lie is known to nobody, so none of them changes hands."""

    @pytest.mark.parametrize("everything", [A, B])
    def test_a_shard_that_takes_everything_neither_gives_nor_gets(
        self, everything: ShardId
    ) -> None:
        desk = Desk()
        for shard in (A, B):
            desk.report(shard, takes_all=shard == everything, providers=())

        with pytest.raises(Rejected, match=f"{everything} takes every machine"):
            commands.begin_move(desk.fleet, a_proposal(), "m", NOW)


class TestProviders:
    def test_a_domain_does_not_go_to_a_shard_that_lacks_a_provider_of_its_owner(self) -> None:
        desk = Desk()
        desk.report(A, providers=BOTH, domains=(EAST,))
        desk.report(B)

        with pytest.raises(Rejected, match="lacks a provider of a: cloud"):
            commands.move_domain(desk.fleet, EAST, B, NOW)
        desk.report(B, providers=BOTH)
        assert commands.move_domain(desk.fleet, EAST, B, NOW).puts

    def test_a_shard_without_a_provider_gets_no_domain(self) -> None:
        desk = Desk()
        desk.report(A, providers=())

        with pytest.raises(Rejected, match="a reports no provider"):
            commands.assign_domain(desk.fleet, EAST, A, NOW)

    def test_a_shard_that_knows_nothing_of_our_fields_is_taken_at_its_word(self) -> None:
        desk = Desk()
        desk.hear(ShardReport(shard=A, number=1, epoch=1))

        assert commands.assign_domain(desk.fleet, EAST, A, NOW).puts
