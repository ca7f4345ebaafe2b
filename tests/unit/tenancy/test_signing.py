"""What is signed, how it is spelled, and who is believed."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.model.errors import Rejected
from mainstay.tenancy.signing import SIGNED_FIELDS, BadSignature, Signer, canonical, verify
from outside import examples

DOCUMENT: dict[str, Any] = {
    "task_id": "tsk_1",
    "node_id": "node-a",
    "task_type": "slice.vm_provision",
    "params": {"slots": [{"pci_address": "0000:01:00.0"}], "gpus": 1},
    "issued_at": "2026-01-01T00:00:00.000000Z",
    "expires_at": "2026-01-01T00:20:00.000000Z",
}
CHANGED: dict[str, Any] = {
    "task_id": "tsk_2",
    "node_id": "node-b",
    "task_type": "slice.vm_release",
    "params": {"slots": [], "gpus": 1},
    "issued_at": "2026-01-01T00:00:01.000000Z",
    "expires_at": "2026-01-02T00:00:00.000000Z",
    "signer_version_id": "sig_2",
}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    return Signer(tmp_path / "keys")


def signed(signer: Signer, version: str = "sig_1") -> tuple[dict[str, Any], dict[str, str]]:
    """An envelope, and the keys that are believed."""
    keys = {version: signer.create(version)}
    found = signer.sign_as(version, DOCUMENT)
    return {**DOCUMENT, "signer_version_id": version, "signature": found.signature}, keys


class TestSpelling:
    def test_keys_are_sorted_and_nothing_is_put_between(self) -> None:
        assert canonical({"b": [1, None, True], "a": "ü"}) == '{"a":"ü","b":[1,null,true]}'.encode()

    @given(values)
    @settings(max_examples=examples(50))
    def test_what_is_read_back_is_spelled_the_same(self, value: object) -> None:

        assert canonical(json.loads(canonical(value))) == canonical(value)

    @pytest.mark.parametrize(
        "value", [1.0, float("nan"), {"a": [0.5]}, {1: "a"}, b"x", {"a": {"b"}}, "\ud800"], ids=repr
    )
    def test_what_has_several_spellings_or_none_is_refused(self, value: object) -> None:
        with pytest.raises(Rejected):
            canonical(value)


class TestSignatures:
    def test_what_was_signed_is_believed(self, signer: Signer) -> None:
        envelope, keys = signed(signer)

        verify(envelope, keys)
        verify({**envelope, "attempt": 7}, keys)  # tells the agent nothing to do

    def test_the_changes_below_cover_every_signed_field(self) -> None:
        assert CHANGED.keys() == set(SIGNED_FIELDS)

    @pytest.mark.parametrize("field", SIGNED_FIELDS)
    def test_a_change_of_any_signed_field_is_seen(self, signer: Signer, field: str) -> None:
        envelope, keys = signed(signer)
        keys["sig_2"] = keys["sig_1"]

        with pytest.raises(BadSignature):
            verify({**envelope, field: CHANGED[field]}, keys)

    @pytest.mark.parametrize("field", [*SIGNED_FIELDS, "signature"])
    def test_a_task_without_one_of_its_fields_is_not_believed(
        self, signer: Signer, field: str
    ) -> None:
        envelope, keys = signed(signer)
        del envelope[field]

        with pytest.raises(BadSignature):
            verify(envelope, keys)

    @pytest.mark.parametrize(
        "signature", ["", "?", "AAAA", base64.b64encode(bytes(64)).decode(), None]
    )
    def test_what_is_no_signature_is_not_believed(self, signer: Signer, signature: object) -> None:
        envelope, keys = signed(signer)

        with pytest.raises(BadSignature):
            verify({**envelope, "signature": signature}, keys)

    def test_a_key_nobody_published_is_not_believed(self, signer: Signer, tmp_path: Path) -> None:
        envelope, _ = signed(signer)
        other = Signer(tmp_path / "other").create("sig_1")

        for keys in ({}, {"sig_1": other}, {"sig_1": "no key"}):
            with pytest.raises(BadSignature):
                verify(envelope, keys)

    def test_a_key_is_kept_and_signs_after_a_restart(self, signer: Signer, tmp_path: Path) -> None:
        envelope, keys = signed(signer)

        again = Signer(tmp_path / "keys").sign_as("sig_1", DOCUMENT)

        verify({**envelope, "signature": again.signature}, keys)
        assert again.signature == envelope["signature"]
