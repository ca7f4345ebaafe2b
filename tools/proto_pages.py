"""The generated page about our own calls: services, messages, fields, numbers."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)
from grpc_tools import protoc

from page_parts import NOTICE, table

SOURCES = Path(__file__).resolve().parent.parent / "proto"
PACKAGE = "mainstay.v1"
INTRODUCTION = """# Calls of our own

Everything in `proto/mainstay/v1`, the package mainstay.v1: what people and tools ask of
shards, coordinators and providers over gRPC, and the messages that our fields in BigFleet's calls
carry. Who may make which call is on the page of [access](access.md), BigFleet's own calls are on
[the wire](wire.md). In proto3 what is not sent is empty, zero or false.

"""
MESSAGE, ENUM, SERVICE = 4, 5, 6  # fields of a file, by which comments are found
FIELD, NESTED, NESTED_ENUM, MEMBER = 2, 3, 4, 2  # and of what is in it

Place = tuple[int, ...]


def proto_page(sources: Path = SOURCES) -> str:
    """Calls first, then what they carry, by the names of the files."""
    found = [each for each in described(sources).file if each.package == PACKAGE]
    files = sorted(found, key=lambda each: each.name)
    services = [part for each in files for part in File(each).services()]
    messages = [part for each in files for part in File(each).messages()]
    return "".join((NOTICE, INTRODUCTION, *services, "## Messages\n\n", *messages)).rstrip() + "\n"


def described(sources: Path) -> FileDescriptorSet:
    """All files below it, with their comments."""
    names = sorted(path.relative_to(sources).as_posix() for path in sources.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "set"
        options = [f"-I{sources}", "--include_source_info", f"--descriptor_set_out={out}"]
        if protoc.main(["protoc", *options, *names]) != 0:
            raise SystemExit("protoc refused proto/: see above")
        return FileDescriptorSet.FromString(out.read_bytes())


class File:
    """One source file, with its comments by where they stand."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self.file = file
        self.said = {
            tuple(each.path): " ".join(each.leading_comments.split())
            for each in file.source_code_info.location
        }

    def services(self) -> Iterator[str]:
        """Each with its calls."""
        for at, service in enumerate(self.file.service):
            rows = [
                (f"`{call.name}`", *self._ends(call), self._cell((SERVICE, at, FIELD, n)))
                for n, call in enumerate(service.method)
            ]
            yield f"## {service.name}\n\n{self._lines((SERVICE, at))}"
            yield table(("call", "asks", "is answered", "meaning"), rows) + "\n"

    def messages(self) -> Iterator[str]:
        """Each with its fields, and those within it."""
        for at, message in enumerate(self.file.message_type):
            yield from self._message(message, (MESSAGE, at), message.name)
        for at, enum in enumerate(self.file.enum_type):
            yield self._enum(enum, (ENUM, at), enum.name)

    def _message(self, message: DescriptorProto, path: Place, name: str) -> Iterator[str]:
        maps = {each.name: each for each in message.nested_type if each.options.map_entry}
        rows = [
            (
                field.number,
                f"`{field.name}`",
                kind(field, maps),
                self._field(message, field, path, n),
            )
            for n, field in enumerate(message.field)
        ]
        header = ("number", "field", "type", "meaning")
        yield self._head(name, path) + (table(header, rows) if rows else "It is empty.\n") + "\n"
        for at, nested in enumerate(message.nested_type):
            if nested.name not in maps:
                yield from self._message(nested, (*path, NESTED, at), f"{name}.{nested.name}")
        for at, enum in enumerate(message.enum_type):
            yield self._enum(enum, (*path, NESTED_ENUM, at), f"{name}.{enum.name}")

    def _field(
        self, message: DescriptorProto, field: FieldDescriptorProto, path: Place, place: int
    ) -> str:
        said = self._cell((*path, FIELD, place))
        if not field.HasField("oneof_index") or field.proto3_optional:
            return said
        return f"one of `{message.oneof_decl[field.oneof_index].name}`. {said}".rstrip()

    def _enum(self, enum: EnumDescriptorProto, path: Place, name: str) -> str:
        rows = [
            (value.number, f"`{value.name}`", self._cell((*path, MEMBER, n)))
            for n, value in enumerate(enum.value)
        ]
        return self._head(name, path) + table(("number", "value", "meaning"), rows) + "\n"

    def _head(self, name: str, path: Place) -> str:
        return f"({anchor(f'{PACKAGE}.{name}')})=\n### {name}\n\n{self._lines(path)}"

    def _lines(self, path: Place) -> str:
        said = self.said.get(path, "")
        return f"{said}\n\n" if said else ""

    def _cell(self, path: Place) -> str:
        return self.said.get(path, "").replace("|", "\\|")

    @staticmethod
    def _ends(call: MethodDescriptorProto) -> Sequence[str]:
        asks, answers = linked(call.input_type), linked(call.output_type)
        return (
            f"a stream of {asks}" if call.client_streaming else asks,
            f"a stream of {answers}" if call.server_streaming else answers,
        )


def kind(field: FieldDescriptorProto, maps: dict[str, DescriptorProto]) -> str:
    """What it holds, in words."""
    entry = maps.get(field.type_name.rpartition(".")[2])
    if entry is not None:
        key, value = (kind(each, {}) for each in entry.field)
        return f"{key} to {value}"
    plain = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    held = linked(field.type_name) if field.type_name else plain
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {held}"
    return f"optional {held}" if field.proto3_optional else held


def linked(full_name: str) -> str:
    """A message of ours leads to where it is told; another is named."""
    name = full_name.lstrip(".")
    ours = name.startswith(f"{PACKAGE}.")
    return f"[{name.removeprefix(f'{PACKAGE}.')}](#{anchor(name)})" if ours else f"`{name}`"


def anchor(name: str) -> str:
    """Where a message is told."""
    return name.lower().replace(".", "-")
