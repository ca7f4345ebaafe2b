"""What `mainstay up` starts, read off its table."""

import itertools
import tomllib
from collections import Counter
from pathlib import Path

from mainstay.config.up import UpConfig
from mainstay.config.world import WorldConfig
from mainstay.processes.up_plan import (
    CERTIFICATES,
    CLUSTERS,
    SHARDS,
    USUAL_PORTS,
    Part,
    Stage,
    parts,
    shard_settings,
)
from mainstay.processes.world import GANG, specs
from mainstay.providers.kit.backend import Slot
from mainstay.providers.sim.offers import ZONES
from mainstay.providers.sim.spec import slots_of
from mainstay.tenancy.catalogue import SAMPLE

STAGE = Stage(UpConfig(), Path("home"), USUAL_PORTS)


def by_name(stage: Stage = STAGE) -> dict[str, Part]:
    return {part.name: part for part in parts(stage)}


def after(words: tuple[str, ...], flag: str) -> list[str]:
    return [value for word, value in itertools.pairwise(words) if word == flag]


def test_every_process_that_a_part_waits_for_is_there() -> None:
    found = by_name()

    assert found.keys() == {
        "engine", "world", "coordinator", "shard-a", "shard-b", "dashboard", "catalogue", "tenancy",
        "bridge",
    }  # fmt: skip
    assert all(name in found for part in found.values() for name in part.after)


def test_without_tenancy_only_the_fleet_is_started() -> None:
    stage = Stage(UpConfig(tenancy=False), Path("home"), USUAL_PORTS)

    assert by_name(stage).keys() == {"engine", "world", "coordinator", "dashboard", *SHARDS}


def test_no_two_things_share_a_port() -> None:
    assert len(set(USUAL_PORTS.values())) == len(USUAL_PORTS)


def test_every_zone_has_one_shard_and_every_cluster_too() -> None:
    assert sorted(zone for zones in SHARDS.values() for zone in zones) == sorted(ZONES)
    assert set(CLUSTERS.values()) == SHARDS.keys()


def test_every_shard_reaches_every_provider_and_the_coordinator() -> None:
    for name in SHARDS:
        words = by_name()[name].words

        assert after(words, "--provider") == [
            "metal=127.0.0.1:9000", "on-demand=127.0.0.1:9001", "spot=127.0.0.1:9002",
        ]  # fmt: skip
        assert after(words, "--coordinator") == ["127.0.0.1:7790"]


def test_every_process_that_speaks_has_a_certificate() -> None:
    made = {f"{kind}-{name}" if name else kind for kind, name in CERTIFICATES}
    used = {Path(cert).stem for part in parts(STAGE) for cert in after(part.words, "--tls-cert")}

    assert used <= made
    assert {"admin", "readonly", "provider-world"} <= made
    assert {f"cluster-{name}" for name in CLUSTERS} <= made


def test_the_file_of_a_shard_says_which_zones_are_its_own() -> None:
    told = tomllib.loads(shard_settings(STAGE, "shard-b"))["shard"]

    assert told["domains"] == ["topology.kubernetes.io/zone=use1-az6"]


def test_a_world_has_as_many_machines_as_it_is_told() -> None:
    for machines in (30, 2_000):
        made = [slot for spec in specs(machines, 1).values() for slot in slots_of(spec)]

        assert abs(len(made) - machines) <= 1
        assert len({slot.name for slot in made}) == len(made)
        assert {slot.profile.zone for slot in made} == set(ZONES)


def test_no_rack_of_any_world_holds_the_gang_that_waits() -> None:
    racks = Counter(
        slot.profile.labels
        for spec in specs(20_000, 1).values()
        for slot in slots_of(spec)
        if slot.profile.instance_type == GANG.exact_type
    )

    assert 0 < max(racks.values()) < WorldConfig().gang


def test_a_small_world_has_machines_for_tenants_in_the_zones_of_their_shard() -> None:
    (wanted,) = [
        kind for entry in tomllib.loads(SAMPLE.read_text())["node_kind"]
        for kind in entry["instance_types"]
    ]  # fmt: skip
    ours = [slot for slot in _slots(120) if slot.profile.zone in SHARDS["shard-a"]]

    assert sum(slot.profile.instance_type == wanted for slot in ours) == 6
    assert any(slot.profile.instance_type == wanted for slot in _slots(30))


def _slots(machines: int) -> list[Slot]:
    return [slot for spec in specs(machines, 1).values() for slot in slots_of(spec)]
