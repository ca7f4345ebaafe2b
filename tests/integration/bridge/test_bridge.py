"""Tenancy and a shard with real processes between them: one pool, by priority."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import nursery
import outside
from bridging import SETTINGS, SLICE, WHOLE, Stage, staged
from mainstay.model.errors import NoCapacity
from mainstay.tenancy.database.embedded import Server
from postgres import server  # noqa: F401 - a fixture
from running import until

NOTICES = "select envelope -> 'payload' as told from outbox where event_type = %s"


@pytest.fixture
def stage(tmp_path: Path, server: Server) -> Iterator[Stage]:  # noqa: F811
    with staged(tmp_path / "home", server, slots=2) as stage:
        yield stage


def test_an_order_waits_for_a_machine_gets_it_and_gives_it_back(stage: Stage) -> None:
    """Without a bridge the answer is no at once; with one, a machine is bought and joins."""
    body = {"sku": SLICE, "gpus": 4, "region": "region-1"}
    with pytest.raises(NoCapacity):
        stage.client().post("/capacity-requests", body)
    bridge = stage.bridge()
    until(lambda: bridge.page("/readyz")[0] == 200)

    first, second = stage.order(8), stage.order(8)
    held = [stage.placed(first), stage.placed(second)]

    assert len(stage.serving("tenants")) == 2
    third = stage.order(8)
    until(lambda: bridge.metric("mainstay_bridge_waiting_requests") == 1)
    assert [row["state"] for row in stage.rows("select state from bridge_nodes")] == ["open"] * 2
    env = outside.environment(
        MAINSTAY_HOME=str(stage.home.path), MAINSTAY_SERVER=stage.api.facts["addresses"]["api"]
    )  # the API's, and no shard's
    why = nursery.run(("explain", "allocation", third), cwd=stage.home.path, env=env)
    assert f"The capacity request {third} is waiting" in why.stdout, why.stderr
    need = re.findall(r"`mainstay explain need tenants/(\w{8})`", why.stdout)
    asked = stage.home.run("get", "needs", "--cluster", "tenants", "--unmet", "-o", "json")
    assert [row["fingerprint"][:8] for row in json.loads(asked.stdout)] == need
    assert "When: never as things are, because nothing that is on its way would do" in why.stdout

    stage.release(held[0])
    held[0] = stage.placed(third)  # a machine that is free is not bought again
    assert stage.rows("select max(incarnation) as lives from bridge_nodes")[0]["lives"] == 1

    for allocation in held:
        stage.release(allocation)
    until(lambda: set(stage.machines().values()) == {("Speculative", "")})
    until(lambda: len(stage.lives("retired")) == 2)
    assert stage.faults() == {}
    with pytest.raises(NoCapacity):
        stage.client().post("/capacity-requests", {**body, "gpus": 3})


def test_with_the_bridge_in_it_the_api_waits_for_no_shard_and_takes_its_session_when_it_comes(
    stage: Stage,
) -> None:
    stage.shard.kill()
    plain = SETTINGS.replace("[bridge]", "[bridge]\ninsecure = true")
    (stage.home.path / "mainstay.toml").write_text(plain)

    stage.restart_api("--shard", stage.shard.grpc, "--cluster-id", "web", "--simulate-machines")

    assert stage.api.facts["cluster"] == "web"
    assert stage.api.page("/readyz")[0] == 200
    assert stage.api.metric("mainstay_bridge_connected") == 0
    stage.restart_shard()
    until(lambda: stage.api.metric("mainstay_bridge_connected") == 1)
    stage.placed(stage.order(8))
    assert len(stage.serving("web")) == 1


def test_with_head_room_a_node_is_free_without_an_order_and_another_when_it_is_taken(
    stage: Stage,
) -> None:
    stage.bridge("--head-room", "h200-8=1")
    (free,) = until(lambda: stage.lives("open"))
    assert stage.rows("select id from capacity_requests") == []

    body = {"sku": WHOLE, "gpus": 8, "region": "region-1"}
    held = stage.client().post("/allocations", body)["allocation_id"]  # nobody waits for it

    assert stage.rows("select node_id from allocations where id = %s", held) == [
        {"node_id": free["node_id"]}
    ]
    until(lambda: len(stage.lives("open")) == 2)
    assert len(stage.serving("tenants")) == 2
    assert stage.faults() == {}


def test_a_request_ends_once_as_cancelled_or_expired(stage: Stage) -> None:
    rival = stage.rival(2, 1_000)
    until(lambda: len(stage.serving("rival")) == 2)
    bridge = stage.bridge()
    until(lambda: bridge.page("/readyz")[0] == 200)
    body = {"sku": SLICE, "gpus": 1, "region": "region-1", "wait_s": 1}

    request = stage.order(1, sku=SLICE)
    late = stage.client().post("/capacity-requests", body)["request_id"]

    cancelled = stage.client().post(f"/capacity-requests/{request}/cancel")
    assert cancelled["state"] == "cancelled"
    until(lambda: stage.client().get(f"/capacity-requests/{late}")["state"] == "expired")
    again = stage.client().post(f"/capacity-requests/{late}/cancel")
    assert again["state"] == "expired"
    assert stage.rows("select id from allocations") == []
    assert rival.poll() is None
    assert len(stage.serving("rival")) == 2  # tenants of no importance take nothing away


def test_the_more_important_side_gets_the_machine_both_ways(stage: Stage) -> None:
    """A project above the cluster takes its machine; a cluster above the project takes it back."""
    stage.rival(2, 1_000)
    until(lambda: len(stage.serving("rival")) == 2)
    stage.rows("update projects set priority = 2000 returning id")
    bridge = stage.bridge()
    until(lambda: bridge.page("/readyz")[0] == 200)

    allocation = stage.placed(stage.order(8))

    assert (len(stage.serving("rival")), len(stage.serving("tenants"))) == (1, 1)
    stage.others[-1].kill()
    stage.others[-1].wait()
    stage.rival(2, 2_000_000)
    until(lambda: stage.status(allocation) == "released")
    until(lambda: len(stage.serving("rival")) == 2)
    (notice,) = stage.rows(NOTICES, "provisioning.reclaim_notice")
    assert notice["told"]["allocation_id"] == allocation
    assert notice["told"]["preemptor_priority"] == 2_000_000
    until(lambda: not stage.lives("draining"))
    assert stage.faults() == {}


def test_who_is_preempted_is_told_and_has_the_grace(tmp_path: Path, server: Server) -> None:  # noqa: F811
    """The provider holds the machine until the grace ends: clean-up is proved by the agent."""
    with staged(tmp_path / "home", server, slots=2, holds_grace=True) as stage:
        bridge = stage.bridge()
        until(lambda: bridge.page("/readyz")[0] == 200)
        held = [stage.placed(request) for request in [stage.order(8), stage.order(8)]]

        stage.rival(1, 1_000_000)

        (life,) = until(lambda: stage.lives("draining") or stage.lives("retired"))
        assert life["preemptor_priority"] == 1_000_000
        assert life["reason"] == "taken by demand of priority 1000000, with 10 s of grace"
        taken = until(lambda: [each for each in held if stage.status(each) == "released"])
        assert ("Draining", "tenants") in stage.machines().values()
        (gone,) = taken
        (proof,) = stage.rows("select proof from allocations where id = %s", gone)
        assert "by" not in proof["proof"]
        (line,) = stage.rows("select * from audit where action = 'allocation.reclaim'")
        assert (line["target_id"], line["metadata"]["reason"]) == (gone, life["reason"])
        notices = until(lambda: stage.client().get("/notices", limit=200)["items"])
        told = [each for each in notices if each["event_type"] == "provisioning.reclaim_notice"]
        assert [each["allocation_id"] for each in told] == [gone]
        until(lambda: len(stage.serving("rival")) == 1)
        (other,) = set(held) - {gone}
        assert stage.status(other) == "active"
        assert stage.faults() == {}


def test_a_free_machine_goes_before_one_that_is_held(stage: Stage) -> None:
    """The shard keeps the first by price, penalty and id: no fewer are asked for than reach it."""
    bridge = stage.bridge()
    until(lambda: bridge.page("/readyz")[0] == 200)
    held = [stage.placed(request) for request in [stage.order(8), stage.order(8)]]
    nodes = {row["id"]: row["node_id"] for row in stage.rows("select id, node_id from allocations")}
    first, last = sorted(held, key=lambda each: nodes[each])

    stage.release(first)
    until(lambda: stage.status(first) == "released")
    bridge.kill()
    stage.bridge()
    until(lambda: bridge.popen.poll() is not None)

    again = stage.placed(stage.order(8))
    assert stage.status(last) == "active"
    stage.release(last)
    until(lambda: stage.status(last) == "released")
    until(lambda: len(stage.serving("tenants")) == 1)
    assert stage.status(again) == "active"
    assert stage.faults() == {}
