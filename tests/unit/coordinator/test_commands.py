"""What people and the planner may do, and what is refused."""

from typing import Any

import pytest

from coordinating import EAST, METAL, NOW, WEST, A, B, C, Desk, a_proposal, accepted, handed
from mainstay.coordinator import commands
from mainstay.coordinator.commands import NOTHING
from mainstay.coordinator.records import DomainRecord, DomainState, MoveState
from mainstay.coordinator.tiers import Tier
from mainstay.model.coordination import (
    AssignDomain,
    CrossShardDrain,
    Domain,
    ProviderLine,
    QuotaKind,
    QuotaOf,
    ReassignSpeculative,
    TransferOwnership,
    UnassignDomain,
)
from mainstay.model.errors import MainstayError, Rejected, Taken, Unknown
from mainstay.model.ids import ClusterId

ON_METAL = (ProviderLine(METAL, "metal:1"),)


def a_desk(**parts: Any) -> Desk:
    """With shards a, b and c on one provider."""
    desk = Desk()
    for shard in (A, B, C):
        desk.report(shard, providers=ON_METAL, **parts)
    return desk


def with_east(desk: Desk) -> Desk:
    """The east is a's, and it has said so."""
    desk.do(commands.assign_domain(desk.fleet, EAST, A, NOW))
    [told] = desk.report(A, providers=ON_METAL).instructions
    desk.report(A, providers=ON_METAL, domains=(EAST,), acks=(accepted(told.id),))
    return desk


class TestDomains:
    def test_a_domain_arrives_at_its_shard_and_is_held_once_that_says_so(self) -> None:
        desk = a_desk()

        desk.do(commands.assign_domain(desk.fleet, EAST, A, NOW))
        assert desk.fleet.domains[EAST] == DomainRecord(shard=A, state=DomainState.ARRIVING)
        [told] = desk.report(A, providers=ON_METAL).instructions
        assert told.payload == AssignDomain(domain=EAST)

        assert with_east(a_desk()).fleet.domains[EAST] == commands.held(A)

    def test_assigning_it_to_its_owner_again_changes_nothing(self) -> None:
        desk = with_east(a_desk())

        assert commands.assign_domain(desk.fleet, EAST, A, NOW) == NOTHING

    def test_a_domain_of_another_shard_is_taken(self) -> None:
        desk = with_east(a_desk())

        with pytest.raises(Taken, match="zone=east"):
            commands.assign_domain(desk.fleet, EAST, B, NOW)

    def test_a_domain_for_a_shard_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(Unknown, match="nobody"):
            commands.assign_domain(Desk().fleet, EAST, type(A)("nobody"), NOW)

    @pytest.mark.parametrize("domain", [Domain("", "x"), Domain("zone", "")])
    def test_a_domain_has_a_key_and_a_value(self, domain: Domain) -> None:
        with pytest.raises(Rejected, match="key and a value"):
            commands.assign_domain(a_desk().fleet, domain, A, NOW)

    def test_every_domain_of_a_fleet_has_the_same_key(self) -> None:
        desk = with_east(a_desk())

        with pytest.raises(Rejected, match="the same key, here 'zone'"):
            commands.assign_domain(desk.fleet, Domain("rack", "1"), B, NOW)

    def test_beside_a_shard_that_takes_everything_there_is_no_domain_for_others(self) -> None:
        desk = a_desk()
        desk.report(C, providers=ON_METAL, takes_all=True)

        with pytest.raises(Rejected, match="assign a domain to c first"):
            commands.assign_domain(desk.fleet, EAST, A, NOW)
        assert commands.assign_domain(desk.fleet, EAST, C, NOW) != NOTHING

    def test_one_that_takes_everything_of_another_provider_is_in_nobodys_way(self) -> None:
        desk = a_desk()
        desk.report(C, providers=(ProviderLine("cloud", "c:1"),), takes_all=True)

        assert commands.assign_domain(desk.fleet, EAST, A, NOW) != NOTHING

    def test_a_domain_moves_once_its_owner_has_let_go(self) -> None:
        desk = with_east(a_desk())

        desk.do(commands.move_domain(desk.fleet, EAST, B, NOW))
        leaving = DomainRecord(shard=A, state=DomainState.LEAVING, to=B)
        assert desk.fleet.domains[EAST] == leaving
        [told] = desk.report(A, providers=ON_METAL, domains=(EAST,)).instructions
        assert told.payload == UnassignDomain(domain=EAST)
        assert desk.report(B, providers=ON_METAL).instructions == ()

        desk.report(A, providers=ON_METAL, acks=(accepted(told.id),))
        [given] = desk.report(B, providers=ON_METAL).instructions
        assert given.payload == AssignDomain(domain=EAST)

    def test_a_domain_on_its_way_may_be_sent_elsewhere(self) -> None:
        desk = with_east(a_desk())
        desk.do(commands.move_domain(desk.fleet, EAST, B, NOW))

        desk.do(commands.move_domain(desk.fleet, EAST, C, NOW))

        assert desk.fleet.domains[EAST].to == C
        assert len(desk.fleet.pending(A)) == 1
        assert commands.assign_domain(desk.fleet, EAST, C, NOW) == NOTHING
        assert commands.move_domain(desk.fleet, EAST, C, NOW) == NOTHING

    def test_a_domain_that_is_taken_away_is_gone_once_its_owner_has_let_go(self) -> None:
        desk = with_east(a_desk())
        desk.do(commands.unassign_domain(desk.fleet, EAST, NOW))
        [told] = desk.report(A, providers=ON_METAL, domains=(EAST,)).instructions

        desk.report(A, providers=ON_METAL, acks=(accepted(told.id),))

        assert EAST not in desk.fleet.domains
        assert commands.unassign_domain(desk.fleet, EAST, NOW) == NOTHING

    def test_what_nobody_owns_does_not_move(self) -> None:
        with pytest.raises(Unknown, match="zone=west"):
            commands.move_domain(a_desk().fleet, WEST, A, NOW)

    def test_what_is_where_it_is_to_go_does_not_move(self) -> None:
        assert commands.move_domain(with_east(a_desk()).fleet, EAST, A, NOW) == NOTHING

    def test_an_instruction_waits_for_an_earlier_one_about_its_domain(self) -> None:
        desk = a_desk()
        desk.do(commands.assign_domain(desk.fleet, EAST, A, NOW))
        desk.do(commands.unassign_domain(desk.fleet, EAST, NOW))
        desk.do(commands.assign_domain(desk.fleet, WEST, A, NOW))

        told = desk.report(A, providers=ON_METAL).instructions
        assert [each.payload for each in told] == [
            AssignDomain(domain=EAST), AssignDomain(domain=WEST),
        ]  # fmt: skip

        after = desk.report(
            A, providers=ON_METAL, domains=(EAST,), acks=(accepted(told[0].id),)
        ).instructions
        assert after[0].payload == UnassignDomain(domain=EAST)


