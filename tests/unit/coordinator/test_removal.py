"""A shard that is gone for good: nothing names it any more, and others get what it had."""

import itertools
from contextlib import nullcontext

import pytest

from coordinating import EAST, NOW, WEST, A, B, C, Desk, a_proposal, a_stray, accepted, handed
from mainstay.coordinator import commands, removal
from mainstay.coordinator.fleet import Draft
from mainstay.coordinator.records import MoveState, QuotaRecord, StrayState
from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    QuotaKind,
    QuotaLine,
    QuotaOf,
    TransferOwnership,
)
from mainstay.model.errors import Rejected, Unknown
from mainstay.model.ids import ClusterId, MachineId, ShardId

M1 = MachineId("m1")
WEB = QuotaOf(QuotaKind.CLUSTER, "web")


def a_desk() -> Desk:
    """`a` has the east, a stray of the west, which is c's, a cluster and a part of its quota."""
    desk = Desk()
    desk.do(commands.set_quota(desk.fleet, WEB, 9))
    desk.report(
        A, domains=(EAST,), strays=(a_stray("m1", WEST),), clusters=(ClusterId("web"),),
        quota=(QuotaLine(WEB, 0, 0, 4),),
    )  # fmt: skip
    desk.report(B)
    desk.report(C, domains=(WEST,), away=(handed("m1", WEST),))
    return desk


def remove(desk: Desk, shard: ShardId = A) -> None:
    desk.do(removal.remove_shard(desk.fleet, shard, NOW))


class TestRemoving:
    def test_nothing_is_left_of_a_shard(self) -> None:
        desk = a_desk()
        desk.do(commands.assign_domain(desk.fleet, Domain("zone", "north"), A, NOW))

        remove(desk)

        assert A not in desk.fleet.shards
        assert [*desk.fleet.domains] == [WEST]
        assert dict(desk.fleet.clusters) == {}
        assert desk.fleet.quotas[WEB] == QuotaRecord(entitled=9, granted={}, waiting={"": 4})
        assert desk.fleet.pending(A) == []

    def test_its_strays_go_to_the_owners_of_their_domains(self) -> None:
        desk = a_desk()

        remove(desk)

        assert desk.fleet.strays[M1].shard == C
        assert [record.payload for _, record in desk.fleet.pending(C)] == [
            TransferOwnership(from_shard=A, to_shard=C, machines=(handed("m1", WEST),))
        ]

    def test_a_shard_that_is_not_there_is_not_removed(self) -> None:
        with pytest.raises(Unknown, match="x"):
            remove(Desk(), ShardId("x"))

    @pytest.mark.parametrize(("ago_s", "runs"), [(0, True), (89, True), (90, False)])
    def test_one_that_has_just_reported_is_not_gone(self, ago_s: int, runs: bool) -> None:
        second = 1_000_000_000
        refused = pytest.raises(Rejected, match=f"a reported {ago_s} s ago")

        with refused if runs else nullcontext():
            removal.check_gone(
                A, heard_at_ns=NOW - ago_s * second, now_ns=NOW, interval_ns=30 * second
            )

    def test_a_new_leader_goes_on_wherever_the_old_one_stopped(self) -> None:
        whole = a_desk()
        remove(whole)
        for done in range(1, len(whole.kept.changes)):
            desk = a_desk()
            desk.do(itertools.islice(removal.remove_shard(desk.fleet, A, NOW), done))
            after = desk.successor()
            for shard in removal.removing(after.fleet):
                remove(after, shard)

            assert after.kept.values == whole.kept.values

    def test_a_removed_shard_that_reports_is_registered_anew(self) -> None:
        desk = a_desk()
        remove(desk)
        desk.seen.clear()

        desk.report(A, domains=(EAST,))

        assert desk.fleet.domains[EAST] == commands.held(A)

    def test_a_domain_that_was_leaving_goes_where_it_was_to_go(self) -> None:
        desk = a_desk()
        desk.do(commands.move_domain(desk.fleet, EAST, B, NOW))

        remove(desk)

        assert desk.fleet.domains[EAST].shard == B
        assert [record.payload for _, record in desk.fleet.pending(B)] == [
            AssignDomain(domain=EAST)
        ]

    def test_a_domain_that_was_coming_is_left_to_nobody(self) -> None:
        desk = a_desk()
        desk.do(commands.move_domain(desk.fleet, EAST, B, NOW))

        remove(desk, B)

        assert (desk.fleet.domains[EAST].shard, desk.fleet.domains[EAST].to) == (A, "")

    def test_hundreds_of_domains_and_thousands_of_strays_fit_into_changes(self) -> None:
        desk = Desk()
        domains = tuple(Domain("zone", f"z{at}") for at in range(500))
        desk.report(A, domains=domains, strays=tuple(a_stray(f"m{at}") for at in range(5_000)))
        desk.report(B, domains=(EAST,))
        for at in range(60):
            desk.do(commands.set_quota(desk.fleet, QuotaOf(QuotaKind.CLUSTER, f"c{at}"), 5))
            desk.do(commands.begin_move(desk.fleet, a_proposal(), f"m-{at}", NOW))
        lines = tuple(QuotaLine(of, 0, 0, 1) for of in desk.fleet.quotas)
        strays = tuple(a_stray(f"m{at}") for at in range(5_000))
        desk.report(A, domains=domains, strays=strays, quota=lines)

        remove(desk)

        assert [*desk.fleet.domains] == [EAST]
        assert len(desk.fleet.strays_of(B)) == 5_000
        assert all(A not in record.granted for record in desk.fleet.quotas.values())


