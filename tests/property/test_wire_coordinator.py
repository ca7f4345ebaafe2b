"""Reports and their answers come back from the wire as they were."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
import strategies
from mainstay.model import coordination as m
from mainstay.model import coordinator_calls as c
from mainstay.model.cost import PENALTY_BUCKET_MAX
from mainstay.model.errors import Rejected
from mainstay.model.ids import ShardId
from mainstay.model.need import Operator, Requirement
from mainstay.wire import coordinator_lists as lists
from mainstay.wire.coordinator_codec import (
    answer_from_wire,
    answer_to_wire,
    report_from_wire,
    report_to_wire,
)
from mainstay.wire.handover_codec import UNITS_MAX

texts = st.text(st.characters(codec="utf-8"), max_size=5)
words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
int32 = st.integers(-(2**31), 2**31 - 1)
counts32 = st.integers(0, 2**31 - 1)
counts = st.integers(0, 2**63 - 1)
limits = st.integers(-1, 2**63 - 1)
buckets = st.integers(0, PENALTY_BUCKET_MAX)
shards = strategies.ids().map(ShardId)
amounts = strategies.units(UNITS_MAX)
domains = st.builds(m.Domain, words, words)
wants = st.lists(strategies.requirements(), max_size=2).map(tuple)


def several(one: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(one, max_size=2).map(tuple)


handed = st.builds(m.Handed, strategies.machine_ids(), texts, st.none() | domains)
strays = st.builds(
    m.Stray, strategies.machine_ids(), texts, st.none() | domains, leaving=st.booleans()
)
quotas_of = st.builds(m.QuotaOf, st.sampled_from(m.QuotaKind), words, texts)
missing = st.builds(
    m.Missing,
    requirements=wants,
    deficit=amounts,
    priority=int32,
    age_cycles=counts32,
    interruption_penalty_bucket=buckets,
    reclamation_penalty_bucket=buckets,
    min_unit=amounts,
    topology=st.booleans(),
    quota=st.booleans(),
    fingerprint=texts,
)
summaries = st.builds(
    m.Summary,
    total_machines=counts32,
    free_machines=counts32,
    by_instance_type=st.dictionaries(texts, counts32, max_size=2),
    by_zone=st.dictionaries(texts, counts32, max_size=2),
    provider_address=texts,
    free=several(st.builds(m.FreeRow, texts, texts, texts, counts, counts)),
    serving=several(st.builds(m.ServingRow, texts, texts, texts, int32, buckets, counts)),
)
acks = st.builds(
    m.InstructAck,
    instruction=texts,
    outcome=st.sampled_from(m.Outcome),
    reason=texts,
    given=several(handed),
    quota=several(st.builds(m.QuotaMoved, quotas_of, counts)),
)
reports = st.builds(
    m.ShardReport,
    shard=shards,
    number=counts,
    at_ns=counts,
    epoch=counts,
    summary=summaries,
    missing=several(missing),
    acks=several(acks),
    address=texts,
    can_hand_over=st.booleans(),
    term_seen=counts,
    clusters=several(strategies.cluster_ids()),
    takes_all=st.booleans(),
    domains=several(domains),
    strays=several(strays),
    providers=several(st.builds(m.ProviderLine, texts, texts)),
    quota=several(st.builds(m.QuotaLine, quotas_of, limits, counts, counts)),
    away=several(handed),
)
wanted = st.builds(
    m.Wanted,
    requirements=wants,
    deficit=amounts,
    min_unit=amounts,
    priority=int32,
    interruption_penalty_bucket=buckets,
    machines_max=counts,
    providers=several(texts),
)
moved = {
    "from_shard": st.just(ShardId("")) | shards,
    "to_shard": st.just(ShardId("")) | shards,
    "machines": several(handed),
    "wanted": st.none() | wanted,
}
payloads = st.one_of(
    st.none(),
    st.builds(m.AssignDomain, domain=domains, away=several(strategies.machine_ids())),
    st.builds(m.UnassignDomain, domain=domains),
    st.builds(m.TransferOwnership, **moved),
    st.builds(m.ReassignSpeculative, **moved),
    st.builds(m.CrossShardDrain, to_shard=shards, wanted=wanted, preemptor_priority=int32),
)
instructions = st.builds(m.Instruction, term=counts, sequence=counts, id=texts, payload=payloads)
answers = st.builds(
    m.ReportAck,
    term=counts,
    acknowledged=st.booleans(),
    instructions=several(instructions),
    grants=several(st.builds(m.Grant, quotas_of, limits, limits)),
    remarks=several(texts),
)


@settings(max_examples=outside.examples(50))
@given(reports)
def test_a_report_comes_back_as_it_was_sent(report: m.ShardReport) -> None:
    assert report_from_wire(report_to_wire(report)) == report


@settings(max_examples=outside.examples(50))
@given(answers)
def test_an_answer_comes_back_as_it_was_sent(answer: m.ReportAck) -> None:
    assert answer_from_wire(answer_to_wire(answer)) == answer


@given(st.binary(max_size=60))
def test_bytes_of_anybody_are_a_report_or_refused(data: bytes) -> None:
    for read in (report_from_wire, answer_from_wire):
        assert "\n" not in refusal(read, data)


@settings(max_examples=outside.examples(50))
@given(reports, st.data())
def test_a_report_that_was_damaged_is_a_report_or_refused(
    report: m.ShardReport, data: st.DataObject
) -> None:
    good = bytearray(report_to_wire(report))
    for place in data.draw(st.lists(st.integers(0, len(good) - 1), max_size=3)):
        good[place] = data.draw(st.integers(0, 255))

    assert "\n" not in refusal(report_from_wire, bytes(good))


def refusal(read: Callable[[bytes], object], data: bytes) -> str:
    try:
        read(data)
    except Rejected as error:
        return error.message
    return ""


def bare(seen: c.SeenReport) -> c.SeenReport:
    return c.SeenReport(
        shard=seen.shard,
        number=seen.number,
        received_at_ns=seen.received_at_ns,
        summary=seen.summary,
        missing=tuple(
            m.Missing(**{
                name: getattr(each, name) for name in m.Missing.__slots__ if name != "requirements"
            })
            for each in seen.missing
        ),
    )  # fmt: skip


LISTS: dict[str, tuple[Any, Any, Any]] = {
    "shards": (
        st.builds(c.RegisteredShard, texts, texts, counts, counts),
        lists.shards_to_wire,
        lists.shards_from_wire,
    ),
    "domains": (
        st.builds(c.AssignedDomain, domains, texts),
        lists.domains_to_wire,
        lists.domains_from_wire,
    ),
    "reports": (
        st.builds(
            c.SeenReport,
            shard=texts,
            number=counts,
            received_at_ns=counts,
            summary=summaries,
            missing=several(missing),
        ).map(bare),
        lists.reports_to_wire,
        lists.reports_from_wire,
    ),
    "quotas": (
        st.builds(
            c.QuotaAllocation,
            provider=texts,
            region=texts,
            per_shard=st.dictionaries(texts, counts32, max_size=2),
        ),
        lists.quotas_to_wire,
        lists.quotas_from_wire,
    ),
    "providers": (
        st.builds(c.RegisteredProvider, texts, texts, texts),
        lists.providers_to_wire,
        lists.providers_from_wire,
    ),
}


@pytest.mark.parametrize("name", LISTS)
@settings(max_examples=outside.examples(30))
@given(st.data())
def test_every_list_comes_back_as_it_was_sent(name: str, data: st.DataObject) -> None:
    one, write, read = LISTS[name]
    rows = data.draw(several(one))

    assert read(write(rows)) == rows


def test_requirements_of_shortfalls_are_not_listed() -> None:
    short = m.Missing(requirements=(Requirement("zone", Operator.IN, ("a",)),), priority=7)
    (back,) = lists.reports_from_wire(
        lists.reports_to_wire([c.SeenReport(shard="s-1", missing=(short,))])
    )

    assert back.missing == (m.Missing(priority=7),)


@settings(max_examples=outside.examples(20))
@given(st.binary(max_size=20), st.integers(0, 2 * lists.CHUNK_BYTES + 1))
def test_a_snapshot_comes_back_from_its_frames(meta: bytes, size: int) -> None:
    snapshot = c.Snapshot(meta, bytes(size))
    frames = list(lists.snapshot_to_wire(snapshot))
    reader = lists.SnapshotReader()
    for frame in frames:
        reader.heard(frame)

    assert reader.whole() == snapshot
    assert len(frames) == 1 + -(-size // lists.CHUNK_BYTES)
