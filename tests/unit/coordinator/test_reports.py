"""A report, part by part: what is refused, what is recorded, and what is answered."""

import itertools
from typing import Any

import pytest

from coordinating import (
    EAST,
    METAL,
    NOW,
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
from mainstay.coordinator import commands, removal, reports
from mainstay.coordinator.records import ConflictKind, DomainState, MoveState, Stamp, StrayState
from mainstay.coordinator.tiers import Tier
from mainstay.model.coordination import (
    AssignDomain,
    CrossShardDrain,
    Domain,
    InstructAck,
    Missing,
    Outcome,
    ProviderLine,
    ReassignSpeculative,
    ShardReport,
    TransferOwnership,
    UnassignDomain,
    Wanted,
)
from mainstay.model.errors import Fenced, Rejected, Unavailable
from mainstay.model.ids import ClusterId, MachineId, ShardId

WEB = ClusterId("web")
M1 = MachineId("m1")


def kinds(desk: Desk) -> list[ConflictKind]:
    return [conflict.kind for conflict in desk.conflicts]


def told(desk: Desk, shard: ShardId, **parts: Any) -> list[object]:
    return [each.payload for each in desk.report(shard, **parts).instructions]


def two(*, east: ShardId = A) -> Desk:
    """`a` and `b`, one of which has the east."""
    desk = Desk()
    desk.report(A, domains=(EAST,) if east == A else ())
    desk.report(B, domains=(EAST,) if east == B else ())
    return desk


def wanted_of(told: object) -> Wanted:
    """What an instruction asks a donor for."""
    assert isinstance(told, TransferOwnership | ReassignSpeculative | CrossShardDrain)
    assert told.wanted is not None
    return told.wanted


class TestRefused:
    @pytest.mark.parametrize("name", ["", "two words", "x" * 254])
    def test_a_report_names_its_shard(self, name: str) -> None:
        with pytest.raises(Rejected, match="name its shard"):
            Desk().report(ShardId(name))

    @pytest.mark.parametrize(
        "parts",
        [
            {"missing": (Missing(),) * 101},
            {"acks": (accepted("i"),) * 1_001},
            {"strays": tuple(a_stray(f"m{at}") for at in range(10_001))},
            {"clusters": (WEB,) * 10_001},
            {"away": tuple(handed(f"m{at}") for at in range(10_001))},
            {"strays": tuple(a_stray(f"{at:0250d}") for at in range(9_000))},
        ],
    )
    def test_one_that_is_too_large_is_refused_whole(self, parts: dict[str, Any]) -> None:
        desk = Desk()

        with pytest.raises(Rejected, match="at most"):
            desk.report(A, **parts)
        assert desk.kept.values == {}

    def test_an_older_life_of_a_shard_is_fenced(self) -> None:
        desk = Desk()
        desk.report(A, epoch=2)

        with pytest.raises(Fenced, match="greater than 2 into the file epoch") as refused:
            desk.report(A, epoch=1)
        assert refused.value.epoch == 2

    @pytest.mark.parametrize("number", [6, 7])
    def test_one_that_is_not_newer_is_out_of_order(self, number: int) -> None:
        desk = Desk()
        desk.hear(ShardReport(shard=A, epoch=1, number=7))

        for leader in (desk, desk.successor()):
            with pytest.raises(Rejected, match="out of order"):
                leader.hear(ShardReport(shard=A, epoch=1, number=number))

    def test_one_that_changed_nothing_is_still_seen_by_its_leader(self) -> None:
        desk = Desk()
        desk.hear(ShardReport(shard=A, epoch=1, number=7))
        desk.hear(ShardReport(shard=A, epoch=1, number=8))
        assert desk.fleet.shards[A].last_report == Stamp(1, 7)

        with pytest.raises(Rejected, match="out of order"):
            desk.hear(ShardReport(shard=A, epoch=1, number=8))

    def test_a_new_life_begins_to_count_anew(self) -> None:
        desk = Desk()
        desk.hear(ShardReport(shard=A, epoch=1, number=7))

        desk.hear(ShardReport(shard=A, epoch=2, number=0))

        assert desk.fleet.shards[A].epoch == 2

    def test_a_shard_that_is_being_removed_waits(self) -> None:
        desk = Desk()
        desk.report(A)
        desk.do(itertools.islice(removal.remove_shard(desk.fleet, A, NOW), 1))

        with pytest.raises(Unavailable, match="being removed"):
            desk.report(A)


class TestShards:
    def test_the_first_report_makes_a_shard_known(self) -> None:
        desk = Desk()

        desk.hear(ShardReport(shard=A, address="h:1"), certified=False)

        assert desk.fleet.shards[A].address == "h:1"
        assert desk.fleet.shards[A].registered_at_ns == NOW

    def test_a_report_that_says_nothing_new_writes_nothing(self) -> None:
        desk = two()
        before = len(desk.kept.changes)

        desk.report(A, domains=(EAST,))

        assert len(desk.kept.changes) == before

    def test_an_address_changes_only_by_a_certified_report(self) -> None:
        desk = Desk()
        desk.report(A, address="h:1")

        remarked = desk.report(A, address="h:2", certified=False)
        assert desk.fleet.shards[A].address == "h:1"
        assert "h:2 was not taken over" in remarked.remarks[0]

        assert desk.report(A, address="h:2").remarks == ()
        assert desk.fleet.shards[A].address == "h:2"

    def test_a_peer_that_knows_none_of_our_fields_is_asked_for_none(self) -> None:
        desk = two()

        desk.report(A, can_hand_over=False)

        assert desk.fleet.domains[EAST] == commands.held(A)


class TestProviders:
    def test_a_provider_is_known_by_its_name(self) -> None:
        desk = Desk()
        desk.report(A, providers=(ProviderLine(METAL, "h:1"),))

        assert desk.fleet.providers[METAL].address == "h:1"
        assert desk.fleet.shards[A].providers == (METAL,)

    def test_another_address_under_the_same_name_is_a_conflict(self) -> None:
        desk = Desk()
        desk.report(A, providers=(ProviderLine(METAL, "h:1"),))
        desk.report(B, providers=(ProviderLine(METAL, "h:2"),))

        assert kinds(desk) == [ConflictKind.PROVIDER]
        assert desk.fleet.providers[METAL].address == "h:1"

    def test_two_shards_on_a_provider_where_one_takes_everything_are_a_conflict(self) -> None:
        desk = Desk()
        line = (ProviderLine(METAL, "h:1"),)
        desk.report(A, providers=line, takes_all=True)
        assert kinds(desk) == []

        desk.report(B, providers=line)

        assert [(each.kind, each.shards) for each in desk.conflicts] == [
            (ConflictKind.TAKES_ALL, (A, B))
        ]


class TestClusters:
    def test_the_first_report_binds_for_good(self) -> None:
        desk = Desk()
        desk.report(A, clusters=(WEB,))
        desk.report(A)

        desk.report(B, clusters=(WEB,))

        assert desk.fleet.clusters[WEB].shard == A
        assert [(each.kind, each.subject, each.shards) for each in desk.conflicts] == [
            (ConflictKind.CLUSTER, WEB, (A, B))
        ]


class TestDomains:
    def test_a_domain_that_nobody_is_known_to_own_is_the_reporters(self) -> None:
        assert two().fleet.domains[EAST] == commands.held(A)

    def test_many_of_them_are_recorded_in_few_changes(self) -> None:
        desk = Desk()
        zones = tuple(Domain("zone", f"z-{number:03}") for number in range(500))
        report = ShardReport(shard=A, number=1, epoch=1, can_hand_over=True, domains=zones)
        taken = reports.taken_in(desk.fleet, report, certified=True, now_ns=NOW, conflicts=[])

        assert desk.do(taken) <= 15
        assert desk.fleet.domains == dict.fromkeys(zones, commands.held(A))

    def test_one_of_another_shard_is_a_conflict_and_is_to_be_let_go(self) -> None:
        desk = two()

        for _ in range(2):
            assert told(desk, B, domains=(EAST,)) == [UnassignDomain(domain=EAST)]
            assert kinds(desk) == [ConflictKind.DOMAIN]
        [(_, record)] = desk.fleet.pending(B)
        desk.report(B, acks=(accepted(record.id),))
        assert desk.fleet.domains[EAST] == commands.held(A)

    def test_a_domain_with_another_key_is_a_conflict(self) -> None:
        desk = two()

        desk.report(B, domains=(Domain("rack", "1"),))

        assert kinds(desk) == [ConflictKind.DOMAIN]
        assert [*desk.fleet.domains] == [EAST]

    def test_a_shard_that_forgot_everything_is_told_its_domains_again(self) -> None:
        desk = two()

        assert told(desk, A, takes_all=True) == [AssignDomain(domain=EAST)]
        assert desk.fleet.domains[EAST].state is DomainState.ARRIVING

    def test_a_domain_that_its_owner_does_not_have_is_nobodys(self) -> None:
        """So a restored store learns who has it now."""
        desk = two()

        desk.report(A)
        assert kinds(desk) == [ConflictKind.UNOWNED]
        desk.report(B, domains=(EAST,))

        assert desk.fleet.domains[EAST] == commands.held(B)

    def test_a_refused_domain_is_nobodys(self) -> None:
        desk = two()
        desk.do(commands.assign_domain(desk.fleet, WEST, B, NOW))
        [(_, record)] = desk.fleet.pending(B)

        desk.report(B, acks=(invalid(record.id),))

        assert WEST not in desk.fleet.domains

    def test_a_domain_that_its_owner_refuses_to_let_go_stays_there(self) -> None:
        desk = two()
        desk.do(commands.move_domain(desk.fleet, EAST, B, NOW))
        [(_, record)] = desk.fleet.pending(A)

        assert told(desk, A, domains=(EAST,), acks=(invalid(record.id),)) == [
            AssignDomain(domain=EAST)
        ]

    def test_the_next_owner_hears_which_machines_the_last_one_kept(self) -> None:
        desk = two()
        desk.do(commands.move_domain(desk.fleet, EAST, B, NOW))
        [(_, record)] = desk.fleet.pending(A)
        kept = tuple(a_stray(f"m{at}", leaving=True) for at in range(130))

        desk.report(A, strays=kept, acks=(accepted(record.id),))

        [assigned] = told(desk, B)
        away = tuple(sorted(stray.machine for stray in kept))
        assert assigned == AssignDomain(domain=EAST, away=away)


class TestStrays:
    def test_a_stray_is_recorded_with_the_shard_that_has_it(self) -> None:
        desk = two()

        desk.report(B, strays=(a_stray("m1"),))

        record = desk.fleet.strays[M1]
        assert (record.shard, record.state, record.leaving) == (B, StrayState.HELD, False)
        desk.report(B, strays=(a_stray("m1", leaving=True),))
        assert desk.fleet.strays[M1].leaving

    def test_one_that_is_no_longer_reported_goes_to_the_owner_of_its_domain(self) -> None:
        desk = two()
        desk.report(B, strays=(a_stray("m1"),))

        desk.report(B)

        assert desk.fleet.strays[M1].state is StrayState.GRANTED
        [take] = told(desk, A, domains=(EAST,))
        assert take == TransferOwnership(from_shard=B, to_shard=A, machines=(handed("m1"),))
        [(_, record)] = desk.fleet.pending(A)
        assert desk.fleet.moves[record.move].tier is Tier.RETURN
        desk.report(A, domains=(EAST,), acks=(accepted(record.id),))
        assert dict(desk.fleet.strays) == {}
        assert desk.fleet.moves[record.move].state is MoveState.DONE

    def test_one_whose_domain_is_leaving_is_for_the_next_owner(self) -> None:
        desk = two()
        desk.report(C, strays=(a_stray("m1"),))
        desk.do(commands.move_domain(desk.fleet, EAST, B, NOW))

        desk.report(C)

        [unassign] = desk.report(A, domains=(EAST,), away=(handed("m1"),)).instructions
        assert unassign.payload == UnassignDomain(domain=EAST)
        desk.report(A, acks=(accepted(unassign.id),))
        assert told(desk, B) == [AssignDomain(domain=EAST)]
        assert dict(desk.fleet.strays) == {}

    def test_one_whose_owner_keeps_the_domain_after_all_is_no_longer_away_from_it(self) -> None:
        desk = two()
        desk.report(C, strays=(a_stray("m1"),))
        desk.do(commands.move_domain(desk.fleet, EAST, B, NOW))
        desk.report(C)
        away = (handed("m1"), handed("m2"))
        [unassign] = desk.report(A, domains=(EAST,), away=away).instructions

        again = desk.report(A, domains=(EAST,), away=away, acks=(invalid(unassign.id),))

        [assign] = again.instructions
        assert assign.payload == AssignDomain(domain=EAST, away=(MachineId("m2"),))
        desk.report(A, domains=(EAST,), away=(handed("m2"),), acks=(accepted(assign.id),))
        assert dict(desk.fleet.strays) == {}

    def test_one_whose_domain_nobody_owns_goes_home(self) -> None:
        desk = two()
        desk.do(commands.begin_move(desk.fleet, a_proposal(), "m", NOW))
        [(_, asked)] = desk.fleet.pending(A)
        desk.report(A, domains=(EAST,), acks=(accepted(asked.id, handed("m1")),))
        [(_, take)] = desk.fleet.pending(B)
        desk.report(B, strays=(a_stray("m1"),), acks=(accepted(take.id),))
        desk.do(commands.unassign_domain(desk.fleet, EAST, NOW))
        [(_, unassign)] = desk.fleet.pending(A)
        desk.report(A, acks=(accepted(unassign.id),))

        desk.report(B)

        back = TransferOwnership(from_shard=B, to_shard=A, machines=(handed("m1"),))
        assert told(desk, A) == [back]

    def test_a_shard_that_takes_everything_has_let_go_of_nothing(self) -> None:
        desk = two()
        desk.report(B, strays=(a_stray("m1"),))

        desk.report(B, takes_all=True)

        assert desk.fleet.strays[M1].shard == B

    def test_one_of_another_shard_is_a_conflict(self) -> None:
        desk = two()
        desk.report(B, strays=(a_stray("m1"),))

        desk.report(C, strays=(a_stray("m1"),))

        assert [(each.kind, each.subject, each.shards) for each in desk.conflicts] == [
            (ConflictKind.STRAY, "m1", (B, C))
        ]
        assert desk.fleet.strays[M1].shard == B

    def test_thousands_are_recorded_and_let_go_in_changes_that_a_store_takes(self) -> None:
        desk = two()
        many = tuple(a_stray(f"m{at}") for at in range(5_000))

        desk.report(B, strays=many)
        assert len(desk.fleet.strays_of(B)) == 5_000
        desk.report(B)

        assert len(desk.fleet.strays_of(A)) == 5_000
        assert len(desk.report(A, domains=(EAST,)).instructions) == reports.OFFERED_MAX

    def test_a_shard_takes_everything_until_its_strays_are_recorded(self) -> None:
        desk = Desk()
        desk.report(A, takes_all=True)
        report = ShardReport(
            shard=A, epoch=1, number=9, can_hand_over=True, domains=(EAST,),
            strays=tuple(a_stray(f"m{at}", WEST, leaving=True) for at in range(100)),
        )  # fmt: skip
        changes = reports.taken_in(
            desk.fleet, report, certified=True, now_ns=NOW, conflicts=desk.conflicts
        )

        for change in changes:
            assert desk.fleet.shards[A].takes_all
            desk.do(change)

        assert not desk.fleet.shards[A].takes_all
        assert len(desk.fleet.strays_of(A)) == 100


class TestAcks:
    @pytest.mark.parametrize(
        "outcome", [Outcome.FAILED, Outcome.REJECTED_STALE, Outcome.UNSPECIFIED]
    )
    def test_what_was_not_done_is_offered_again(self, outcome: Outcome) -> None:
        desk = two()
        desk.do(commands.assign_domain(desk.fleet, WEST, B, NOW))
        [first] = desk.report(B).instructions

        ack = InstructAck(instruction=first.id, outcome=outcome)

        assert [each.id for each in desk.report(B, acks=(ack,)).instructions] == [first.id]

    def test_an_ack_of_something_unknown_is_ignored(self) -> None:
        desk = two()
        before = desk.kept.values

        desk.report(A, domains=(EAST,), acks=(accepted("a-99-1", handed("m1")),))

        assert desk.kept.values == before

    def test_a_replayed_ack_changes_nothing(self) -> None:
        desk = two()
        desk.do(commands.begin_move(desk.fleet, a_proposal(), "m", NOW))
        [(_, asked)] = desk.fleet.pending(A)
        ack = accepted(asked.id, handed("m1"))
        desk.report(A, domains=(EAST,), acks=(ack,))
        before = desk.kept.values

        desk.report(A, domains=(EAST,), acks=(ack,))

        assert desk.kept.values == before

    def test_instructions_carry_the_term_of_who_leads_now(self) -> None:
        desk = two()
        desk.do(commands.assign_domain(desk.fleet, WEST, B, NOW))

        assert desk.report(B).instructions[0].term == 1
        assert desk.successor().report(B).instructions[0].term == 2

    def test_a_domain_that_its_shard_still_has_was_not_let_go_of(self) -> None:
        """An old snapshot was restored: the shard remembers the instruction, and has it again."""
        desk = two()
        desk.do(commands.move_domain(desk.fleet, EAST, B, NOW))
        [old] = desk.report(A, domains=(EAST,)).instructions

        [new] = desk.report(A, domains=(EAST,), acks=(accepted(old.id),)).instructions

        assert new.payload == UnassignDomain(domain=EAST)
        assert new.id != old.id
        assert told(desk, B) == []
        desk.report(A, acks=(accepted(new.id),))
        assert told(desk, B) == [AssignDomain(domain=EAST)]

    def test_a_domain_that_its_shard_does_not_have_did_not_arrive(self) -> None:
        desk = two()
        desk.do(commands.assign_domain(desk.fleet, WEST, B, NOW))
        [old] = desk.report(B).instructions

        [new] = desk.report(B, acks=(accepted(old.id),)).instructions

        assert new.payload == AssignDomain(domain=WEST)
        assert new.id != old.id
        assert desk.fleet.domains[WEST].state is DomainState.ARRIVING

    @pytest.mark.parametrize(
        "parts",
        [{"domains": (EAST,), "away": ()}, {"strays": (a_stray("m1", WEST),)}],
        ids=["in its domain", "as a stray"],
    )
    def test_what_a_donor_has_again_was_not_given(self, parts: dict[str, Any]) -> None:
        desk = two()
        desk.do(commands.begin_move(desk.fleet, a_proposal(), "m", NOW))
        [asked] = desk.report(A, domains=(EAST,)).instructions
        where = EAST if "domains" in parts else WEST

        desk.report(A, acks=(accepted(asked.id, handed("m1", where)),), **parts)

        assert desk.fleet.moves["m"].state is MoveState.REFUSED
        assert told(desk, B) == []

    @pytest.mark.parametrize("tier", [Tier.IDLE, Tier.SPECULATIVE, Tier.PREEMPT])
    def test_of_a_move_that_was_called_off_nothing_is_wanted(self, tier: Tier) -> None:
        desk = two()
        desk.do(commands.begin_move(desk.fleet, a_proposal(tier=tier), "m", NOW))
        [before] = told(desk, A, domains=(EAST,))
        assert wanted_of(before).machines_max == 5

        desk.do(commands.cancel_move(desk.fleet, "m"))

        [after] = told(desk, A, domains=(EAST,))
        assert wanted_of(after).machines_max == 0

    def test_takes_are_offered_before_what_waits_in_great_number(self) -> None:
        desk = two()
        many = tuple(Domain("zone", f"z{at:03}") for at in range(100))
        desk.report(A, domains=(EAST, *many))
        for domain in many:
            desk.do(commands.unassign_domain(desk.fleet, domain, NOW))
        desk.do(commands.begin_move(desk.fleet, a_proposal(donor=B, recipient=A), "m", NOW))
        [(_, asked)] = desk.fleet.pending(B)
        desk.report(B, strays=(a_stray("m1", WEST),))
        desk.report(B, acks=(accepted(asked.id, handed("m1", WEST)),))

        answer = desk.report(A, domains=(EAST, *many)).instructions

        assert len(answer) == reports.OFFERED_MAX
        assert [each for each in answer if isinstance(each.payload, TransferOwnership)]
        assert [each.sequence for each in answer] == sorted(each.sequence for each in answer)

    def test_a_take_still_waits_for_what_came_before_it_about_its_domain(self) -> None:
        desk = two()
        desk.do(commands.assign_domain(desk.fleet, WEST, A, NOW))
        desk.do(commands.begin_move(desk.fleet, a_proposal(donor=B, recipient=A), "m", NOW))
        [(_, asked)] = desk.fleet.pending(B)
        desk.report(B, strays=(a_stray("m1", WEST),))
        desk.report(B, acks=(accepted(asked.id, handed("m1", WEST)),))

        assert len(desk.fleet.pending(A)) == 2
        assert told(desk, A, domains=(EAST,)) == [AssignDomain(domain=WEST)]
