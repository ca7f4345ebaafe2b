"""What a roll-up must not be read as."""

import pytest

from mainstay.model.errors import InvalidRollup
from mainstay.wire.needs import rollup_from_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as pb


def rollup_with(*rows: bytes) -> pb.ClusterCapacityNeeds:
    message = pb.ClusterCapacityNeeds(cluster_id="web")
    for row in rows:
        message.needs.append(pb.CapacityNeed.FromString(row))
    return message


PLAIN = pb.CapacityNeed(priority=7).SerializeToString()
COUNTED = PLAIN + bytes([4 << 3, 3])
NEWER = PLAIN + bytes([0x80 | (2000 << 3 & 0x7F), 2000 << 3 >> 7, 1])


def test_a_row_with_a_count_of_replicas_refuses_the_rollup_and_is_named() -> None:
    """Its resources are per replica; as a total they would be too few."""
    with pytest.raises(InvalidRollup, match=r"'web' refused.*first is row 1") as caught:
        rollup_from_wire(rollup_with(PLAIN, COUNTED, PLAIN, COUNTED))

    assert [bad.position for bad in caught.value.bad] == [1, 3]


def test_a_field_that_we_do_not_know_is_no_reason_to_refuse() -> None:
    rollup = rollup_from_wire(rollup_with(NEWER))

    assert [row.priority for row in rollup.rows] == [7]
