"""Settings of `mainstay coordinator`: what they are by default, and what is refused."""

import dataclasses
import math

import pytest

from mainstay.config import load
from mainstay.config.coordinator import RANGES, CoordinatorConfig
from mainstay.coordinator.standing import SECOND_NS, Options
from mainstay.model.errors import Rejected


def with_one(name: str, value: object) -> CoordinatorConfig:
    return CoordinatorConfig(**{name: value})  # type: ignore[arg-type] # by name


def test_it_is_a_section_of_the_settings() -> None:
    told = {"coordinator": {"fleet": "west", "etcd": ["http://h:1", "http://h:2"]}}

    config = load.load("coordinator", CoordinatorConfig, load.Sources(told, {}), {}).config

    assert (config.fleet, config.etcd) == ("west", ("http://h:1", "http://h:2"))


def test_the_numbers_of_the_planner_are_its_own_unless_told_otherwise() -> None:
    config, options = CoordinatorConfig(), Options()

    assert config.report_interval_s * SECOND_NS == options.report_interval_ns
    for field in dataclasses.fields(Options):
        if field.name != "report_interval_ns":
            assert getattr(config, f"rebalance_{field.name}") == getattr(options, field.name)


def test_every_number_has_its_limits() -> None:
    numbers = {f.name for f in dataclasses.fields(CoordinatorConfig) if f.type in (int, float)}

    assert numbers == RANGES.keys()


@pytest.mark.parametrize("name", RANGES)
def test_a_number_beyond_its_limits_is_refused_with_the_limits(name: str) -> None:
    least, most = RANGES[name]

    for wrong in (least - 0.001, most + 1, math.nan, math.inf):
        with pytest.raises(Rejected, match=rf"coordinator\.{name} must be between .* and .*: "):
            with_one(name, wrong)


@pytest.mark.parametrize("setting", ["coordinator_id", "fleet"])
@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "-a", "a b", "é", "a\n", "x" * 64])
def test_a_name_that_cannot_be_a_key_is_refused(setting: str, name: str) -> None:
    with pytest.raises(Rejected, match=rf"coordinator\.{setting} must be 1 to 63") as refused:
        with_one(setting, name)

    assert "\n" not in refused.value.message


@pytest.mark.parametrize("setting", ["listen", "http", "advertise"])
@pytest.mark.parametrize("address", ["localhost", ":7790", "127.0.0.1:99999", "h:http"])
def test_an_address_without_a_port_is_refused(setting: str, address: str) -> None:
    with pytest.raises(Rejected, match=rf"coordinator\.{setting} must be HOST:PORT, .*: {address}"):
        with_one(setting, address)


def test_only_the_address_for_shards_must_be_given() -> None:
    assert CoordinatorConfig(http="", advertise="").http == ""
    with pytest.raises(Rejected, match=r"coordinator\.listen must be HOST:PORT"):
        CoordinatorConfig(listen="")


@pytest.mark.parametrize("member", ["h:2379", "http://", "http://h", "ftp://h:1", "http://h:1/x"])
def test_a_member_of_etcd_that_is_no_address_is_refused(member: str) -> None:
    with pytest.raises(Rejected, match=r"coordinator\.etcd must be http://HOST:PORT or"):
        CoordinatorConfig(etcd=(member,))


def test_members_of_etcd_are_named_once_and_all_speak_alike() -> None:
    with pytest.raises(Rejected, match="names a member twice: http://h:1, http://h:1"):
        CoordinatorConfig(etcd=("http://h:1", "http://h:1"))
    with pytest.raises(Rejected, match="some with TLS and some without: https://h:1, http://h:2"):
        CoordinatorConfig(etcd=("https://h:1", "http://h:2"))
    with pytest.raises(Rejected, match=r"etcd_ca, etcd_cert and etcd_key: etcd_cert, etcd_key mis"):
        CoordinatorConfig(etcd=("https://h:1",), etcd_ca="ca.pem")


def test_a_file_and_an_etcd_contradict_each_other() -> None:
    with pytest.raises(Rejected, match=r"contradict each other: http://h:1; here\.db"):
        CoordinatorConfig(etcd=("http://h:1",), store_file="here.db")


def test_what_the_planner_must_remember_is_kept() -> None:
    with pytest.raises(Rejected, match=r"moves_kept_s must not be below .* 1200: 600"):
        CoordinatorConfig(moves_kept_s=600)
