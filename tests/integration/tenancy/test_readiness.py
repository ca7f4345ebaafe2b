"""A slot whose bundle is not whole and its own is not given out, whatever its status says."""

from typing import Any

import pytest

from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.request import SkuUnavailable, request
from postgres import database_url, server
from tenants import NEW, SLICE, WHOLE, faults, node, order, rows, run, slots

__all__ = ["database_url", "server"]

BUNDLES = """
    update slots set pci_address = 'gpu' || slot_index, nvme_device = 'nvme' || slot_index,
        mac_address = 'mac' || slot_index, private_ip = '10.0.0.' || slot_index,
        fabric_vf_pci_address = 'vf' || slot_index
"""
PARTS = ("pci_address", "nvme_device", "mac_address", "private_ip", "fabric_vf_pci_address")


async def changed(pool: Pool, statement: str) -> None:
    async with transaction(pool) as tx:
        await tx.execute(statement)


async def unready(pool: Pool) -> dict[int, str]:
    found = await rows(pool, "select slot_index, unready from slots where unready <> ''")
    return {row["slot_index"]: row["unready"] for row in found}


@pytest.mark.parametrize("at_once_max", [8, 0], ids=["the short way", "the long way"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        *((f"{part} = ''", f"{part} is missing") for part in PARTS),
        ("fabric_claim_mode = 'shared'", "fabric_claim_mode is not per_slot_vf"),
    ],
)
def test_a_slot_without_a_part_of_its_bundle_is_not_given_out(
    database_url: str, monkeypatch: pytest.MonkeyPatch, change: str, why: str, at_once_max: int
) -> None:
    monkeypatch.setattr("mainstay.tenancy.request.AT_ONCE_MAX", at_once_max)

    async def scenario(pool: Pool) -> None:
        await node(pool, free=(0, 1))
        await changed(pool, BUNDLES)
        await changed(pool, f"update slots set {change} where slot_index = 0")

        assert await unready(pool) == {0: why}
        await request(pool, NEW, order(1))
        assert await slots(pool, "reserved") == [1]
        with pytest.raises(SkuUnavailable) as refused:
            await request(pool, NEW, order(1))
        assert refused.value.details["reason"] == "readiness_blocked"
        assert await faults(pool) == {}

    run(database_url, scenario)


@pytest.mark.parametrize("part", PARTS)
def test_two_slots_with_one_address_are_both_not_given_out(database_url: str, part: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        await changed(pool, BUNDLES)
        same = f"update slots set {part} = 'x' where slot_index in (2, 5)"
        await changed(pool, same)

        assert await unready(pool) == dict.fromkeys((2, 5), f"{part} is not its own")
        for sku, gpus in ((SLICE, 8), (WHOLE, 8)):
            with pytest.raises(SkuUnavailable) as refused:
                await request(pool, NEW, order(gpus, sku=sku))
            assert refused.value.details["reason"] == "readiness_blocked"
        await changed(pool, f"update slots set {part} = 'y' where slot_index = 5")
        assert await unready(pool) == {}
        assert (await request(pool, NEW, order(8, sku=WHOLE)))["gpus"] == 8

    run(database_url, scenario)


def test_a_node_that_names_no_addresses_at_all_is_ready(database_url: str) -> None:
    """One without a fabric, or whose addresses are somebody else's business."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        assert await unready(pool) == {}
        await changed(pool, "update slots set private_ip = '10.0.0.1' where slot_index = 0")
        assert set(await unready(pool)) == set(range(1, 8))
        await changed(pool, "delete from slots where slot_index = 0")
        assert await unready(pool) == {}

    run(database_url, scenario)


@pytest.mark.parametrize("status", ["discovered", "disabled"])
def test_a_slot_that_is_not_in_service_takes_no_other_out_of_sale(
    database_url: str, status: str
) -> None:
    """It is looked at when it comes into service."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        await changed(pool, f"update slots set status = '{status}' where slot_index = 7")
        await changed(pool, "update slots set private_ip = '10.0.0.7' where slot_index = 7")
        assert await unready(pool) == {}
        await changed(pool, "update slots set status = 'available' where slot_index = 7")
        assert set(await unready(pool)) == set(range(7))
        await changed(pool, f"update slots set status = '{status}' where slot_index = 7")
        assert await unready(pool) == {}

    run(database_url, scenario)


def test_what_somebody_holds_stays_held_when_its_bundle_breaks(database_url: str) -> None:
    async def scenario(pool: Pool) -> None:
        await node(pool)
        row: dict[str, Any] = await request(pool, NEW, order(1))
        await changed(pool, BUNDLES)
        await changed(pool, "update slots set private_ip = ''")
        await changed(pool, "update slots set private_ip = '10.0.0.9' where slot_index = 7")
        assert 0 in await unready(pool)
        assert await slots(pool, "reserved") == [0]
        assert (await rows(pool, "select id from allocations"))[0]["id"] == row["id"]
        assert await faults(pool) == {}

    run(database_url, scenario)
