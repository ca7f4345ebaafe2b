"""Settings of `mainstay shard`: what they are by default, and what is refused."""

import dataclasses
import math

import pytest

from mainstay.config import load
from mainstay.config.shard import RANGES, ShardConfig, parse_domains, parse_providers
from mainstay.engine.policy import Policy
from mainstay.model.errors import Rejected
from mainstay.processes.shard_settings import feed_options
from mainstay.shard.lists.feeds import FeedOptions


def with_one(name: str, value: object) -> ShardConfig:
    return ShardConfig(**{name: value})  # type: ignore[arg-type] # by name


def test_it_is_a_section_of_the_settings() -> None:
    sources = load.Sources({"shard": {"workers": 3, "providers": ["a=h:1"]}}, {})

    config = load.load("shard", ShardConfig, sources, {}).config

    assert (config.workers, config.provider_addresses) == (3, {"a": "h:1"})


def test_the_knobs_of_the_engine_are_what_the_engine_has_unless_told_otherwise() -> None:
    config = ShardConfig()

    for field in dataclasses.fields(Policy):
        assert getattr(config, field.name) == getattr(Policy(), field.name)


def test_every_number_has_its_limits() -> None:
    numbers = {f.name for f in dataclasses.fields(ShardConfig) if f.type in (int, float)}

    assert numbers == RANGES.keys()


@pytest.mark.parametrize("name", RANGES)
def test_a_number_beyond_its_limits_is_refused_with_the_limits(name: str) -> None:
    least, most = RANGES[name]

    for wrong in (least - 0.001, most + 1, math.nan, math.inf):
        with pytest.raises(Rejected, match=rf"shard\.{name} must be between .* and .*: "):
            with_one(name, wrong)


@pytest.mark.parametrize(
    ("name", "wrong", "complaint"),
    [
        ("incremental_from_peers", "yes", "incremental_from_peers"),
        ("incremental_from_peers", 1, "incremental_from_peers"),
        ("full_list_every_declared", 0, "full_list_every_declared must be between 1 and"),
        ("full_list_every_declared", 2.5, "full_list_every_declared"),
        ("first_list_wait_s", -1, "first_list_wait_s must be between 0 and"),
        ("first_list_wait_s", "5m", "first_list_wait_s"),
    ],
)
def test_what_a_file_says_wrongly_about_lists_is_refused_by_name(
    name: str, wrong: object, complaint: str
) -> None:
    with pytest.raises(Rejected, match=complaint):
        load.load("shard", ShardConfig, load.Sources({"shard": {name: wrong}}, {}), {})


def test_what_it_says_about_lists_reaches_the_feeds() -> None:
    given = {"full_list_every": 7, "full_list_every_declared": 9, "incremental_from_peers": True}
    sources = load.Sources({"shard": given}, {})

    options = feed_options(load.load("shard", ShardConfig, sources, {}).config)

    assert (options.full_every, options.full_every_declared) == (7, 9)
    assert options.incremental_from_peers


def test_without_a_word_lists_are_as_the_feeds_have_them() -> None:
    options, own = feed_options(ShardConfig()), FeedOptions()

    for name in ("list_timeout_s", "full_every", "full_every_declared", "incremental_from_peers"):
        assert getattr(options, name) == getattr(own, name)


def test_a_breaker_never_opens_for_longer_than_the_longest() -> None:
    with pytest.raises(Rejected, match=r"breaker_open_max_s must not be below .*: 50 < 60"):
        ShardConfig(breaker_open_s=60, breaker_open_max_s=50)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "-a", "a b", "é", "a\n", "x" * 64])
def test_a_shard_whose_name_cannot_be_a_file_is_refused(name: str) -> None:
    with pytest.raises(Rejected, match=r"shard\.shard_id must be 1 to 63 letters") as refused:
        ShardConfig(shard_id=name)

    assert "\n" not in refused.value.message


@pytest.mark.parametrize("address", ["localhost", ":7780", "127.0.0.1:99999", "h:http"])
def test_an_address_without_a_port_is_refused(address: str) -> None:
    with pytest.raises(Rejected, match=rf"shard\.listen must be HOST:PORT, .*: {address}"):
        ShardConfig(listen=address)
    with pytest.raises(Rejected, match=rf"shard\.http must be HOST:PORT, .*: {address}"):
        ShardConfig(http=address)


def test_http_may_be_nowhere_and_sessions_may_not() -> None:
    assert ShardConfig(http="").http == ""
    with pytest.raises(Rejected, match=r"shard\.listen must be HOST:PORT"):
        ShardConfig(listen="")


class TestProviders:
    def test_each_has_a_name_and_an_address(self) -> None:
        assert parse_providers(["b=h:1", "a=[::1]:2"]) == {"b": "h:1", "a": "[::1]:2"}
        assert [*ShardConfig(providers=("b=h:1", "a=h:2")).provider_addresses] == ["b", "a"]

    @pytest.mark.parametrize(
        ("entries", "complaint"),
        [
            (["h:1"], r"not a provider: 'h:1' \(write name=host:port\)"),
            (["=h:1"], "not a provider's name: '' in '=h:1'"),
            (["a b=h:1"], "not a provider's name: 'a b' in 'a b=h:1'"),
            (["a=h"], "the address of provider a must be HOST:PORT, the port at most 65535: h"),
            (["a="], "the address of provider a must be HOST:PORT"),
            (["a=h:1", "a=h:2"], "two providers have one name: a"),
        ],
    )
    def test_anything_else_is_refused(self, entries: list[str], complaint: str) -> None:
        with pytest.raises(Rejected, match=complaint):
            parse_providers(entries)
        with pytest.raises(Rejected, match=complaint):
            ShardConfig(providers=tuple(entries))


class TestDomains:
    def test_each_is_a_label(self) -> None:
        assert parse_domains(["zone=a", "zone=b=c"]) == {("zone", "a"), ("zone", "b=c")}
        assert ShardConfig().domain_labels == frozenset()

    def test_without_any_a_shard_begins_with_everything_and_one_that_joins_with_nothing(
        self,
    ) -> None:
        assert ShardConfig().first_domains is None
        assert ShardConfig(domains=("zone=a",)).first_domains == frozenset({("zone", "a")})
        joins = ShardConfig(joins=True, coordinators=("127.0.0.1:7790",))
        assert joins.first_domains == frozenset()

    def test_nobody_can_join_without_a_coordinator(self) -> None:
        with pytest.raises(Rejected, match=r"shard.joins needs shard.coordinators"):
            ShardConfig(joins=True)

    @pytest.mark.parametrize("entry", ["zone", "zone=", "=a", " zone=a", "zone= a", ""])
    def test_anything_else_is_refused(self, entry: str) -> None:
        with pytest.raises(Rejected, match=r"not a domain: .* \(write key=value\)"):
            ShardConfig(domains=(entry,))

    def test_one_that_is_given_twice_is_refused(self) -> None:
        with pytest.raises(Rejected, match="a domain is given twice: zone=a"):
            ShardConfig(domains=("zone=a", "zone=a"))
