"""The file of pools: what is sold, for how much, and what is refused by name."""

from pathlib import Path
from typing import Final

import pytest

from mainstay.model.errors import Rejected
from mainstay.model.profile import CapacityType
from mainstay.providers.ec2.config import Ec2Config, read
from mainstay.providers.ec2.timing import Timing

FILE: Final = """
name = "aws-us-east-1"
region = "us-east-1"
tags = {team = "infra"}

[timing]
poll_s = 5

[[pool]]
name = "general"
type = "m5.large"
zone = "us-east-1a"
capacity = "on-demand"
count = 3
image = "ami-1"
subnet = "subnet-1"
security_groups = ["sg-1"]
instance_profile = "node"
price_per_hour = 0.096
resources = {cpu = 2, memory = "8Gi"}
allocatable = {cpu = "1900m"}
labels = {rack = "none"}

[[pool]]
name = "cheap"
type = "m5.large"
zone = "us-east-1b"
capacity = "spot"
count = 1
image = "ami-1"
price_per_hour = 0.05
resources = {cpu = 2}
"""

CATALOGUE: Final = """\
instance_type,zone,accelerator_count,vcpus,memory_gib,usd_per_hour,spot_usd_per_hour
m5.large,us-east-1a,0,2,8,0.1,0.04
m5.large,us-east-1b,0,2,8,0.1,0.03
"""


def told(folder: Path, text: str) -> Ec2Config:
    path = folder / "pools.toml"
    path.write_text(text)
    return read(path)


def test_a_pool_is_slots_of_one_kind(tmp_path: Path) -> None:
    config = told(tmp_path, FILE)

    general, cheap = config.pools
    assert (config.name, config.region, dict(config.tags)) == (
        "aws-us-east-1", "us-east-1", {"team": "infra"},
    )  # fmt: skip
    assert config.timing == Timing(poll_s=5)
    assert general.slots == ("general-0", "general-1", "general-2")
    assert general.profile.capacity_type is CapacityType.ON_DEMAND
    assert general.profile.resources.units["cpu"] == 2000
    assert general.allocatable.units["cpu"] == 1900
    assert (general.subnet, general.security_groups) == ("subnet-1", ("sg-1",))
    assert (general.price_per_hour, general.interruption_probability) == (0.096, 0.0)
    assert cheap.is_spot
    assert cheap.interruption_probability == 0.05


def test_what_a_pool_does_not_say_is_in_the_catalogue(tmp_path: Path) -> None:
    (tmp_path / "offers.csv").write_text(CATALOGUE)
    said = FILE.replace("price_per_hour = 0.096\n", "").replace("price_per_hour = 0.05\n", "")
    said = said.replace("resources = {cpu = 2}\n", "")

    general, cheap = told(tmp_path, f'catalogue = "offers.csv"\n{said}').pools

    assert (general.price_per_hour, cheap.price_per_hour) == (0.1, 0.03)
    assert cheap.profile.resources.as_dict() == {"cpu": "2", "memory": "8Gi"}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('name = "aws-us-east-1"', "", "the file of pools has no name"),
        ('"aws-us-east-1"', '"AWS"', "not a name of a provider: 'AWS'"),
        ("region =", "regoin =", "unknown key: regoin"),
        ('"general"', '"cheap"', "pool 'cheap' is there twice"),
        ('"general"', '"-x"', "not a name of a pool: '-x'"),
        ("count = 3", "count = 0", "count of pool 'general' must be within 1"),
        ("count = 3", "count = true", "count of pool 'general' must be a int: True"),
        ('"on-demand"', '"free"', "capacity of pool 'general' must be on-demand or spot: 'free'"),
        ('image = "ami-1"\nsubnet', "subnet", "pool 'general' has no image"),
        ("0.096", "-1", "price_per_hour of pool 'general' must be zero or more"),
        ("price_per_hour = 0.096", "", "has no price_per_hour, and no catalogue"),
        ("resources = {cpu = 2}", "", "pool 'cheap' has no resources, and no catalogue"),
        ("count = 1", "count = 1\ninterruption_probability = 0", "must be above 0"),
        ("count = 3", "count = 3\ninterruption_probability = 2", "must be within 0 and 1: 2"),
        ('["sg-1"]', "[1]", "security_groups of pool 'general' must be texts"),
        ("{cpu = 2}", "{cpu = 1.5}", "cpu = 1.5"),
        ('"infra"', "true", "tags must be text or whole numbers: team = True"),
        ("{team", '{"mainstay:slot"', "tag 'mainstay:slot' is not yours"),
        ('"infra"', f'"{"x" * 257}"', "tag 'team' is too long"),
        ("poll_s = 5", "poll_s = 0", "poll_s of timing is too small: 0"),
        ("poll_s = 5", "poll_s = true", "poll_s of timing is of the wrong kind: True"),
        ("poll_s = 5", "calls_at_once = 2.5", "calls_at_once of timing is of the wrong kind"),
        ("poll_s = 5", "status_checks = 1", "status_checks of timing is of the wrong kind"),
        ("poll_s = 5", "pole_s = 5", "timing has an unknown key: pole_s"),
        ("[[pool]]", "[[pool", "not TOML"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, old: str, new: str, why: str) -> None:
    assert old in FILE

    with pytest.raises(Rejected, match=why):
        told(tmp_path, FILE.replace(old, new))


def test_too_many_tags_of_yours_leave_no_room_for_ours(tmp_path: Path) -> None:
    tags = ", ".join(f"t{number} = 1" for number in range(21))

    with pytest.raises(Rejected, match="too many tags: 21"):
        told(tmp_path, FILE.replace('team = "infra"', tags))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="cannot be read"):
        read(tmp_path / "nowhere.toml")