class TestMoves:
    def begun(self, *, given: bool) -> Desk:
        desk = Desk()
        desk.report(A, domains=(EAST,))
        desk.report(B)
        desk.do(commands.begin_move(desk.fleet, a_proposal(), "m", NOW))
        if given:
            [(_, told)] = desk.fleet.pending(A)
            desk.report(A, domains=(EAST,), acks=(accepted(told.id, handed("m1")),))
        return desk

    def test_a_donor_that_gave_nothing_yet_ends_the_move(self) -> None:
        desk = self.begun(given=False)

        remove(desk)

        assert desk.fleet.moves["m"].state is MoveState.LOST
        assert dict(desk.fleet.strays) == {}

    def test_a_donor_that_has_given_does_not_stop_the_move(self) -> None:
        desk = self.begun(given=True)

        remove(desk)

        assert desk.fleet.moves["m"].state is MoveState.GIVEN
        assert desk.fleet.strays[M1].shard == B

    def test_a_recipient_that_nothing_was_given_to_withdraws_the_move(self) -> None:
        desk = self.begun(given=False)

        remove(desk, B)

        assert desk.fleet.moves["m"].state is MoveState.WITHDRAWN
        assert len(desk.fleet.pending(A)) == 1

    def test_a_recipient_that_was_granted_machines_gives_them_back(self) -> None:
        desk = self.begun(given=True)

        remove(desk, B)

        assert desk.fleet.moves["m"].state is MoveState.RETURNING
        record = desk.fleet.strays[M1]
        assert (record.shard, record.state) == (A, StrayState.GRANTED)

    def test_when_both_are_gone_the_machines_are_for_whoever_gets_their_domain(self) -> None:
        desk = self.begun(given=True)
        desk.report(C)

        remove(desk)
        remove(desk, B)

        assert desk.fleet.moves["m"].state is MoveState.LOST
        assert dict(desk.fleet.strays) == {}
        assert dict(desk.fleet.instructions) == {}


def test_a_draft_expects_what_it_has_read_and_reads_what_it_has_written() -> None:
    desk = a_desk()
    draft = Draft(desk.fleet)

    draft.delete("stray/m1")
    draft.instruct(B, AssignDomain(domain=EAST), now_ns=NOW)
    draft.instruct(B, AssignDomain(domain=WEST), now_ns=NOW)

    change = draft.change()
    assert draft.stray(M1) is None
    assert change.deletes == {"stray/m1"}
    assert change.expects["stray/m1"] == desk.fleet.revision("stray/m1") > 0
    assert change.expects["instruction/b/000000000002"] == 0
    after = draft.shard(B)
    assert after is not None
    assert after.next_sequence == 3
