"""bigfleet.v1alpha1 is what its peers speak: every name, number and type, held by hand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from mainstay.wire.pb.bigfleet.v1alpha1 import (
    capacity_pb2,
    coordinator_pb2,
    provider_pb2,
    shard_pb2,
    shardread_pb2,
)
from mainstay.wire.pb.mainstay.v1 import coordinator_pb2 as our_coordinator_pb2
from mainstay.wire.pb.mainstay.v1 import handover_pb2
from mainstay.wire.pb.mainstay.v1 import provider_pb2 as our_provider_pb2
from mainstay.wire.pb.mainstay.v1 import shard_pb2 as our_shard_pb2

OURS_FROM: Final = 1000
PACKAGE: Final = "bigfleet.v1alpha1"
MODULES: Final = (capacity_pb2, coordinator_pb2, provider_pb2, shard_pb2, shardread_pb2)
PINS: Final = (Path(__file__).parent / "pins.txt").read_text()
SHARD_PINS: Final = (Path(__file__).parent / "shard_pins.txt").read_text()
COORDINATOR_PINS: Final = (Path(__file__).parent / "coordinator_pins.txt").read_text()

OURS: Final = {
    "enum NodeSelectorRequirement.Operator: 1000 OPERATOR_GT",
    "enum NodeSelectorRequirement.Operator: 1001 OPERATOR_LT",
    "message CreateRequest: 1000 attribution map<string,string>",
    "message DrainRequest: 1000 attribution map<string,string>",
    "message Machine: 1000 interruption_notice mainstay.v1.InterruptionNotice",
    "message Machine: 1001 attribution map<string,string>",
    "message MachineList: 1000 deleted_ids repeated string",
    "message MachineList: 1001 more bool",
    "message MachineList: 1002 incremental bool",
    "message MachineList: 1003 capabilities mainstay.v1.ProviderCapabilities",
    "message ShardReport: 1000 can_hand_over bool",
    "message ShardReport: 1001 term_seen int64",
    "message ShardReport: 1002 clusters repeated string",
    "message ShardReport: 1003 takes_all bool",
    "message ShardReport: 1004 domains repeated mainstay.v1.Domain",
    "message ShardReport: 1005 strays repeated mainstay.v1.Stray",
    "message ShardReport: 1006 providers repeated mainstay.v1.KnownProvider",
    "message ShardReport: 1007 quota repeated mainstay.v1.QuotaLine",
    "message ShardReport: 1008 away repeated mainstay.v1.HandedMachine",
    "message ShardSummary: 1000 free repeated mainstay.v1.FreeMachines",
    "message ShardSummary: 1001 serving repeated mainstay.v1.ServingMachines",
    "message Shortfall: 1000 min_unit map<string,string>",
    "message Shortfall: 1001 topology bool",
    "message Shortfall: 1002 quota bool",
    "message Shortfall: 1003 fingerprint string",
    "message Shortfall: 1004 reclamation_penalty_bucket PenaltyBucket",
    "message ReportAck: 1000 grants repeated mainstay.v1.QuotaGrant",
    "message ReportAck: 1001 remarks repeated string",
    "message BootstrapRequest: 1000 machine_id string",
    "message NodeStateUpdate: 1000 price_per_hour double optional",
    "message NodeStateUpdate: 1001 reclamation_penalty_dollars double",
    "message NodeStateUpdate: 1002 drain_grace_left_seconds double optional",
    "message NodeStateUpdate: 1003 drain_preemptor_priority int32 optional",
    "message AssignDomain: 1000 away repeated string",
    "message ReassignSpeculative: 1000 from_shard_id string",
    "message ReassignSpeculative: 1001 to_shard_id string",
    "message ReassignSpeculative: 1002 machines repeated mainstay.v1.HandedMachine",
    "message ReassignSpeculative: 1003 wanted mainstay.v1.WantedMachines",
    "message CrossShardDrain: 1000 to_shard_id string",
    "message CrossShardDrain: 1001 wanted mainstay.v1.WantedMachines",
    "message TransferOwnership: 1000 machines repeated mainstay.v1.HandedMachine",
    "message TransferOwnership: 1001 wanted mainstay.v1.WantedMachines",
    "message InstructAck: 1000 given repeated mainstay.v1.HandedMachine",
    "message InstructAck: 1001 quota repeated mainstay.v1.QuotaMoved",
    "message RemoveShardRequest: 1000 force bool",
}

OUR_MESSAGES: Final = {
    "message ChargeMark",
    "message ChargeMark: 1 machine_id string",
    "message ChargeMark: 2 at_unix_nanos int64",
    "message ChargeMark: 3 price_per_hour double optional",
    "message ChargesAnswer",
    "message ChargesAnswer: 1 marks repeated mainstay.v1.ChargeMark",
    "message ChargesAnswer: 2 cursor bytes",
    "message ChargesAnswer: 3 more bool",
    "message ChargesAnswer: 4 begins bool",
    "message ChargesQuery",
    "message ChargesQuery: 1 since bytes",
    "service ProviderMeter",
    "service ProviderMeter: Charges .mainstay.v1.ChargesQuery .mainstay.v1.ChargesAnswer",
    "message InterruptionNotice",
    "message InterruptionNotice: 1 deadline_unix_nanos int64",
    "message InterruptionNotice: 2 reason string",
    "message ListEnvelope",
    "message ListEnvelope: 2 revision bytes",
    "message ListEnvelope: 1000 deleted_ids repeated string",
    "message ListEnvelope: 1001 more bool",
    "message ListEnvelope: 1002 incremental bool",
    "message ListEnvelope: 1003 capabilities mainstay.v1.ProviderCapabilities",
    "message ProviderCapabilities",
    "message ProviderCapabilities: 1 deletable repeated CapacityType",
    "message ProviderCapabilities: 2 incremental bool",
    "message ProviderCapabilities: 3 tombstones bool",
    "message ProviderCapabilities: 4 paging bool",
    "message ProviderCapabilities: 5 interruption_notices bool",
    "message ProviderCapabilities: 6 attribution bool",
    "message ProviderCapabilities: 7 drain_attribution bool",
}


def file_of(module: object) -> FileDescriptorProto:
    proto = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(proto)  # type: ignore[attr-defined]
    return proto


def spoken(file: FileDescriptorProto) -> Iterator[str]:
    """Every message, enum and service of a file, one fact a line."""
    for message in file.message_type:
        yield from message_lines(message, message.name)
    for enum in file.enum_type:
        yield from enum_lines(enum, enum.name)
    for service in file.service:
        yield from service_lines(service)


def message_lines(message: DescriptorProto, name: str) -> Iterator[str]:
    entries = {entry.name: entry for entry in message.nested_type if entry.options.map_entry}
    yield f"message {name}"
    for field in message.field:
        yield f"message {name}: {field_line(field, message, entries)}"
    for gap in message.reserved_range:
        for number in range(gap.start, gap.end):
            yield f"message {name}: {number} reserved"
    for enum in message.enum_type:
        yield from enum_lines(enum, f"{name}.{enum.name}")
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from message_lines(nested, f"{name}.{nested.name}")


def field_line(
    field: FieldDescriptorProto, message: DescriptorProto, entries: dict[str, DescriptorProto]
) -> str:
    kind = type_name(field)
    repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    if (entry := entries.get(field.type_name.rpartition(".")[2])) is not None:
        kind = f"map<{type_name(entry.field[0])},{type_name(entry.field[1])}>"
    elif repeated:
        kind = f"repeated {kind}"
    line = f"{field.number} {field.name} {kind}"
    if field.proto3_optional:
        return f"{line} optional"
    if field.HasField("oneof_index"):
        return f"{line} oneof {message.oneof_decl[field.oneof_index].name}"
    return line


def type_name(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return field.type_name.removeprefix(f".{PACKAGE}.").removeprefix(".")
    kinds = descriptor_pb2.FieldDescriptorProto.Type
    return kinds.Name(field.type).removeprefix("TYPE_").lower()


def enum_lines(enum: EnumDescriptorProto, name: str) -> Iterator[str]:
    yield f"enum {name}"
    for value in enum.value:
        yield f"enum {name}: {value.number} {value.name}"


def service_lines(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name}"
    for method in service.method:
        asked = method.input_type.removeprefix(f".{PACKAGE}.")
        answered = method.output_type.removeprefix(f".{PACKAGE}.")
        asked = f"stream {asked}" if method.client_streaming else asked
        answered = f"stream {answered}" if method.server_streaming else answered
        yield f"service {service.name}: {method.name} {asked} {answered}"


def pinned(text: str) -> list[str]:
    """The table of pins in the form of `spoken`."""
    lines, heading = [], ""
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("  "):
            lines.append(f"{heading}: {line.strip()}")
        else:
            heading = line.strip()
            lines.append(heading)
    return lines


def number_of(line: str) -> int | None:
    """The number of a field or an enum's value; None for a heading or a method."""
    word = line.partition(": ")[2].partition(" ")[0]
    return int(word) if word.isdigit() else None


