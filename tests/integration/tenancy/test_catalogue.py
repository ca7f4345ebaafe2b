"""The catalogue is loaded whole or not at all, twice like once, and never under a holder's feet."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest

from mainstay.tenancy import catalogue, request
from mainstay.tenancy.catalogue import SAMPLE, CatalogueRefused, load
from mainstay.tenancy.database.connect import Pool, transaction
from postgres import database_url, pool_of, server
from tenants import NEW, activate, begin, order, prove, rows, value

__all__ = ["database_url", "server"]

Document = dict[str, Any]
Change = Callable[[Document], object]

GOOD: Final[Mapping[str, Any]] = catalogue.read(SAMPLE)


def changed(change: Change) -> Document:
    document = copy.deepcopy(dict(GOOD))
    change(document)
    return document


def run(url: str, test: Callable[[Pool], Awaitable[None]]) -> None:
    """A test on a database with the sample in it."""

    async def inside() -> None:
        async with pool_of(url) as pool:
            await load(pool, GOOD)
            await test(pool)

    asyncio.run(inside())


async def state(pool: Pool) -> dict[str, list[dict[str, Any]]]:
    """All that a load could touch."""
    tables = ("regions", "os_images", "skus", "accounts", "projects", "ssh_keys", "nodes",
              "node_offers", "slots", "ledger")  # fmt: skip
    return {name: await rows(pool, f"select * from {name} order by 1, 2") for name in tables}


async def ask(pool: Pool, gpus: int = 8, **changes: Any) -> str:
    """An allocation on node-a, with the key of the sample."""
    given = {"sku": "h200-sxm-slice", "project": "prj_demo", "ssh_keys": ("key_demo",), **changes}
    row = await request.request(pool, NEW, order(gpus, **given))
    assert row["node_id"] == "node-a"
    return str(row["id"])


def test_a_sample_can_be_asked_for_at_once(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        await ask(pool, 2)

        assert await value(pool, "select count(*) from slots where status = 'reserved'") == 2
        assert await value(pool, "select sum(amount_minor) from ledger") == 100_000

    run(database_url, test)


def test_loading_twice_is_loading_once(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        before = await state(pool)
        again = await load(pool, GOOD)

        assert await state(pool) == before
        assert (again.made, again.changed) == ({}, {})
        assert again.same == {
            "region": 1, "image": 1, "sku": 2, "account": 1, "project": 1, "ssh_key": 1,
            "node_kind": 1,
            "credit": 1, "node": 2, "slot": 16,
        }  # fmt: skip

    run(database_url, test)


def test_a_change_is_counted_and_what_is_not_said_stays(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        sku = {**GOOD["sku"][0], "gpu_hourly_price_minor": 500}
        del sku["display_name"]
        loaded = await load(pool, {"sku": [sku]})

        assert (loaded.made, loaded.changed, loaded.same) == ({}, {"sku": 1}, {})
        (row,) = await rows(pool, "select * from skus where sku = 'h200-sxm-slice'")
        assert row["gpu_hourly_price_minor"] == 500
        assert row["display_name"] == "H200 SXM, in slices"
        assert await value(pool, "select count(*) from nodes") == 2

    run(database_url, test)


def test_several_loads_at_once_are_one(database_url: str) -> None:
    async def inside() -> None:
        async with pool_of(database_url) as pool, asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(load(pool, GOOD))

    asyncio.run(inside())
    run(database_url, _has_one_credit)


async def _has_one_credit(pool: Pool) -> None:
    assert await value(pool, "select count(*) from ledger") == 1


REFUSED: Final[Mapping[str, tuple[Change, str]]] = {
    "a region in capitals": (
        lambda d: d.update(region=[{"code": "Region", "name": ""}]),
        "region Region: code may not be 'Region'",
    ),
    "a node in a region that there is not": (
        lambda d: d["node"][1].update(region="mars"),
        'node node-b: Key (region)=(mars) is not present in table "regions"',
    ),
    "a node sold under a name that there is not": (
        lambda d: d["node"][1]["sold_as"].append("h900"),
        'node node-b: Key (sku)=(h900) is not present in table "skus"',
    ),
    "an image with half a hash": (
        lambda d: d["image"][0].update(sha256="abc"),
        "image ubuntu-24.04-h200-cuda: sha256 may not be 'abc'",
    ),
    "a node that begins in a state that there is not": (
        lambda d: d["node"].append({**d["node"][0], "id": "node-c", "status": "happy"}),
        "node node-c: status may not be 'happy'",
    ),
    "another opening credit": (
        lambda d: d["account"][0].update(opening_credit_minor=1),
        "account acc_demo: opening_credit_minor was given already, and another one: "
        "credit the difference instead",
    ),
    "another currency": (
        lambda d: d["account"][0].update(currency="EUR"),
        "account acc_demo: currency cannot go from 'USD' to 'EUR' while its ledger has entries, "
        "or it has allocations",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_one_wrong_entry_and_nothing_is_loaded(database_url: str, what: str) -> None:
    change, line = REFUSED[what]

    async def test(pool: Pool) -> None:
        before = await state(pool)
        document = changed(change)
        document["region"] = [*document["region"], {"code": "also-new", "name": ""}]
        with pytest.raises(CatalogueRefused) as refused:
            await load(pool, document)

        assert str(refused.value) == line
        assert await state(pool) == before

    run(database_url, test)


def _slot(index: int, **changes: Any) -> Change:
    return lambda d: d["node"][0]["slots"][index].update(changes)


HELD: Final[Mapping[str, tuple[Change, str]]] = {
    "its GPU": (
        _slot(0, pci_address="0000:ff:00.0"),
        "slot node-a/0: pci_address cannot go from '0000:19:00.0' to '0000:ff:00.0' while an "
        "allocation holds it",
    ),
    "its address": (
        _slot(7, private_ip="10.9.9.9"),
        "slot node-a/7: private_ip cannot go from '10.20.1.17' to '10.9.9.9' while an allocation "
        "holds it",
    ),
    "its slot": (
        lambda d: d["node"][0]["slots"].pop(),
        "node node-a: gpus_total cannot go from 8 to 7 while an allocation holds it or a part of "
        "it",
    ),
    "its node's memory": (
        lambda d: d["node"][0].update(memory_mib=1),
        "node node-a: memory_mib cannot go from 1048576 to 1 while an allocation holds it or a "
        "part of it",
    ),
    "its node's place": (
        lambda d: (d["region"].append({"code": "r2", "name": ""}),
                   d["node"][0].update(region="r2")),
        "node node-a: region cannot go from 'region-1' to 'r2' while an allocation holds it or a "
        "part of it",
    ),
    "its key": (
        lambda d: d["ssh_key"][0].update(public_key="ssh-ed25519 BBBB"),
        f"ssh_key key_demo: public_key cannot go from '{GOOD['ssh_key'][0]['public_key']}' to "
        "'ssh-ed25519 BBBB' while an allocation was given it",
    ),
    "its payer": (
        lambda d: (d["account"].append({"id": "acc_two"}),
                   d["project"][0].update(account_id="acc_two")),
        "project prj_demo: account_id cannot go from 'acc_demo' to 'acc_two' while it holds an "
        "allocation",
    ),
}  # fmt: skip
SLICED: Final[Mapping[str, tuple[Change, str]]] = {
    "its share of the CPU": (
        lambda d: d["sku"][0].update(cpu_milli_per_gpu=1),
        "sku h200-sxm-slice: cpu_milli_per_gpu cannot go from 24000 to 1 while an allocation of it "
        "is held",
    ),
    "its image": (
        lambda d: d["image"][0].update(sha256="0" * 64),
        f"image ubuntu-24.04-h200-cuda: sha256 cannot go from '{GOOD['image'][0]['sha256']}' to "
        f"'{'0' * 64}' while an allocation is being made from it",
    ),
    "its slot out of service": (
        _slot(0, status="disabled"),
        "slot node-a/0: status does not go from reserved to disabled",
    ),
}


@pytest.mark.parametrize(
    ("sku", "what"),
    [("h200-sxm-slice", what) for what in (*HELD, *SLICED)]
    + [("h200-sxm-baremetal-8g", what) for what in HELD],
)
def test_nobody_loses_what_he_holds_by_a_load(database_url: str, sku: str, what: str) -> None:
    change, line = {**HELD, **SLICED}[what]

    async def test(pool: Pool) -> None:
        await ask(pool, sku=sku)
        before = await state(pool)
        with pytest.raises(CatalogueRefused) as refused:
            await load(pool, changed(change))

        assert str(refused.value) == line
        assert await state(pool) == before

    run(database_url, test)


def test_what_is_held_does_not_keep_the_rest_from_changing(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        await ask(pool, 1)
        held = await value(pool, "select slot_index from slots where status = 'reserved'")
        other = (held + 1) % 8
        loaded = await load(pool, changed(_slot(other, pci_address="0000:ff:00.0")))

        assert loaded.changed == {"slot": 1}
        assert await value(pool, "select count(*) from slots where status = 'reserved'") == 1

    run(database_url, test)


def test_a_load_frees_no_slot_that_is_held_or_blocked(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        await ask(pool, 1)
        async with transaction(pool) as tx:
            await tx.execute("update slots set status = 'cleanup_blocked' where id = 'node-b/5'")
        before = await state(pool)
        slots = [{**one, "status": "available"} for one in GOOD["node"][0]["slots"]]
        nodes = [{**node, "slots": slots} for node in GOOD["node"]]
        nodes[1]["slots"] = [{"status": "available"} for _ in range(8)]
        await load(pool, {"node": nodes})

        assert await state(pool) == before

    run(database_url, test)


def test_a_slot_is_taken_out_of_service_and_back(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        status = "select status from slots where id = 'node-a/3'"
        await load(pool, changed(_slot(3, status="disabled")))
        assert await value(pool, status) == "disabled"
        await load(pool, GOOD)
        assert await value(pool, status) == "disabled", "a file that says nothing changes nothing"
        await load(pool, changed(_slot(3, status="available")))
        assert await value(pool, status) == "available"

    run(database_url, test)


def test_a_drained_node_stays_drained(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        async with transaction(pool) as tx:
            await tx.execute("update nodes set status = 'draining' where id = 'node-a'")
        await load(pool, GOOD)

        assert await value(pool, "select status from nodes where id = 'node-a'") == "draining"

    run(database_url, test)


def test_a_new_node_waits_for_its_agent_unless_it_is_said(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        node = {**GOOD["node"][0], "id": "node-c"}
        del node["status"]
        await load(pool, {"node": [node]})

        status = await value(pool, "select status from nodes where id = 'node-c'")
        assert status == "bootstrap_issued"

    run(database_url, test)


def test_slots_at_the_end_are_taken_away_unless_they_have_a_past(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        shorter = changed(lambda d: [d["node"][0]["slots"].pop() for _ in range(4)])
        await load(pool, shorter)
        assert await value(pool, "select count(*) from slots where node_id = 'node-a'") == 4

        await load(pool, GOOD)
        await _end(pool, await ask(pool))
        with pytest.raises(CatalogueRefused, match="keep it, with status disabled"):
            await load(pool, shorter)
        assert await value(pool, "select count(*) from slots where node_id = 'node-a'") == 8

    run(database_url, test)


async def _end(pool: Pool, allocation: str) -> None:
    await begin(pool, allocation)
    await activate(pool, allocation)
    async with transaction(pool) as tx:
        await tx.execute(
            """update allocations set status = 'releasing', releasing_at = clock_timestamp(),
                      version = version + 1, release_initiator = 'tenant', release_attempt = 1"""
        )
        await tx.execute("update claims set status = 'releasing'")
        await tx.execute("update slots set status = 'releasing' where status = 'in_use'")
    await prove(pool, allocation)


def test_what_was_held_may_change_when_it_is_given_back(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        await _end(pool, await ask(pool))
        for change, _ in HELD.values():
            document = changed(change)
            if len(document["node"][0]["slots"]) == 8:
                await load(pool, document)

    run(database_url, test)


def test_the_further_names_are_exactly_those_said(database_url: str) -> None:
    async def test(pool: Pool) -> None:
        await load(pool, changed(lambda d: d["node"][0].update(sold_as=["h200-sxm-slice"])))

        assert await rows(pool, "select node_id from node_offers") == [{"node_id": "node-b"}]

    run(database_url, test)
