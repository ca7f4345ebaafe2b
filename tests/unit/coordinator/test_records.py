"""Keys and values: what was written is read back, and nothing else is."""

import json
from dataclasses import MISSING, fields
from typing import Final

import pytest

from coordinating import EAST, A, a_proposal, handed
from mainstay.coordinator import keys
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.keys import PARTS, Kind
from mainstay.coordinator.records import (
    RECORDS,
    ClusterRecord,
    DomainRecord,
    DomainState,
    InstructionRecord,
    MetaRecord,
    MoveRecord,
    MoveState,
    ProviderRecord,
    QuotaRecord,
    Record,
    ShardRecord,
    Stamp,
    StrayRecord,
    StrayState,
    decode,
    encode,
)
from mainstay.coordinator.store import Entry
from mainstay.coordinator.tiers import Tier
from mainstay.model.coordination import (
    AssignDomain,
    CrossShardDrain,
    Domain,
    Payload,
    QuotaKind,
    QuotaOf,
    ReassignSpeculative,
    TransferOwnership,
    UnassignDomain,
    Wanted,
)
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId, ShardId
from mainstay.model.need import Operator, Requirement

WANTED: Final = Wanted(
    requirements=(Requirement("zone", Operator.IN, ("a", "b")),),
    deficit={"cpu": 8000, "memory": 5},
    min_unit={"cpu": 1000},
    machines_max=3,
    providers=("metal",),
)

PAYLOADS: Final[tuple[Payload, ...]] = (
    AssignDomain(domain=EAST),
    UnassignDomain(domain=EAST),
    TransferOwnership(from_shard=A, to_shard=ShardId("b"), wanted=WANTED),
    TransferOwnership(from_shard=A, to_shard=ShardId("b"), machines=(handed("m1"),)),
    ReassignSpeculative(from_shard=A, to_shard=ShardId("b"), wanted=WANTED),
    CrossShardDrain(to_shard=ShardId("b"), wanted=WANTED, preemptor_priority=9),
)

EXAMPLES: Final[dict[Kind, tuple[Record, ...]]] = {
    Kind.META: (MetaRecord(term_base=7),),
    Kind.SHARD: (ShardRecord(last_report=Stamp(2, 9), removing=True, providers=("metal",)),),
    Kind.CLUSTER: (ClusterRecord(shard=A, bound_at_ns=4),),
    Kind.DOMAIN: (DomainRecord(shard=A, state=DomainState.LEAVING, to=ShardId("b")),),
    Kind.STRAY: (
        StrayRecord(shard=A, provider="metal", domain=None, state=StrayState.HELD, leaving=True),
        StrayRecord(shard=A, provider="metal", domain=EAST, state=StrayState.GRANTED, move="m"),
    ),
    Kind.QUOTA: (QuotaRecord(entitled=9, granted={A: 4}, waiting={"zone=a": 1}),),
    Kind.PROVIDER: (ProviderRecord(address="h:1", region="r"),),
    Kind.INSTRUCTION: tuple(InstructionRecord(id="i", payload=each) for each in PAYLOADS),
    Kind.MOVE: (
        MoveRecord(
            donor=A, recipient=ShardId("b"), tier=Tier.PREEMPT, state=MoveState.GIVEN,
            wanted=WANTED, machines=(handed("m1"), handed("m2", None)),
        ),
    ),
}  # fmt: skip


def some(kind: Kind) -> dict[str, object]:
    read: dict[str, object] = json.loads(encode(EXAMPLES[kind][0]))
    return read


def required(kind: Kind) -> list[str]:
    """The fields that no version has gone without."""
    return [
        each.name
        for each in fields(RECORDS[kind])
        if each.default is MISSING and each.default_factory is MISSING
    ]


