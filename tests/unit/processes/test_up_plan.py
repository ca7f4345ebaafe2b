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
        "engine", "world", "coordinator", "shard-a", "shard-b", "dashboard", "postgres",
        "catalogue", "tenancy",
    }  # fmt: skip
    assert all(name in found for part in found.values() for name in part.after)
    assert sum(not part.ends for part in found.values()) == 7


def test_the_coordinator_has_its_own_name_and_its_state_at_home_and_the_world_our_authority() -> (
    None
):
    """Said as flags, so that no setting that is handed on says otherwise."""
    coordinator, world = by_name()["coordinator"].words, by_name()["world"].words

    assert after(coordinator, "--id") == ["coordinator-0"]
    assert after(coordinator, "--store-file") == ["home/coordinator.db"]
    assert after(coordinator, "--advertise") == after(coordinator, "--listen")
    assert after(world, "--pki") == ["home/pki"]


def test_without_tenancy_only_the_fleet_is_started() -> None:
    stage = Stage(UpConfig(tenancy=False), Path("home"), USUAL_PORTS)

    assert by_name(stage).keys() == {"engine", "world", "coordinator", "dashboard", *SHARDS}


def test_the_page_is_where_it_is_told_to_be_and_has_the_certificate_it_is_given() -> None:
    config = UpConfig(page="0.0.0.0:8443", page_cert="page.crt", page_key="page.key")
    stage = Stage(config, Path("home"), USUAL_PORTS)

    words = by_name(stage)["dashboard"].words

    assert after(words, "--listen") == ["0.0.0.0:8443"]
    assert after(words, "--page-cert") == ["page.crt"]
    assert after(words, "--page-key") == ["page.key"]
    assert STAGE.page_url == "http://127.0.0.1:8700"


def test_the_address_of_a_page_that_is_everywhere_can_be_opened() -> None:
    pages = {
        "0.0.0.0:8443": "https://127.0.0.1:8443",
        "[::]:8443": "https://[::1]:8443",
        "fleet.example:8443": "https://fleet.example:8443",
    }
    stages = {
        page: Stage(
            UpConfig(page=page, page_cert="page.crt", page_key="page.key"), Path("home"), {}
        )
        for page in pages
    }

    assert {page: stage.page_url for page, stage in stages.items()} == pages
    assert [page for page in pages if stages[page].is_everywhere] == ["0.0.0.0:8443", "[::]:8443"]


def test_who_needs_the_database_waits_for_the_one_that_runs() -> None:
    """Nobody takes its place while it starts again; it ends when the others have."""
    found = by_name()

    waiting = {name for name, part in found.items() if after(part.words, "--database")}
    assert waiting == {"catalogue", "tenancy"}
    assert {flag for name in waiting for flag in after(found[name].words, "--database")} == {
        "running"
    }
    assert [name for name, part in found.items() if part.is_last] == ["postgres"]


def test_tenancy_holds_the_session_of_its_cluster_and_waits_for_no_shard() -> None:
    tenancy = by_name()["tenancy"]

    assert after(tenancy.words, "--shard") == ["127.0.0.1:7780"]
    assert after(tenancy.words, "--cluster-id") == ["tenants"]
    assert after(tenancy.words, "--cluster-cert") == ["home/pki/cluster-tenants.crt"]
    assert "--simulate-machines" in tenancy.words
    assert not {*tenancy.after} & SHARDS.keys()


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
    flags = ("--tls-cert", "--cluster-cert")
    used = {
        Path(cert).stem
        for part in parts(STAGE) for flag in flags for cert in after(part.words, flag)
    }  # fmt: skip

    assert used <= made
    assert {"admin", "readonly", "provider-world"} <= made
    assert {f"cluster-{name}" for name in CLUSTERS} <= made


def test_a_shard_is_told_which_zones_are_its_own() -> None:
    words = by_name()["shard-b"].words

    assert after(words, "--domain") == ["topology.kubernetes.io/zone=use1-az6"]


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
