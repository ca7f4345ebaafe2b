"""The public document of our events says what is sent, where, and to whom."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

import outside
from mainstay.tenancy import events_doc
from mainstay.tenancy.bus import Envelope
from mainstay.tenancy.event_types import PAYLOADS
from mainstay.tenancy.states import EventType
from mainstay.tenancy.subscribers import SUBSCRIBERS, subjects_of

DOCUMENT = events_doc.document()
PAGE = outside.ROOT / "docs/reference/events.asyncapi.json"


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "$ref":
                yield value
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def resolved(reference: str) -> Any:
    found: Any = DOCUMENT
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    return found


def test_the_page_in_the_docs_is_the_document() -> None:
    assert PAGE.read_text() == events_doc.text()


def test_every_type_has_a_channel_under_its_subject() -> None:
    addresses = {channel["address"] for channel in DOCUMENT["channels"].values()}

    assert addresses == {f"mainstay.{kind}" for kind in EventType}


def test_every_reference_leads_somewhere() -> None:
    found = list(references(DOCUMENT))

    assert len(found) > 3 * len(EventType)
    assert all(resolved(reference) for reference in found)


def test_who_is_told_is_who_is_in_the_table() -> None:
    received = {name for name, one in DOCUMENT["operations"].items() if one["action"] == "receive"}

    assert received == {f"{who}.{kind}" for kind, names in SUBSCRIBERS.items() for who in names}


@pytest.mark.parametrize("kind", EventType)
def test_every_type_has_consumers_and_a_payload(kind: EventType) -> None:
    assert SUBSCRIBERS[kind]
    assert kind in PAYLOADS
    assert all(kind in subjects_of(name) for name in SUBSCRIBERS[kind])


def test_the_message_described_is_the_message_sent() -> None:
    described = DOCUMENT["components"]["messages"]["provisioning.active"]["payload"]
    sent = Envelope(
        event_id="evt_1",
        event_type=EventType.ACTIVE,
        key="alc_1",
        occurred_at=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        version="1.0",
        correlation_id="cor_1",
        payload={"a": 1},
    ).encoded()

    assert sent == (
        b'{"event_id":"evt_1","event_type":"provisioning.active","version":"1.0",'
        b'"occurred_at":"2026-01-02T03:04:05.000006Z","correlation_id":"cor_1","payload":{"a":1}}'
    )
    assert set(described["properties"]) == set(described["required"])
    assert all(f'"{name}":'.encode() in sent for name in described["required"])


def test_a_payload_that_lacks_a_fact_is_refused_and_one_with_more_facts_is_not() -> None:
    whole = {
        "allocation_id": "alc_1", "project_id": "prj_1", "account_id": "acc_1", "sku": "s",
        "gpus": 1, "capacity_shape": "gpu_slice", "node_id": "node-a", "slots": [0],
        "ssh_key_ids": [], "image": None, "at": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    checked = events_doc.payload_type(EventType.REQUESTED)

    assert checked.validate_python({**whole, "new_fact": 1})
    with pytest.raises(ValidationError):
        checked.validate_python({name: whole[name] for name in whole if name != "gpus"})