class TestValues:
    @pytest.mark.parametrize("kind", Kind)
    def test_every_record_is_read_back_as_it_was_written(self, kind: Kind) -> None:
        for record in EXAMPLES[kind]:
            assert decode(kind, encode(record), key="k") == record
            assert type(record) is RECORDS[kind]

    @pytest.mark.parametrize("kind", Kind)
    def test_a_field_that_is_missing_or_unknown_is_refused_with_the_key(self, kind: Kind) -> None:
        given = some(kind)
        shorter = [{k: v for k, v in given.items() if k != name} for name in required(kind)]

        for bad in ({**given, "odd": 1}, *shorter):
            with pytest.raises(Rejected, match=r"'k/1'.*missing or unknown"):
                decode(kind, json.dumps(bad).encode(), key="k/1")

    def test_a_record_from_before_a_field_was_added_is_read(self) -> None:
        assert decode(Kind.QUOTA, b'{"entitled":9,"granted":{"a":4}}', key="k") == QuotaRecord(
            entitled=9, granted={A: 4}
        )

    @pytest.mark.parametrize(
        ("kind", "name", "value"),
        [
            (Kind.META, "term_base", "7"),
            (Kind.META, "term_base", True),
            (Kind.SHARD, "last_report", [1]),
            (Kind.SHARD, "providers", "metal"),
            (Kind.DOMAIN, "state", "lost"),
            (Kind.STRAY, "domain", {"key": "zone"}),
            (Kind.QUOTA, "granted", {"a": 1.5}),
            (Kind.INSTRUCTION, "payload", {"is": "Nothing"}),
            (Kind.INSTRUCTION, "payload", {"domain": ["zone", "east"]}),
            (Kind.MOVE, "tier", 9),
            (Kind.MOVE, "machines", [["m1", "metal"]]),
        ],
    )
    def test_a_value_of_another_kind_is_refused_with_the_key(
        self, kind: Kind, name: str, value: object
    ) -> None:
        with pytest.raises(Rejected, match="'k/1'"):
            decode(kind, json.dumps({**some(kind), name: value}).encode(), key="k/1")

    @pytest.mark.parametrize("value", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 100_000])
    def test_what_is_no_record_at_all_is_refused_with_the_key(self, value: bytes) -> None:
        with pytest.raises(Rejected, match="'k/1'"):
            decode(Kind.SHARD, value, key="k/1")

    def test_the_same_record_has_the_same_bytes(self) -> None:
        one = QuotaRecord(entitled=1, granted={A: 1, ShardId("b"): 2})
        two = QuotaRecord(entitled=1, granted={ShardId("b"): 2, A: 1})

        assert encode(one) == encode(two)


class TestKeys:
    def test_whatever_a_name_contains_it_is_read_back(self) -> None:
        odd = "a/b %2F é"

        made = {
            keys.META: (Kind.META, ()),
            keys.shard(ShardId(odd)): (Kind.SHARD, (odd,)),
            keys.cluster(ClusterId(odd)): (Kind.CLUSTER, (odd,)),
            keys.domain(Domain(odd, "x/y")): (Kind.DOMAIN, (odd, "x/y")),
            keys.stray(MachineId(odd)): (Kind.STRAY, (odd,)),
            keys.quota(QuotaOf(QuotaKind.PLACE, odd, "")): (Kind.QUOTA, ("place", odd, "")),
            keys.provider(odd): (Kind.PROVIDER, (odd,)),
            keys.instruction(ShardId(odd), 7): (Kind.INSTRUCTION, (odd, "000000000007")),
            keys.move(odd): (Kind.MOVE, (odd,)),
        }

        assert {kind for kind, _ in made.values()} == {*PARTS}
        for key, meant in made.items():
            assert keys.parse(key) == meant

    @pytest.mark.parametrize("key", ["", "shard", "shard/a/b", "meta/x", "queue/a", "Shard/a"])
    def test_what_is_no_key_of_ours_is_refused_by_name(self, key: str) -> None:
        with pytest.raises(Rejected, match="not a key"):
            keys.parse(key)


class TestLoading:
    @pytest.mark.parametrize("key", ["instruction/a/one", "quota/color/x/", "shard/a/b"])
    def test_a_store_with_a_key_that_means_nothing_is_not_loaded(self, key: str) -> None:
        value = encode(EXAMPLES[Kind.QUOTA if key.startswith("quota") else Kind.INSTRUCTION][0])

        with pytest.raises(Rejected, match=key):
            Fleet.from_entries({key: Entry(value, 1)})

    def test_a_store_of_another_format_is_not_loaded(self) -> None:
        with pytest.raises(Rejected, match="format 2"):
            Fleet.from_entries({keys.META: Entry(encode(MetaRecord(format=2)), 1)})

    def test_a_value_that_cannot_be_read_stops_the_load_and_names_its_key(self) -> None:
        with pytest.raises(Rejected, match="cluster/web"):
            Fleet.from_entries({"cluster/web": Entry(b"{}", 1)})

    def test_a_proposal_goes_into_its_move_as_it_is(self) -> None:
        assert decode(Kind.MOVE, encode(_move()), key="k") == _move()


def _move() -> MoveRecord:
    proposal = a_proposal()
    return MoveRecord(
        donor=proposal.donor,
        recipient=proposal.recipient,
        tier=proposal.tier,
        state=MoveState.ASKED,
        wanted=proposal.wanted,
    )
