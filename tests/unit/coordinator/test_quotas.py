"""How an entitlement is shared out."""

from dataclasses import replace
from typing import Any

from coordinating import (
    EAST,
    METAL,
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
from mainstay.coordinator import commands, quotas, removal
from mainstay.coordinator.commands import NOTHING
from mainstay.coordinator.records import MoveState
from mainstay.model.coordination import (
    Grant,
    ProviderLine,
    QuotaKind,
    QuotaLine,
    QuotaMoved,
    QuotaOf,
    ReportAck,
    Stray,
)
from mainstay.model.ids import ClusterId, ShardId

WEB = QuotaOf(QuotaKind.CLUSTER, "web")
PLACE = QuotaOf(QuotaKind.PLACE, METAL, "eu")


def a_desk(entitled: int = 10) -> Desk:
    desk = Desk()
    desk.do(commands.set_quota(desk.fleet, WEB, entitled))
    return desk


def ask(
    desk: Desk, shard: ShardId, *, held: int, used: int = 0, wanted: int = 0, **parts: Any
) -> tuple[int, int]:
    """What it is granted, and what it is asked to come down to."""
    answer = desk.report(shard, quota=(QuotaLine(WEB, held, used, wanted),), **parts)
    [grant] = answer.grants
    return grant.granted, grant.target


class TestGranting:
    def test_a_shard_gets_what_it_wants_as_far_as_it_is_free(self) -> None:
        desk = a_desk()

        assert ask(desk, A, held=0, wanted=6) == (6, -1)
        assert ask(desk, B, held=0, wanted=3) == (3, -1)
        assert desk.fleet.quotas[WEB].granted == {A: 6, B: 3}

    def test_what_it_no_longer_holds_is_free_again(self) -> None:
        desk = a_desk()
        ask(desk, A, held=0, wanted=10)

        ask(desk, A, held=2, used=2, wanted=2)

        assert ask(desk, B, held=0, wanted=8) == (8, -1)

    def test_an_answer_that_was_lost_is_given_again(self) -> None:
        desk = a_desk()
        ask(desk, A, held=0, wanted=10)

        assert ask(desk, A, held=0, wanted=4) == (4, -1)

    def test_more_than_was_granted_is_recorded_as_it_is_and_nothing_more_is_granted(self) -> None:
        desk = a_desk()

        assert ask(desk, A, held=12, used=12, wanted=20) == (12, -1)
        assert quotas.over_committed(desk.fleet.quotas[WEB]) == 2
        assert ask(desk, B, held=0, wanted=3) == (0, -1)

    def test_what_a_shard_uses_it_holds(self) -> None:
        assert ask(a_desk(), A, held=-1, used=7, wanted=7) == (7, -1)

    def test_an_entitlement_that_is_lowered_is_asked_back_down_to_what_is_used(self) -> None:
        desk = a_desk()
        ask(desk, A, held=0, wanted=10)
        desk.do(commands.set_quota(desk.fleet, WEB, 2))

        assert ask(desk, A, held=10, used=5, wanted=10) == (10, 5)


class TestTargets:
    def test_who_holds_more_than_its_share_is_asked_for_it_when_another_goes_without(self) -> None:
        desk = a_desk()
        ask(desk, A, held=0, wanted=10)
        assert ask(desk, A, held=10, wanted=10) == (10, -1)

        ask(desk, B, held=0, wanted=10)

        assert ask(desk, A, held=10, used=2, wanted=10) == (10, 5)
        assert ask(desk, A, held=10, used=7, wanted=10) == (10, 7)

    def test_who_uses_all_it_holds_is_asked_for_nothing(self) -> None:
        desk = a_desk()
        ask(desk, A, held=0, wanted=10)
        ask(desk, B, held=0, wanted=10)

        assert ask(desk, A, held=10, used=10, wanted=10) == (10, -1)

    def test_what_was_given_up_is_not_taken_again_before_the_other_has_it(self) -> None:
        desk = a_desk()
        ask(desk, A, held=0, wanted=10)
        ask(desk, B, held=0, wanted=10)

        assert ask(desk, A, held=5, wanted=10) == (5, -1)
        assert ask(desk, B, held=0, wanted=10) == (5, -1)

    def test_what_does_not_come_out_even_goes_by_name(self) -> None:
        desk = a_desk(11)
        for shard in (A, B, C):
            ask(desk, shard, held=0, wanted=11)

        shares = [ask(desk, shard, held=0, wanted=11)[0] for shard in (A, B, C)]

        assert shares == [4, 4, 3]


class TestWho:
    def test_a_shard_hears_of_the_quota_of_its_clusters_and_providers_only(self) -> None:
        desk = a_desk()
        desk.do(commands.set_quota(desk.fleet, PLACE, 4))

        assert desk.report(A, providers=()).grants == ()
        heard = desk.report(A, providers=(), clusters=(ClusterId("web"),)).grants
        assert heard == (Grant(WEB, 0, -1),)
        on_metal = (ProviderLine(METAL, "h:1"),)
        assert desk.report(B, providers=on_metal).grants == (Grant(PLACE, 0, -1),)

    def test_a_quota_that_is_cleared_is_to_be_forgotten(self) -> None:
        desk = a_desk()
        ask(desk, A, held=0, wanted=3)
        desk.do(commands.clear_quota(desk.fleet, WEB))

        assert ask(desk, A, held=3) == (-1, -1)
        assert desk.report(A).grants == ()

    def test_a_line_without_an_entitlement_changes_nothing(self) -> None:
        desk = Desk()
        desk.report(A)
        before = desk.kept.values

        desk.report(A, quota=(QuotaLine(WEB, -1, 3, 5),))

        assert desk.kept.values == before

    def test_a_report_that_may_raise_what_is_held_is_remembered_by_the_next_leader(self) -> None:
        """Or one that came before it would be read as giving it back."""
        desk = a_desk()
        ask(desk, A, held=0, wanted=5)
        ask(desk, A, held=0, wanted=5)

        assert desk.fleet.shards[A].last_report.number == 2


ON_PLACE = QuotaOf(QuotaKind.PLACE, METAL, "")


class TestMoving:
    """Quota goes with the machines that it counts."""

    def desk(self) -> Desk:
        """`a` holds 6 and `b` 4 of 10, and `a` is asked for machines."""
        desk = Desk()
        desk.do(commands.set_quota(desk.fleet, ON_PLACE, 10))
        self.report(desk, A, 0, 6, wanted=6, domains=(EAST,))
        self.report(desk, B, 0, 4, wanted=4)
        self.report(desk, A, 6, 6, domains=(EAST,))
        self.report(desk, B, 4, 4)
        desk.do(commands.begin_move(desk.fleet, a_proposal(), "m", NOW))
        return desk

    def report(
        self, desk: Desk, shard: ShardId, held: int, used: int, wanted: int = 0, **parts: Any
    ) -> ReportAck:
        used = min(held, used)
        return desk.report(shard, quota=(QuotaLine(ON_PLACE, held, used, wanted),), **parts)

    def given(self, desk: Desk, *, held: int = 4, counted: int = 2) -> None:
        [(_, told)] = desk.fleet.pending(A)
        gave = replace(
            accepted(told.id, handed("m1"), handed("m2")), quota=(QuotaMoved(ON_PLACE, counted),)
        )
        self.report(desk, A, held, held, domains=(EAST,), acks=(gave,))

    def granted(self, desk: Desk) -> dict[ShardId, int]:
        return dict(desk.fleet.quotas[ON_PLACE].granted)

    def test_what_is_given_brings_its_quota_along(self) -> None:
        desk = self.desk()

        self.given(desk)

        assert self.granted(desk) == {A: 4, B: 6}

    def test_it_is_kept_for_the_recipient_and_told_once_it_has_the_machines(self) -> None:
        desk = self.desk()
        self.given(desk)

        waits = self.report(desk, B, 4, 4)
        assert waits.grants == (Grant(ON_PLACE, 4, -1),)
        assert ask_for(desk, C, 5) == 0
        [take] = waits.instructions
        strays = (a_stray("m1"), a_stray("m2"))
        took = self.report(desk, B, 4, 4, strays=strays, acks=(accepted(take.id),))

        assert took.grants == (Grant(ON_PLACE, 6, -1),)
        assert self.granted(desk) == {A: 4, B: 6, C: 0}

    def test_what_the_donor_says_it_still_holds_is_not_moved(self) -> None:
        desk = self.desk()

        self.given(desk, held=5)

        assert self.granted(desk) == {A: 5, B: 5}

    def test_no_more_goes_than_was_granted(self) -> None:
        desk = self.desk()

        self.given(desk, held=0, counted=50)

        assert self.granted(desk) == {A: 0, B: 10}

    def test_what_is_turned_down_takes_its_quota_back(self) -> None:
        desk = self.desk()
        self.given(desk)
        [(_, take)] = desk.fleet.pending(B)

        self.report(desk, B, 4, 4, acks=(invalid(take.id),))
        assert self.granted(desk) == {A: 6, B: 4}
        back = self.report(desk, A, 4, 4, domains=(EAST,), away=(handed("m1"), handed("m2")))
        assert back.grants == (Grant(ON_PLACE, 4, -1),)
        after = self.report(
            desk, A, 4, 4, domains=(EAST,), acks=(accepted(back.instructions[0].id),)
        )

        assert after.grants == (Grant(ON_PLACE, 6, -1),)

    def test_what_was_given_after_the_move_was_called_off_keeps_its_quota_for_the_donor(
        self,
    ) -> None:
        desk = self.desk()
        desk.do(commands.cancel_move(desk.fleet, "m"))

        self.given(desk)

        assert self.granted(desk) == {A: 6, B: 4}

    def test_a_recipient_that_is_removed_leaves_the_quota_to_the_donor(self) -> None:
        desk = self.desk()
        self.given(desk)

        desk.do(removal.remove_shard(desk.fleet, B, NOW))

        assert self.granted(desk) == {A: 6}

    def test_a_domain_brings_its_quota_to_its_next_owner(self) -> None:
        desk = self.desk()
        desk.do(commands.move_domain(desk.fleet, EAST, B, NOW))
        _, (_, told) = desk.fleet.pending(A)
        ack = replace(accepted(told.id), quota=(QuotaMoved(ON_PLACE, 3),))

        self.report(desk, A, 3, 3, acks=(ack,))
        assert self.granted(desk) == {A: 3, B: 7}
        [assign] = self.report(desk, B, 4, 4).instructions
        assert self.granted(desk) == {A: 3, B: 7}

        heard = self.report(desk, B, 4, 4, domains=(EAST,), acks=(accepted(assign.id),))
        assert heard.grants == (Grant(ON_PLACE, 7, -1),)

    def unassigned(self, desk: Desk) -> None:
        """The east is nobody's, with three machines there."""
        desk.do(commands.unassign_domain(desk.fleet, EAST, NOW))
        _, (_, told) = desk.fleet.pending(A)
        ack = replace(accepted(told.id), quota=(QuotaMoved(ON_PLACE, 3),))
        self.report(desk, A, 3, 3, acks=(ack,))

    def waiting(self, desk: Desk) -> dict[str, int]:
        return dict(desk.fleet.quotas[ON_PLACE].waiting)

    def test_what_goes_with_a_domain_without_a_next_owner_waits_with_it(self) -> None:
        desk = self.desk()

        self.unassigned(desk)

        assert self.granted(desk) == {A: 3, B: 4}
        assert self.waiting(desk) == {"zone=east": 3}
        assert ask_for(desk, C, 5) == 0

    def test_the_next_owner_of_the_domain_has_it_once_it_has_the_domain(self) -> None:
        desk = self.desk()
        self.unassigned(desk)
        desk.do(commands.assign_domain(desk.fleet, EAST, B, NOW))

        [assign] = self.report(desk, B, 4, 4).instructions
        assert self.granted(desk) == {A: 3, B: 7}
        assert self.waiting(desk) == {}
        heard = self.report(desk, B, 4, 4, domains=(EAST,), acks=(accepted(assign.id),))

        assert heard.grants == (Grant(ON_PLACE, 7, -1),)

    def test_it_waits_again_when_the_next_owner_refuses_the_domain(self) -> None:
        desk = self.desk()
        self.unassigned(desk)
        desk.do(commands.assign_domain(desk.fleet, EAST, B, NOW))
        [assign] = self.report(desk, B, 4, 4).instructions

        self.report(desk, B, 4, 4, acks=(invalid(assign.id),))

        assert self.granted(desk) == {A: 3, B: 4}
        assert self.waiting(desk) == {"zone=east": 3}

    def test_the_same_entitlement_said_again_leaves_what_waits(self) -> None:
        desk = self.desk()
        self.unassigned(desk)

        assert commands.set_quota(desk.fleet, ON_PLACE, 10) == NOTHING
        desk.do(commands.set_quota(desk.fleet, ON_PLACE, 11))

        assert self.waiting(desk) == {"zone=east": 3}
        assert ask_for(desk, C, 5) == 1

    def test_what_waits_is_free_once_somebody_says_that_there_are_no_such_machines(self) -> None:
        desk = self.desk()
        self.unassigned(desk)

        desk.do(commands.set_quota(desk.fleet, ON_PLACE, 10, forget_waiting=True))

        assert self.waiting(desk) == {}
        assert commands.set_quota(desk.fleet, ON_PLACE, 10, forget_waiting=True) == NOTHING
        assert ask_for(desk, C, 5) == 3

    def leaving(self) -> Desk:
        """Machines of the east, which is `b`'s, are still `a`'s."""
        desk = Desk()
        desk.do(commands.set_quota(desk.fleet, ON_PLACE, 10))
        self.report(desk, A, 0, 0, wanted=6)
        self.report(desk, B, 0, 0, wanted=4)
        self.report(desk, A, 6, 6, strays=self.strays("m1", "m2"))
        away = (handed("m1"), handed("m2"))
        self.report(desk, B, 4, 4, domains=(EAST,), away=away)
        return desk

    def strays(self, *names: str) -> tuple[Stray, ...]:
        return tuple(a_stray(name, leaving=True) for name in names)

    def test_a_stray_that_is_let_go_brings_its_quota_to_the_owner_of_its_domain(self) -> None:
        desk = self.leaving()

        self.report(desk, A, 5, 5, strays=self.strays("m1"))
        assert self.granted(desk) == {A: 5, B: 5}
        assert ask_for(desk, C, 5) == 0
        [take] = self.report(desk, B, 4, 4, domains=(EAST,), away=(handed("m2"),)).instructions
        took = self.report(
            desk, B, 4, 4, domains=(EAST,), away=(handed("m1"),), acks=(accepted(take.id),)
        )

        assert took.grants == (Grant(ON_PLACE, 5, -1),)

    def test_no_more_goes_along_than_there_are_machines_and_the_rest_is_free(self) -> None:
        desk = self.leaving()

        self.report(desk, A, 2, 2, strays=self.strays("m1"))

        assert self.granted(desk) == {A: 2, B: 5}
        assert ask_for(desk, C, 5) == 3

    def test_nothing_goes_along_with_a_machine_that_is_gone(self) -> None:
        desk = self.leaving()

        self.report(desk, A, 6, 6, strays=self.strays("m1"))

        assert self.granted(desk) == {A: 6, B: 4}

    def test_what_a_stray_brings_waits_where_nobody_owns_its_domain(self) -> None:
        desk = self.leaving()
        desk.do(commands.unassign_domain(desk.fleet, EAST, NOW))
        [(_, told)] = desk.fleet.pending(B)
        self.report(desk, B, 4, 4, acks=(accepted(told.id),))

        self.report(desk, A, 4, 4)

        assert self.granted(desk) == {A: 4, B: 4}
        assert self.waiting(desk) == {"zone=east": 2}

    def test_what_the_owner_of_the_domain_will_not_take_waits_and_is_offered_with_its_quota(
        self,
    ) -> None:
        desk = self.leaving()
        self.report(desk, A, 5, 5, strays=self.strays("m1"))
        [take] = self.report(desk, B, 4, 4, domains=(EAST,), away=(handed("m2"),)).instructions

        away = (handed("m1"), handed("m2"))
        self.report(desk, B, 4, 4, domains=(EAST,), away=away, acks=(invalid(take.id),))
        assert self.waiting(desk) == {"zone=east": 1}
        more = (ProviderLine(METAL, "metal:1"), ProviderLine("other", "other:1"))
        self.report(desk, B, 4, 4, domains=(EAST,), away=away, providers=more)

        assert self.waiting(desk) == {}
        assert self.granted(desk) == {A: 5, B: 5}

    def test_a_shard_that_is_removed_leaves_its_quota_to_whoever_has_its_machines(self) -> None:
        desk = self.leaving()

        desk.do(removal.remove_shard(desk.fleet, B, NOW))
        assert self.granted(desk) == {A: 6}
        assert self.waiting(desk) == {"": 4}
        assert ask_for(desk, C, 5) == 0
        desk.do(commands.assign_domain(desk.fleet, EAST, C, NOW))
        desk.report(C, domains=(EAST,), quota=(QuotaLine(ON_PLACE, 0, 3, 3),))

        assert self.granted(desk) == {A: 6, C: 3}
        assert self.waiting(desk) == {"": 1}

    def test_a_shard_without_machines_that_is_removed_leaves_nothing_behind(self) -> None:
        desk = Desk()
        desk.do(commands.set_quota(desk.fleet, ON_PLACE, 10))
        self.report(desk, A, 0, 0, wanted=6)

        desk.do(removal.remove_shard(desk.fleet, A, NOW))

        assert (self.granted(desk), self.waiting(desk)) == ({}, {})

    def test_a_shard_that_is_narrowed_leaves_quota_to_whoever_has_the_rest(self) -> None:
        desk = Desk()
        desk.do(commands.set_quota(desk.fleet, ON_PLACE, 10))
        self.report(desk, A, 0, 0, wanted=10, takes_all=True, providers=PROVIDERS)
        desk.do(commands.assign_domain(desk.fleet, EAST, A, NOW))
        [(_, told)] = desk.fleet.pending(A)
        ack = replace(accepted(told.id), quota=(QuotaMoved(ON_PLACE, 4),))

        self.report(desk, A, 6, 6, domains=(EAST,), acks=(ack,))

        assert self.waiting(desk) == {"": 4}
        assert ask_for(desk, B, 5) == 0

    def test_of_a_domain_that_its_shard_has_lost_all_that_it_holds_less_waits(self) -> None:
        desk = self.desk()

        self.report(desk, A, 1, 1)

        assert self.waiting(desk) == {"zone=east": 5}

    def test_of_several_domains_that_are_lost_at_once_it_waits_anywhere(self) -> None:
        desk = self.desk()
        self.report(desk, A, 6, 6, domains=(EAST, WEST))

        self.report(desk, A, 1, 1)

        assert self.waiting(desk) == {"": 5}
        assert dict(desk.fleet.domains) == {}

    def test_what_is_kept_for_machines_not_taken_yet_does_not_wait_with_a_lost_domain(self) -> None:
        desk = self.leaving()
        self.report(desk, A, 5, 5, strays=self.strays("m1"))
        assert self.granted(desk) == {A: 5, B: 5}

        self.report(desk, B, 1, 1, away=(handed("m2"),))

        assert self.waiting(desk) == {"zone=east": 3}
        assert self.granted(desk) == {A: 5, B: 2}

    def test_what_was_no_longer_its_own_to_give_leaves_its_quota_to_who_has_it(self) -> None:
        desk = self.desk()
        [(_, told)] = desk.fleet.pending(A)
        gave = replace(accepted(told.id, handed("m1", WEST)), quota=(QuotaMoved(ON_PLACE, 1),))
        desk.report(B, domains=(WEST,), quota=(QuotaLine(ON_PLACE, 4, 4, 0),))

        self.report(desk, A, 5, 5, domains=(EAST,), acks=(gave,))

        assert self.waiting(desk) == {"zone=west": 1}
        desk.report(B, domains=(WEST,), quota=(QuotaLine(ON_PLACE, 4, 5, 0),))
        assert self.granted(desk) == {A: 5, B: 5}
        assert self.waiting(desk) == {}

    def test_a_quota_that_nobody_limits_any_more_moves_nowhere(self) -> None:
        desk = self.desk()
        desk.do(commands.clear_quota(desk.fleet, ON_PLACE))

        self.given(desk)

        assert desk.fleet.moves["m"].state is MoveState.GIVEN


def ask_for(desk: Desk, shard: ShardId, wanted: int) -> int:
    """What of the place's quota it is granted."""
    [grant] = desk.report(shard, quota=(QuotaLine(ON_PLACE, 0, 0, wanted),)).grants
    return grant.granted
