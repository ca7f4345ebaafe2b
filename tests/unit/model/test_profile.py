from dataclasses import FrozenInstanceError, replace

import pytest

from builders import A_HOST, a_profile
from mainstay.model.profile import CapacityType, HostRef, Profile, labels_of
from mainstay.model.resources import Resources

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"


def test_machines_with_equal_profiles_are_interchangeable() -> None:
    one = a_profile(labels={"rack": "r1", "row": "2"})
    other = a_profile(labels={"row": "2", "rack": "r1"})

    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    "other",
    [
        a_profile(instance_type="p5.48xlarge"),
        a_profile(zone="zone-b"),
        a_profile(capacity_type=CapacityType.SPOT),
        a_profile(resources={"cpu": "4"}),
        a_profile(labels={"rack": "r1"}),
    ],
)
def test_any_attribute_makes_a_profile_another(other: Profile) -> None:
    assert a_profile() != other


def test_capacity_types_are_numbered_as_on_the_wire() -> None:
    assert {int(kind): str(kind) for kind in CapacityType} == {
        0: "Unspecified", 1: "BareMetal", 2: "Reserved", 3: "OnDemand", 4: "Spot",
    }  # fmt: skip


def test_the_resources_of_a_profile_are_kept_as_strings() -> None:
    profile = a_profile(resources={"cpu": "96", "memory": "768Gi"})

    assert profile.resources.as_dict() == {"cpu": "96", "memory": "768Gi"}


def test_labels_are_kept_in_one_order() -> None:
    assert labels_of({"b": "2", "a": "1"}) == (("a", "1"), ("b", "2"))


@pytest.mark.parametrize(
    ("key", "value"),
    [(INSTANCE_TYPE, "m5.2xlarge"), (ZONE, "zone-a"), ("rack", "r1"), ("row", None)],
)
def test_a_requirement_looks_at_type_zone_or_label(key: str, value: str | None) -> None:
    assert a_profile(labels={"rack": "r1"}).attribute(key) == value


@pytest.mark.parametrize(("key", "value"), [(INSTANCE_TYPE, "m5.2xlarge"), (ZONE, "zone-a")])
def test_the_declared_type_and_zone_win_over_labels(key: str, value: str) -> None:
    assert a_profile(labels={key: "label"}).attribute(key) == value


@pytest.mark.parametrize("key", [INSTANCE_TYPE, ZONE])
def test_a_label_says_the_type_or_zone_that_is_not_declared(key: str) -> None:
    profile = a_profile(instance_type="", zone="", labels={key: "label"})

    assert profile.attribute(key) == "label"


@pytest.mark.parametrize("key", [INSTANCE_TYPE, ZONE])
def test_a_type_or_zone_that_nobody_declares_is_absent(key: str) -> None:
    assert a_profile(instance_type="", zone="").attribute(key) is None


def test_a_label_with_an_empty_value_is_present() -> None:
    assert a_profile(labels={"spare": ""}).attribute("spare") == ""


def test_a_host_is_whose_it_is_and_what_they_call_it() -> None:
    assert HostRef("metal", "rack-1/host-1") == A_HOST
    assert HostRef("other", "rack-1/host-1") != A_HOST


def test_a_profile_is_a_value_that_nobody_can_change() -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(a_profile(), "zone", "zone-b")  # noqa: B010 - the point is that it fails


def test_a_profile_of_a_type_alone_asks_for_nothing_else() -> None:
    assert Profile("metal-1") == replace(
        a_profile(instance_type="metal-1", zone="", resources={}),
        capacity_type=CapacityType.UNSPECIFIED,
    )
    assert Profile("metal-1").resources == Resources({})