SPOKEN: Final = [line for module in MODULES for line in spoken(file_of(module))]


def test_every_name_number_and_type_of_the_peers_package_is_as_published() -> None:
    theirs = [line for line in SPOKEN if (number_of(line) or 0) < OURS_FROM]

    assert len(theirs) > 300
    assert sorted(theirs) == sorted(pinned(PINS))


def test_all_that_we_add_to_it_is_numbered_from_1000_up() -> None:
    added = set(SPOKEN) - set(pinned(PINS))

    assert added == OURS
    assert [line for line in added if (number_of(line) or 0) < OURS_FROM] == []


def test_no_service_of_theirs_has_a_method_of_ours() -> None:
    methods = {line for line in SPOKEN if line.startswith("service ")}

    assert methods == {line for line in pinned(PINS) if line.startswith("service ")}


def test_our_own_package_is_pinned_too() -> None:
    assert set(spoken(file_of(our_provider_pb2))) == OUR_MESSAGES


def test_the_services_of_a_shard_are_pinned_too() -> None:
    ours = [line.replace("mainstay.v1.", "") for line in spoken(file_of(our_shard_pb2))]

    assert len(ours) > 200
    assert sorted(ours) == sorted(pinned(SHARD_PINS))


def test_the_services_of_a_coordinator_are_pinned_too() -> None:
    spoken_here = [*spoken(file_of(our_coordinator_pb2)), *spoken(file_of(handover_pb2))]
    ours = [line.replace("mainstay.v1.", "") for line in spoken_here]

    assert len(ours) > 200
    assert sorted(ours) == sorted(pinned(COORDINATOR_PINS))


@pytest.mark.parametrize("module", MODULES)
def test_each_file_speaks_proto3_in_the_peers_package(module: object) -> None:
    file = file_of(module)

    assert (file.package, file.syntax) == (PACKAGE, "proto3")


class TestReading:
    def test_a_table_is_read_line_by_line(self) -> None:
        text = "# said\n\nmessage A\n  1 b string\n\nenum E\n  0 E_NONE\n"

        assert pinned(text) == ["message A", "message A: 1 b string", "enum E", "enum E: 0 E_NONE"]

    def test_a_changed_number_type_or_label_is_seen(self) -> None:
        file = file_of(provider_pb2)
        before = set(spoken(file))

        machine = next(message for message in file.message_type if message.name == "Machine")
        machine.field[0].number = 99
        machine.field[4].type = FieldDescriptorProto.TYPE_BYTES
        machine.field[13].ClearField("type_name")

        after = set(spoken(file))
        assert "message Machine: 99 id string" in after - before
        assert "message Machine: 5 zone bytes" in after - before
        assert "message Machine: 15 shard_metadata map<string,string>" in before - after
