"""The frames of a session: what goes over the wire, what a peer sees, what is ignored."""

import math

import pytest

from builders import a_need, a_need_profile
from mainstay.model.errors import InvalidRollup, Rejected
from mainstay.model.frames import (
    Acknowledged,
    BootstrapAnswer,
    BootstrapAsked,
    CapacityHint,
    ClusterFrame,
    Drain,
    Hello,
    HintConfidence,
    NodeState,
    ReclaimAck,
    ReclaimTold,
    ShardFrame,
)
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.need import Operator, Requirement
from mainstay.model.resources import Resources
from mainstay.model.rollup import accept
from mainstay.model.state import State
from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as capacity_pb
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as provider_pb
from mainstay.wire.pb.bigfleet.v1alpha1 import shard_pb2 as pb
from mainstay.wire.session_frames import (
    Kind,
    cluster_frame_from_wire,
    cluster_frame_to_wire,
    kind_of,
    rollup_frame,
    rollup_of,
    shard_frame_from_wire,
    shard_frame_to_wire,
)

WEB = ClusterId("web")
REQUIREMENTS = (
    Requirement("arch", Operator.IN, ("amd64", "arm64")),
    Requirement("rack", Operator.SAME),
)

OF_A_CLUSTER: list[ClusterFrame] = [
    Hello("web", "v1alpha1"),
    BootstrapAnswer("r-1", b"\x00\xff", ttl_s=60),
    BootstrapAnswer("r-2", error="no template: é"),
    ReclaimAck("i-1", 3),
]

OF_A_SHARD: list[ShardFrame] = [
    Acknowledged("hello", coordinator_term=3, shard_epoch=2**40),
    BootstrapAsked("r-1", WEB, REQUIREMENTS),
    ReclaimTold("i-1", ("m-1", "m-2"), 600, -5),
    NodeState(
        machine=MachineId("m-1"),
        cluster=WEB,
        state=State.CONFIGURED,
        provider_id="metal://h",
        labels={"rack": "7"},
        allocatable=Resources({"cpu": "7500m", "memory": "30Gi"}),
    ),
    NodeState(machine=MachineId("m-2"), cluster=WEB, state=State.FAILED, last_error="disk"),
    CapacityHint(
        fingerprint="f" * 32,
        requirements=REQUIREMENTS,
        count=12,
        confidence=HintConfidence.MEDIUM,
        cost_per_hour=0.25,
    ),
    NodeState(machine=MachineId("m-3"), cluster=WEB, state=State.DRAINING, drain=Drain(7.5)),
    NodeState(machine=MachineId("m-4"), cluster=WEB, state=State.DRAINING, drain=Drain(0.0, 0)),
]


@pytest.mark.parametrize("frame", OF_A_CLUSTER, ids=str)
def test_what_a_cluster_says_arrives(frame: ClusterFrame) -> None:
    assert cluster_frame_from_wire(cluster_frame_to_wire(frame)) == frame


@pytest.mark.parametrize("frame", OF_A_SHARD, ids=str)
def test_what_a_shard_says_arrives(frame: ShardFrame) -> None:
    assert shard_frame_from_wire(shard_frame_to_wire(frame)) == frame


def test_a_rollup_arrives_as_it_was_set() -> None:
    needs = (
        a_need(profile=a_need_profile(requirements=REQUIREMENTS, priority=7), group="g"),
        a_need(aggregate={"cpu": 1500, "memory": 2**20}, min_unit={}),
    )

    rollup = rollup_of(rollup_frame(WEB, needs, timestamp_nanos=5))

    assert (rollup.cluster, rollup.timestamp_nanos) == ("web", 5)
    told = accept(WEB, rollup.rows, arrival_nanos=0)
    assert told == needs


class TestKinds:
    """A frame is routed by its first byte."""

    @pytest.mark.parametrize("frame", OF_A_CLUSTER, ids=str)
    def test_what_is_short_is_read_where_it_is_received(self, frame: ClusterFrame) -> None:
        assert kind_of(cluster_frame_to_wire(frame)) is Kind.TALK

    def test_a_rollup_is_recognised_without_being_parsed(self) -> None:
        whole = rollup_frame(WEB, [a_need()], timestamp_nanos=1)

        assert kind_of(whole) is Kind.ROLLUP
        assert kind_of(whole[:1] + b"\xff\xff these bytes are no message") is Kind.ROLLUP

    @pytest.mark.parametrize("data", [b"", b"\x2a\x00", b"\xc2\x3e\x00", b"\x00", b"\x08\x01"])
    def test_anything_else_is_unknown(self, data: bytes) -> None:
        assert kind_of(data) is Kind.UNKNOWN


