"""Reports and instructions on the wire: bytes that stay the same, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mainstay.model import coordination as m
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId, ShardId
from mainstay.model.need import Operator, Requirement
from mainstay.wire.coordinator_codec import (
    REPORT_BYTES_MAX,
    answer_from_wire,
    answer_to_wire,
    report_from_wire,
    report_to_wire,
)
from mainstay.wire.pb.bigfleet.v1alpha1 import coordinator_pb2 as pb
from mainstay.wire.pb.mainstay.v1 import handover_pb2 as our_pb

SHARD = ShardId("s-1")
ZONE = m.Domain("topology.kubernetes.io/zone", "z-1")
HANDED = m.Handed(MachineId("m-1"), "metal", ZONE)
WANTED = m.Wanted(
    requirements=(Requirement("node.kubernetes.io/instance-type", Operator.IN, ("c5.large",)),),
    deficit={"cpu": 96_000, "memory": 2**28},
    min_unit={"cpu": 16_000},
    priority=900,
    interruption_penalty_bucket=27,
    machines_max=50,
    providers=("metal",),
)

REPORT = m.ShardReport(
    shard=SHARD,
    number=17,
    at_ns=1_700_000_000_000_000_000,
    epoch=3,
    summary=m.Summary(
        total_machines=3,
        free_machines=1,
        by_instance_type={"c5.large": 3},
        by_zone={"z-1": 3},
        provider_address="127.0.0.1:7791",
        free=(m.FreeRow("metal", "c5.large", "z-1", 1, 0),),
        serving=(m.ServingRow("metal", "c5.large", "z-1", -5, 2, 2),),
    ),
    missing=(
        m.Missing(
            requirements=WANTED.requirements,
            deficit={"cpu": 1_500, "nvidia.com/gpu": 8},
            priority=900,
            age_cycles=13,
            interruption_penalty_bucket=4,
            reclamation_penalty_bucket=5,
            min_unit={"cpu": 500},
            topology=True,
            quota=True,
            fingerprint="f00d",
        ),
    ),
    acks=(
        m.InstructAck(
            instruction="i-1", outcome=m.Outcome.ACCEPTED, reason="done", given=(HANDED,)
        ),
    ),
    address="10.0.0.7:7780",
    can_hand_over=True,
    term_seen=41,
    clusters=(ClusterId("web"),),
    takes_all=True,
    domains=(ZONE,),
    strays=(m.Stray(MachineId("m-2"), "metal", None, leaving=True),),
    providers=(m.ProviderLine("metal", "127.0.0.1:7791"),),
    quota=(m.QuotaLine(m.QuotaOf(m.QuotaKind.CLUSTER, "web"), -1, 2, 9),),
)


def instruction(sequence: int, payload: m.Payload | None) -> m.Instruction:
    return m.Instruction(term=42, sequence=sequence, id=f"i-{sequence}", payload=payload)


ANSWER = m.ReportAck(
    term=42,
    instructions=(
        instruction(1, m.AssignDomain(domain=ZONE, away=(MachineId("m-2"),))),
        instruction(2, m.UnassignDomain(domain=ZONE)),
        instruction(
            3,
            m.TransferOwnership(from_shard=ShardId("s-2"), to_shard=SHARD, machines=(HANDED,)),
        ),
        instruction(
            4,
            m.ReassignSpeculative(from_shard=SHARD, to_shard=ShardId("s-2"), wanted=WANTED),
        ),
        instruction(
            5,
            m.CrossShardDrain(to_shard=ShardId("s-2"), wanted=WANTED, preemptor_priority=900),
        ),
        instruction(6, None),
    ),
    grants=(m.Grant(m.QuotaOf(m.QuotaKind.PLACE, "metal", "eu"), 12, -1),),
    remarks=("cluster web is bound to s-2",),
)

RECORDED = dict(
    line.split(" ", 1)
    for line in (Path(__file__).parent / "coordinator_bytes.txt").read_text().splitlines()
    if line and not line.startswith("#")
)


def test_a_report_is_written_as_it_ever_was() -> None:
    recorded = bytes.fromhex(RECORDED["report"])

    assert pb.ShardReport.FromString(report_to_wire(REPORT)) == pb.ShardReport.FromString(recorded)
    assert report_from_wire(recorded) == REPORT


def test_an_answer_is_written_as_it_ever_was() -> None:
    recorded = bytes.fromhex(RECORDED["answer"])

    assert pb.ReportAck.FromString(answer_to_wire(ANSWER)) == pb.ReportAck.FromString(recorded)
    assert answer_from_wire(recorded) == ANSWER


def test_a_report_of_bigfleets_shard_is_one_that_cannot_hand_over() -> None:
    report = report_from_wire(bytes.fromhex(RECORDED["bigfleet_report"]))

    assert report == m.ShardReport(
        shard=ShardId("s-9"),
        number=2,
        at_ns=1_700_000_000_000_000_000,
        epoch=1,
        summary=m.Summary(total_machines=10, free_machines=4),
        missing=(m.Missing(deficit={"cpu": 4_000}, priority=10, age_cycles=6),),
        acks=(m.InstructAck(instruction="i-7", outcome=m.Outcome.FAILED, reason="no"),),
        address="s-9:7780",
    )


def test_machines_of_bigfleets_coordinator_have_only_their_ids() -> None:
    message = pb.ReportAck(coordinator_term=1, acknowledged=True)
    message.instructions.add(coordinator_term=1, instruction_id="i-1").transfer_ownership.CopyFrom(
        pb.TransferOwnership(machine_ids=["m-1"], from_shard_id="s-2", to_shard_id="s-1")
    )
    (only,) = answer_from_wire(message.SerializeToString()).instructions

    assert isinstance(only.payload, m.TransferOwnership)
    assert only.payload.machines == (m.Handed(MachineId("m-1"), "", None),)


def test_bigfleets_own_drain_is_none_that_we_know() -> None:
    message = pb.ReportAck()
    message.instructions.add().cross_shard_drain.machine_ids.append("m-1")

    assert answer_from_wire(message.SerializeToString()).instructions[0].payload is None


def test_an_answer_with_more_instructions_than_anybody_says_is_refused_unread() -> None:
    message = pb.ReportAck()
    for _ in range(1_000):
        message.instructions.add(instruction_id="i")
    assert len(answer_from_wire(message.SerializeToString()).instructions) == 1_000
    message.instructions.add(instruction_id="i")

    with pytest.raises(Rejected, match="1001 instructions: at most 1000"):
        answer_from_wire(message.SerializeToString())


def test_a_payload_that_nobody_knows_is_none() -> None:
    unknown = bytes([0x4A, 0])  # field 9, empty
    inner = b"\x1a\x03i-1" + unknown
    answer = answer_from_wire(b"\x1a" + bytes([len(inner)]) + inner)

    assert answer.instructions == (m.Instruction(term=0, sequence=0, id="i-1", payload=None),)


def test_an_outcome_that_nobody_knows_says_nothing() -> None:
    message = pb.ShardReport(shard_id="s-1")
    message.instruction_acks.add(instruction_id="i-1", outcome=99)

    (ack,) = report_from_wire(message.SerializeToString()).acks
    assert ack.outcome is m.Outcome.UNSPECIFIED


def test_a_report_above_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(Rejected, match=r"report too large: 2097153 bytes \(at most 2097152\)"):
        report_from_wire(b"\xff" * (REPORT_BYTES_MAX + 1))


def test_a_report_above_the_limit_is_not_sent() -> None:
    strays = tuple(m.Stray(MachineId("m" * 250), "p", ZONE, leaving=False) for _ in range(9_000))

    with pytest.raises(Rejected, match="report too large"):
        report_to_wire(m.ShardReport(shard=SHARD, strays=strays))


@pytest.mark.parametrize(("amount", "is_read"), [(2**60, True), (2**63, False)])
def test_what_a_whole_shard_misses_is_more_than_one_machine_has(amount: int, is_read: bool) -> None:
    report = m.ShardReport(shard=SHARD, missing=(m.Missing(deficit={"cpu": amount}),))
    data = report_to_wire(report)

    if is_read:
        assert report_from_wire(data) == report
    else:
        with pytest.raises(Rejected, match="quantity too large for resource 'cpu'"):
            report_from_wire(data)


def test_a_number_that_does_not_fit_is_refused_before_it_is_sent() -> None:
    with pytest.raises(Rejected, match="does not fit the wire"):
        report_to_wire(m.ShardReport(shard=SHARD, number=2**63))


def said(**fields: object) -> Callable[[], object]:
    message = pb.ShardReport(**{"shard_id": "s-1", **fields})  # type: ignore[arg-type]
    return lambda: report_from_wire(message.SerializeToString())


def told(**payload: object) -> Callable[[], object]:
    message = pb.ReportAck()
    message.instructions.append(pb.CoordinatorInstruction(**payload))  # type: ignore[arg-type]
    return lambda: answer_from_wire(message.SerializeToString())


def granted(**fields: object) -> Callable[[], object]:
    message = pb.ReportAck(grants=[our_pb.QuotaGrant(**fields)])  # type: ignore[arg-type]
    return lambda: answer_from_wire(message.SerializeToString())


WEB = our_pb.QuotaOf(kind=our_pb.QuotaOf.KIND_CLUSTER, name="web")
BROKEN: dict[str, tuple[Callable[[], object], str]] = {
    "no bytes of a report": (lambda: report_from_wire(b"\xff"), "not a ShardReport: 1 bytes"),
    "no bytes of an answer": (lambda: answer_from_wire(b"\xff"), "not a ReportAck: 1 bytes"),
    "no shard": (said(shard_id=""), "shard_id is no shard's id: ''"),
    "a shard with a space": (said(shard_id="s 1"), "shard_id is no shard's id: 's 1'"),
    "a negative epoch": (said(shard_epoch=-1), "shard_epoch out of range: -1"),
    "a negative number": (said(cycle=-1), "cycle out of range: -1"),
    "a cluster that is none": (said(clusters=["a b"]), "not a cluster id: 'a b'"),
    "half a domain": (said(domains=[our_pb.Domain(key="zone")]), "a domain needs a key and a val"),
    "a stray without id": (said(strays=[our_pb.Stray()]), "not a machine id: ''"),
    "negative counts": (
        said(summary=pb.ShardSummary(total_machines=-1)),
        "total_machines out of range: -1",
    ),
    "an amount that is none": (
        said(shortfalls=[pb.Shortfall(min_unit={"cpu": "much"})]),
        "not a quantity: 'much'",
    ),
    "a bucket off the ladder": (
        said(shortfalls=[pb.Shortfall(interruption_penalty_bucket=28)]),  # type: ignore[arg-type]
        "interruption_penalty_bucket of a shortfall out of range: 28",
    ),
    "an operator of the future": (
        said(shortfalls=[pb.Shortfall(requirements=[{"key": "zone", "operator": 77}])]),
        "unknown operator of the requirement on 'zone': 77",
    ),
    "a quota of nothing": (said(quota=[our_pb.QuotaLine()]), "unknown kind of quota: 0"),
    "a quota below none": (
        said(quota=[our_pb.QuotaLine(of=WEB, held=-2)]),
        "held quota of 'web' out of range: -2",
    ),
    "a grant below none": (granted(of=WEB, granted=-2), "granted quota of 'web' out of range: -2"),
    "a domain without a name": (
        told(assign_domain=pb.AssignDomain(topology_key="zone")),
        "a domain needs a key and a value: 'zone'=''",
    ),
    "machines that are none": (
        told(reassign_speculative=pb.ReassignSpeculative(machine_ids=["a b"])),
        "not a machine id: 'a b'",
    ),
    "two tales of machines": (
        told(
            transfer_ownership=pb.TransferOwnership(
                machine_ids=["m-1"], machines=[our_pb.HandedMachine(machine_id="m-2")]
            )
        ),
        "do not name the same: 1 ids, 1 machines",
    ),
    "a negative term": (told(coordinator_term=-1), "coordinator_term of an instruction out of"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_cannot_be_meant_is_refused_by_name(what: str) -> None:
    read, why = BROKEN[what]

    with pytest.raises(Rejected) as refused:
        read()
    assert why in refused.value.message
    assert "\n" not in refused.value.message
