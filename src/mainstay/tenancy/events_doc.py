"""The AsyncAPI document of our events, made from their types."""

import inspect
import json
from typing import Any, Final

from pydantic import TypeAdapter

from mainstay.tenancy.event_types import PAYLOADS
from mainstay.tenancy.outbox import SUBJECT_PREFIX, VERSION
from mainstay.tenancy.states import EventType
from mainstay.tenancy.subscribers import SUBSCRIBERS

ASYNCAPI: Final = "3.0.0"
_SCHEMAS: Final = "#/components/schemas/"


def document() -> dict[str, Any]:
    """The whole document: a channel and a message per type, an operation per consumer of it."""
    schemas: dict[str, Any] = {}
    for kind in EventType:
        schemas |= _schemas(kind)
    return {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": "Mainstay events",
            "version": VERSION,
            "description": "Delivered at least once, in the order of their key; the event_id "
            "tells a repetition. Ignore facts you do not know.",
        },
        "defaultContentType": "application/json",
        "channels": {kind.value: _channel(kind) for kind in EventType},
        "operations": _operations(),
        "components": {
            "messages": {kind.value: _message(kind) for kind in EventType},
            "schemas": schemas,
        },
    }


def text() -> str:
    """The document as it is kept in the docs."""
    return json.dumps(document(), indent=2, sort_keys=True) + "\n"


def payload_type(kind: EventType) -> TypeAdapter[Any]:
    """What checks a payload of this type."""
    return TypeAdapter(PAYLOADS[kind])


def _channel(kind: EventType) -> dict[str, Any]:
    return {
        "address": SUBJECT_PREFIX + kind,
        "messages": {kind.value: {"$ref": f"#/components/messages/{_escaped(kind)}"}},
    }


def _operations() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in EventType:
        channel = f"#/channels/{_escaped(kind)}"
        about = {
            "channel": {"$ref": channel},
            "messages": [{"$ref": f"{channel}/messages/{_escaped(kind)}"}],
        }
        found[f"relay.{kind}"] = {"action": "send", **about}
        for consumer in sorted(SUBSCRIBERS[kind]):
            found[f"{consumer}.{kind}"] = {"action": "receive", **about}
    return found


def _message(kind: EventType) -> dict[str, Any]:
    return {
        "name": kind.value,
        "summary": inspect.getdoc(PAYLOADS[kind]),
        "contentType": "application/json",
        "payload": {
            "type": "object",
            "required": [
                "event_id", "event_type", "version", "occurred_at", "correlation_id", "payload",
            ],
            "properties": {
                "event_id": {"type": "string", "description": "The same in every repetition."},
                "event_type": {"const": kind.value},
                "version": {"const": VERSION},
                "occurred_at": {"type": "string", "format": "date-time"},
                "correlation_id": {"type": "string"},
                "payload": {"$ref": _SCHEMAS + PAYLOADS[kind].__name__},
            },
        },
    }  # fmt: skip


def _schemas(kind: EventType) -> dict[str, Any]:
    made = payload_type(kind).json_schema(ref_template=_SCHEMAS + "{model}")
    inner: dict[str, Any] = made.pop("$defs", {})
    return {**inner, PAYLOADS[kind].__name__: made}


def _escaped(kind: EventType) -> str:
    """For a JSON pointer, in which our names need no escape."""
    return kind.value
