"""Tags: what is written is what is read, within EC2's limits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from mainstay.model.errors import Rejected
from mainstay.providers.ec2.tags import (
    METADATA,
    TAGS_MAX,
    VALUE_LENGTH_MAX,
    Label,
    Role,
    packed,
    read,
    room,
    written,
)

SERVING = Label(
    slot="m-0", machine="m-0+1", operation="op-1", role=Role.SERVING, cluster="web",
    metadata={"k": "v"},
)  # fmt: skip


@settings(max_examples=outside.examples(60))
@given(st.dictionaries(st.text(max_size=40), st.text(max_size=40), max_size=60))
def test_a_label_that_fits_is_read_as_it_was_written(metadata: dict[str, str]) -> None:
    label = Label(slot="m-0", machine="m-0", operation="op", role=Role.SERVING, metadata=metadata)
    try:
        tags = written(label, "aws", {"team": "infra"})
    except Rejected:
        return

    assert len(tags) <= TAGS_MAX
    assert all(len(key) <= 128 and len(value) <= VALUE_LENGTH_MAX for key, value in tags.items())
    assert read(tags) == label


def test_usual_metadata_is_far_from_the_limit() -> None:
    usual = {f"bigfleet.lucy.sh/assigned-{number}": "0123456789abcdef" * 4 for number in range(55)}

    assert len(packed(usual, tags_max=TAGS_MAX)) <= 3


def test_the_longest_ids_and_the_most_tags_of_others_still_fit() -> None:
    name = "x" * 253
    label = Label(slot=name, machine=name, operation="op-1", role=Role.SERVING, cluster=name)

    tags = written(label, "aws", {f"t{number}": "" for number in range(20)})

    assert read(tags) == label
    assert room({f"t{number}": "" for number in range(20)}) == 23


def test_what_does_not_fit_is_refused_with_the_limit() -> None:
    with pytest.raises(Rejected, match=r"at most 0 tags of 256 characters"):
        packed({"k": "v"}, tags_max=0)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"mainstay:role": "boss"}, "boss"),
        ({f"{METADATA}00": "!"}, "metadata"),
        ({f"{METADATA}00": "AAAA"}, "metadata"),
        ({f"{METADATA}01": "AAAA"}, "metadata"),
    ],
)
def test_tags_that_we_have_not_written_are_refused(change: dict[str, str], why: str) -> None:
    tags = written(SERVING, "aws", {}) | change

    with pytest.raises(Rejected, match=why):
        read(tags)


def test_metadata_that_is_cut_off_is_refused() -> None:
    tags = written(SERVING, "aws", {})
    tags[f"{METADATA}00"] = tags[f"{METADATA}00"][:4]

    with pytest.raises(Rejected, match="cut off"):
        read(tags)


@pytest.mark.parametrize("key", ["mainstay:slot", "mainstay:machine", "mainstay:role"])
def test_a_missing_tag_is_named(key: str) -> None:
    tags = written(SERVING, "aws", {})
    del tags[key]

    with pytest.raises(Rejected, match=f"a tag is missing: {key}"):
        read(tags)
