"""Which machines a shard takes in."""

import pytest

from builders import a_profile
from mainstay.model.batch import Shape
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.resources import NO_RESOURCES
from mainstay.shard.lists.domains import Domain, Domains

RACK = "topology.bigfleet/rack"


def shape(zone: str = "zone-a", **labels: str) -> Shape:
    named = {key.replace("_", "/"): value for key, value in labels.items()}
    return Shape(a_profile(zone=zone, labels=named), NO_RESOURCES)


def test_a_shard_that_never_was_assigned_a_domain_takes_everything() -> None:
    assert Domains().admits(shape())
    assert Domains().assigned is None


def test_a_shard_takes_what_any_of_its_domains_has() -> None:
    domains = Domains([(ZONE_KEY, "zone-a"), ("pool", "gpu")])

    assert domains.admits(shape("zone-a"))
    assert domains.admits(shape("zone-b", pool="gpu"))
    assert not domains.admits(shape("zone-b", pool="cpu"))
    assert not domains.admits(shape("zone-b"))


def test_a_domain_may_be_an_instance_type() -> None:
    assert Domains([(INSTANCE_TYPE_KEY, "m5.2xlarge")]).admits(shape())
    assert not Domains([(INSTANCE_TYPE_KEY, "p5.48xlarge")]).admits(shape())


def test_the_first_domain_narrows() -> None:
    domains = Domains()

    assert domains.assign(ZONE_KEY, "zone-a")
    assert not domains.admits(shape("zone-b"))


def test_a_shard_that_loses_its_last_domain_takes_nothing_more() -> None:
    """It must not widen by itself: empty is nothing, and only never is everything."""
    domains = Domains([(ZONE_KEY, "zone-a")])

    assert domains.unassign(ZONE_KEY, "zone-a")
    assert not domains.admits(shape("zone-a"))
    assert Domains(domains.assigned or ()).admits(shape("zone-a")) is False


def test_assigning_twice_changes_nothing() -> None:
    saved: list[frozenset[Domain]] = []
    domains = Domains(save=saved.append)

    assert domains.assign(RACK, "r-1")
    version = domains.version
    assert not domains.assign(RACK, "r-1")
    assert not domains.unassign(RACK, "r-2")
    assert domains.version == version
    assert saved == [frozenset({Domain(RACK, "r-1")})]


def test_what_cannot_be_saved_is_not_assigned() -> None:
    def full(assigned: frozenset[Domain]) -> None:
        raise Unavailable("disk full")

    domains = Domains([(RACK, "r-1")], save=full)

    with pytest.raises(Unavailable):
        domains.assign(RACK, "r-2")
    with pytest.raises(Unavailable):
        domains.unassign(RACK, "r-1")
    assert domains.assigned == frozenset({Domain(RACK, "r-1")})
    assert domains.version == 0


@pytest.mark.parametrize("domain", [("", "a"), ("zone", "")])
def test_a_domain_needs_both_its_halves(domain: tuple[str, str]) -> None:
    with pytest.raises(Rejected, match="zone=a"):
        Domains([domain])
    with pytest.raises(Rejected, match="zone=a"):
        Domains().assign(*domain)
