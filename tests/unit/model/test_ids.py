from collections.abc import Callable

import pytest

from mainstay.model.errors import Rejected
from mainstay.model.ids import ID_LENGTH_MAX, is_id, parse_cluster_id, parse_machine_id

PARSERS = pytest.mark.parametrize("parse", [parse_machine_id, parse_cluster_id])

GOOD = ["m-1", "i-0abc", "rack-1/host_2", "a", "~!@#$%^&*()", "x" * 253]
BAD = ["", " ", "a b", " a", "a ", "a\n", "\t", "a\x00b", "zürich", "\u2028", "\ud800", "x" * 254]


def _short(text: str) -> str:
    return ascii(text[:20])


@PARSERS
@pytest.mark.parametrize("text", GOOD, ids=_short)
def test_an_id_is_printable_ascii_without_spaces(parse: Callable[[str], str], text: str) -> None:
    assert parse(text) == text
    assert is_id(text)


@PARSERS
@pytest.mark.parametrize("text", BAD, ids=_short)
def test_text_that_cannot_be_an_id_is_refused_with_the_form_it_should_have(
    parse: Callable[[str], str], text: str
) -> None:
    with pytest.raises(Rejected, match=r"1 to 253 printable ASCII characters, no space"):
        parse(text)

    assert not is_id(text)


@PARSERS
def test_a_refusal_shows_a_huge_or_broken_text_short_and_on_one_line(
    parse: Callable[[str], str],
) -> None:
    with pytest.raises(Rejected) as refused:
        parse("a\n" * 100_000)

    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 300


def test_a_refusal_says_which_id_is_wrong() -> None:
    with pytest.raises(Rejected, match="not a machine id"):
        parse_machine_id("")
    with pytest.raises(Rejected, match="not a cluster id"):
        parse_cluster_id("")


def test_an_id_is_as_long_as_a_kubernetes_name_may_be() -> None:
    assert ID_LENGTH_MAX == 253


def test_the_order_of_ids_is_the_order_of_their_bytes() -> None:
    texts = sorted(GOOD)

    assert texts == [raw.decode() for raw in sorted(text.encode() for text in GOOD)]