class TestUnreadable:
    def test_a_torn_rollup_is_refused(self) -> None:
        whole = rollup_frame(WEB, [a_need()], timestamp_nanos=1)

        with pytest.raises(InvalidRollup, match="bytes that cannot be read"):
            rollup_of(whole[:-3])

    @pytest.mark.parametrize("data", [b"\x0a\xff", b"", b"\x2a\x00"])
    def test_what_is_no_frame_of_a_cluster_is_none(self, data: bytes) -> None:
        assert cluster_frame_from_wire(data) is None

    def test_a_rollup_is_no_talk(self) -> None:
        assert cluster_frame_from_wire(rollup_frame(WEB, [], timestamp_nanos=1)) is None

    @pytest.mark.parametrize("data", [b"\x0a\xff", b"", b"\x32\x00"])
    def test_what_is_no_frame_of_a_shard_is_none(self, data: bytes) -> None:
        assert shard_frame_from_wire(data) is None

    def test_a_number_that_does_not_fit_is_refused(self) -> None:
        with pytest.raises(Rejected, match="does not fit the wire"):
            cluster_frame_to_wire(ReclaimAck("i", 2**31))


def shard_message(frame: ShardFrame) -> pb.ShardMessage:
    return pb.ShardMessage.FromString(shard_frame_to_wire(frame))


class TestForAPeer:
    """What an operator of BigFleet needs from us."""

    def test_a_node_state_names_its_machine_its_key_and_what_it_provides(self) -> None:
        update = shard_message(OF_A_SHARD[3]).node_state_update

        assert (update.supersedes_key, update.machine_id) == ("node:m-1", "m-1")
        assert update.state == provider_pb.MACHINE_STATE_CONFIGURED
        assert dict(update.resources.resources) == {"cpu": "7500m", "memory": "30Gi"}
        assert (update.node_name, len(update.taints)) == ("", 0)

    def test_a_hint_has_a_key_and_no_resources(self) -> None:
        update = shard_message(OF_A_SHARD[5]).available_capacity

        assert update.supersedes_key == "available:" + "f" * 32
        assert not update.HasField("resources")
        assert update.confidence == pb.AvailableCapacityUpdate.CONFIDENCE_MEDIUM

    def test_a_count_too_large_for_the_wire_is_the_largest_there_is(self) -> None:
        hint = CapacityHint(
            fingerprint="f", requirements=(), count=2**40,
            confidence=HintConfidence.HIGH, cost_per_hour=0.0,
        )  # fmt: skip

        assert shard_message(hint).available_capacity.available_count == 2**31 - 1


class TestFromAPeer:
    """What a cluster of ours makes of a shard that is not."""

    @pytest.mark.parametrize(
        "update",
        [
            pb.NodeStateUpdate(machine_id="", state=provider_pb.MACHINE_STATE_IDLE),
            pb.NodeStateUpdate(machine_id="m-1"),
            pb.NodeStateUpdate(machine_id="m-1", state=99),  # type: ignore[arg-type]
        ],
        ids=["no machine", "no state", "unknown state"],
    )
    def test_a_state_of_nothing_is_ignored(self, update: pb.NodeStateUpdate) -> None:
        data = pb.ShardMessage(node_state_update=update).SerializeToString()

        assert shard_frame_from_wire(data) is None

    def test_a_hint_without_a_key_is_ignored(self) -> None:
        update = pb.AvailableCapacityUpdate(available_count=3)
        data = pb.ShardMessage(available_capacity=update).SerializeToString()

        assert shard_frame_from_wire(data) is None

    def test_one_bad_amount_spoils_no_other(self) -> None:
        update = pb.NodeStateUpdate(machine_id="m-1", state=provider_pb.MACHINE_STATE_IDLE)
        update.resources.resources.update({"cpu": "4", "memory": "lots"})
        frame = shard_frame_from_wire(pb.ShardMessage(node_state_update=update).SerializeToString())

        assert isinstance(frame, NodeState)
        assert frame.allocatable == Resources({"cpu": "4"})

    @pytest.mark.parametrize("left_s", [-1.0, math.inf, math.nan])
    def test_a_grace_that_is_no_length_of_time_says_nothing_of_a_drain(self, left_s: float) -> None:
        update = pb.NodeStateUpdate(
            machine_id="m-1",
            state=provider_pb.MACHINE_STATE_DRAINING,
            drain_grace_left_seconds=left_s,
        )
        frame = shard_frame_from_wire(pb.ShardMessage(node_state_update=update).SerializeToString())

        assert isinstance(frame, NodeState)
        assert frame.drain is None

    def test_an_operator_and_a_confidence_that_we_do_not_know_admit_nothing(self) -> None:
        strange = capacity_pb.NodeSelectorRequirement(key="k", operator=77)  # type: ignore[arg-type]
        update = pb.AvailableCapacityUpdate(
            supersedes_key="available:f", requirements=[strange], confidence=9  # type: ignore[arg-type]
        )  # fmt: skip
        data = pb.ShardMessage(available_capacity=update).SerializeToString()
        frame = shard_frame_from_wire(data)

        assert isinstance(frame, CapacityHint)
        assert frame.requirements == (Requirement("k", Operator.UNSPECIFIED),)
        assert frame.confidence is HintConfidence.NONE
