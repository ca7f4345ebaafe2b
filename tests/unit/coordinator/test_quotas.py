"""How an entitlement is shared out."""

from typing import Any

from coordinating import METAL, A, B, C, Desk
from mainstay.coordinator import commands, quotas
from mainstay.model.coordination import Grant, ProviderLine, QuotaKind, QuotaLine, QuotaOf
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

        assert desk.report(A).grants == ()
        assert desk.report(A, clusters=(ClusterId("web"),)).grants == (Grant(WEB, 0, -1),)
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
