"""A document of the catalogue is right as a whole, or the table and key that is wrong is named."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from mainstay.tenancy.catalogue import SAMPLE
from mainstay.tenancy.catalogue_document import CatalogueRefused, parse, read

Document = dict[str, Any]

GOOD: Final[Mapping[str, Any]] = read(SAMPLE)


def changed(change: Callable[[Document], object]) -> Document:
    document = copy.deepcopy(dict(GOOD))
    change(document)
    return document


def test_the_sample_is_right() -> None:
    parsed = parse(GOOD)

    assert [node.entry.key for node in parsed.nodes] == ["node-a", "node-b"]
    assert parsed.credits == {"acc_demo": 100_000}


def test_the_first_name_is_the_nodes_own_and_the_others_are_offers() -> None:
    node = parse(GOOD).nodes[0]

    assert node.entry.columns["sku"] == "h200-sxm-slice"
    assert node.offers == ("h200-sxm-baremetal-8g",)


def test_a_slot_is_its_place_in_the_list() -> None:
    node = parse(GOOD).nodes[0]

    assert [slot.key for slot in node.slots] == [f"node-a/{index}" for index in range(8)]
    assert [slot.columns["numa_node"] for slot in node.slots] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert node.entry.columns["gpus_total"] == 8


def test_no_document_is_too_small() -> None:
    assert parse({}).plain == ()


BAD: Final[Mapping[str, tuple[Callable[[Document], object], str]]] = {
    "a table that there is not": (
        lambda d: d.update(regions=[]),
        "no such table: regions (there are: region, image, sku, account, project, "
        "ssh_key, node_kind, node)",
    ),
    "a table that is no list": (
        lambda d: d.update(region={"code": "r"}),
        "write region as a list of tables: [[region]]",
    ),
    "a key that there is not": (
        lambda d: d["region"][0].update(colour="red"),
        "region region-1 has an unknown key: colour (known: code, name, active)",
    ),
    "a key that is missing": (lambda d: d["region"][0].pop("name"), "region region-1 has no name"),
    "an entry without a name": (lambda d: d["sku"][1].pop("sku"), "sku number 2 has no sku"),
    "an entry with a bad name": (
        lambda d: d["sku"][1].update(sku="a b"),
        "sku number 2: sku must be a name: letters, digits, '.', '_', '-', at most 63: 'a b'",
    ),
    "a text where a number belongs": (
        lambda d: d["sku"][0].update(gpu_hourly_price_minor="450"),
        "sku h200-sxm-slice: gpu_hourly_price_minor must be a whole number of minor units from 0 "
        "to 9007199254740991: '450'",
    ),
    "true where a number belongs": (
        lambda d: d["sku"][0].update(gpus_total=True),
        "sku h200-sxm-slice: gpus_total must be a whole number from 0 to 2147483647: True",
    ),
    "a number that the database has no room for": (
        lambda d: d["node"][0].update(cpu_milli=2**31),
        "node node-a: cpu_milli must be a whole number from 0 to 2147483647: 2147483648",
    ),
    "a count of nothing": (
        lambda d: d["sku"][0].update(allowed_gpu_counts=[0]),
        "sku h200-sxm-slice: allowed_gpu_counts must be a list of whole numbers from 1: [0]",
    ),
    "a count beyond the node": (
        lambda d: d["sku"][0].update(allowed_gpu_counts=[8, 16]),
        "sku h200-sxm-slice: allowed_gpu_counts has 16, more than gpus_total 8",
    ),
    "a node without slots": (
        lambda d: d["node"][0].update(slots=[]),
        "node node-a: slots must be a list of tables: []",
    ),
    "a node that is not sold": (
        lambda d: d["node"][0].update(sold_as=[]),
        "node node-a: sold_as must be a list of names: []",
    ),
    "a slot with a key that there is not": (
        lambda d: d["node"][1]["slots"][3].update(numa=1),
        "slot node-b/3 has an unknown key: numa (known: status, numa_node, pci_address, "
        "nvme_device, mac_address, private_ip, fabric_claim_mode, fabric_vf_pci_address)",
    ),
    "a slot in a state that comes from what is held": (
        lambda d: d["node"][1]["slots"][3].update(status="in_use"),
        "slot node-b/3: status must be one of discovered, available, disabled: 'in_use'",
    ),
    "a text that the database cannot hold": (
        lambda d: d["region"][0].update(name="a\0b"),
        "region region-1: name must be a text: 'a\\x00b'",
    ),
    "the same twice": (
        lambda d: d["project"].append(d["project"][0]),
        "project prj_demo is there twice",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_is_named_in_one_line(what: str) -> None:
    change, line = BAD[what]

    with pytest.raises(CatalogueRefused) as refused:
        parse(changed(change))

    assert str(refused.value) == line


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot read"), (b"region = [", "not TOML"), (b"\xff", "cannot read")],
    ids=["no file", "no TOML", "no text"],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "catalogue.toml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(CatalogueRefused, match=said) as refused:
        read(path)

    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