class TestQuotas:
    OF = QuotaOf(QuotaKind.CLUSTER, "web")

    def test_an_entitlement_is_set_changed_and_cleared(self) -> None:
        desk = Desk()
        desk.do(commands.set_quota(desk.fleet, self.OF, 5))
        desk.do(commands.set_quota(desk.fleet, self.OF, 7))
        assert desk.fleet.quotas[self.OF].entitled == 7
        assert commands.set_quota(desk.fleet, self.OF, 7) == NOTHING

        desk.do(commands.clear_quota(desk.fleet, self.OF))
        assert dict(desk.fleet.quotas) == {}
        assert commands.clear_quota(desk.fleet, self.OF) == NOTHING

    @pytest.mark.parametrize(
        ("of", "entitled"),
        [
            (OF, -1),
            (OF, 2**31),
            (QuotaOf(QuotaKind.PLACE, ""), 1),
            (QuotaOf(QuotaKind.CLUSTER, "web", "region"), 1),
        ],
    )
    def test_nonsense_is_refused(self, of: QuotaOf, entitled: int) -> None:
        with pytest.raises(Rejected):
            commands.set_quota(Desk().fleet, of, entitled)


class TestMoves:
    @pytest.mark.parametrize(
        ("tier", "payload"),
        [
            (Tier.IDLE, TransferOwnership),
            (Tier.SPECULATIVE, ReassignSpeculative),
            (Tier.PREEMPT, CrossShardDrain),
        ],
    )
    def test_a_donor_is_asked_in_the_words_of_the_tier(self, tier: Tier, payload: type) -> None:
        desk = a_desk()
        proposal = a_proposal(tier=tier)

        desk.do(commands.begin_move(desk.fleet, proposal, "m-1", NOW))

        [told] = desk.report(A, providers=ON_METAL).instructions
        assert isinstance(told.payload, payload)
        assert getattr(told.payload, "wanted", None) == proposal.wanted
        assert desk.fleet.moves["m-1"].state is MoveState.ASKED
        assert desk.report(B, providers=ON_METAL).instructions == ()

    def test_a_preemption_says_how_much_it_matters(self) -> None:
        desk = a_desk()
        desk.do(commands.begin_move(desk.fleet, a_proposal(tier=Tier.PREEMPT), "m-1", NOW))

        [(_, record)] = desk.fleet.pending(A)
        assert isinstance(record.payload, CrossShardDrain)
        assert record.payload.preemptor_priority == 7

    @pytest.mark.parametrize(
        ("parts", "error"),
        [
            ({"donor": type(A)("x")}, Unknown),
            ({"recipient": type(A)("x")}, Unknown),
            ({"recipient": A}, Rejected),
            ({"tier": Tier.RETURN}, Rejected),
        ],
    )
    def test_a_move_that_cannot_be_is_refused(
        self, parts: dict[str, Any], error: type[MainstayError]
    ) -> None:
        with pytest.raises(error):
            commands.begin_move(a_desk().fleet, a_proposal(**parts), "m-1", NOW)

    def test_two_moves_do_not_share_a_name(self) -> None:
        desk = a_desk()
        desk.do(commands.begin_move(desk.fleet, a_proposal(), "m-1", NOW))

        with pytest.raises(Taken, match="m-1"):
            commands.begin_move(desk.fleet, a_proposal(), "m-1", NOW)

    def test_a_move_is_called_off_while_it_is_asked_for_and_no_later(self) -> None:
        desk = with_east(a_desk())
        desk.do(commands.begin_move(desk.fleet, a_proposal(), "m-1", NOW))
        desk.do(commands.begin_move(desk.fleet, a_proposal(), "m-2", NOW))
        desk.do(commands.cancel_move(desk.fleet, "m-1"))
        assert desk.fleet.moves["m-1"].state is MoveState.WITHDRAWN
        assert len(desk.fleet.pending(A)) == 2
        assert commands.cancel_move(desk.fleet, "m-1") == NOTHING

        told = desk.fleet.pending(A)[1][1].id
        desk.report(A, providers=ON_METAL, domains=(EAST,), acks=(accepted(told, handed("m1")),))
        with pytest.raises(Rejected, match="given"):
            commands.cancel_move(desk.fleet, "m-2")
        with pytest.raises(Unknown, match="m-3"):
            commands.cancel_move(desk.fleet, "m-3")

    def test_only_moves_that_were_settled_long_ago_are_forgotten(self) -> None:
        desk = a_desk()
        for name in ("m-1", "m-2"):
            desk.do(commands.begin_move(desk.fleet, a_proposal(), name, NOW))
        [(_, record), _] = desk.fleet.pending(A)
        desk.report(A, providers=ON_METAL, acks=(accepted(record.id),))
        assert desk.fleet.moves["m-1"].state is MoveState.REFUSED

        assert commands.prune_moves(desk.fleet, NOW) == NOTHING
        desk.do(commands.prune_moves(desk.fleet, NOW + 1))

        assert [*desk.fleet.moves] == ["m-2"]

    def test_ids_of_instructions_are_never_given_twice(self) -> None:
        desk = a_desk()
        first = commands.begin_move(desk.fleet, a_proposal(), "m-1", NOW)
        later = commands.begin_move(desk.fleet, a_proposal(), "m-1", NOW + 1)

        assert first != later
        desk.do(first)
        desk.do(commands.begin_move(desk.fleet, a_proposal(), "m-2", NOW))
        assert len({record.id for _, record in desk.fleet.pending(A)}) == 2


class TestRest:
    def test_a_cluster_is_unbound_so_that_another_shard_may_have_it(self) -> None:
        desk = a_desk()
        web = ClusterId("web")
        desk.report(A, providers=ON_METAL, clusters=(web,))

        desk.do(commands.unbind_cluster(desk.fleet, web))
        desk.report(B, providers=ON_METAL, clusters=(web,))

        assert desk.fleet.clusters[web].shard == B
        with pytest.raises(Unknown, match="other"):
            commands.unbind_cluster(desk.fleet, ClusterId("other"))

    def test_the_base_of_terms_only_grows(self) -> None:
        desk = Desk()
        desk.do(commands.raise_term_base(desk.fleet, 5))

        assert desk.fleet.meta.term_base == 5
        assert commands.raise_term_base(desk.fleet, 4) == NOTHING
