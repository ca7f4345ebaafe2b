"""EC2 as a provider: what is launched, found again, exchanged, ended and never touched."""

import asyncio
import dataclasses
import io
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import structlog

from hardware import ids, serving, state_of
from mainstay.model.calls import (
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
)
from mainstay.model.errors import Rejected
from mainstay.model.notice import InterruptionNotice
from mainstay.model.state import State
from mainstay.providers.ec2.backend import Ec2Backend
from mainstay.providers.ec2.cloud import BLOB_BYTES_MAX, Cloud
from mainstay.providers.ec2.config import Ec2Config, config_of
from mainstay.providers.ec2.market import notices_in, prices_in
from mainstay.providers.ec2.tags import METADATA
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.server import ProviderServer
from mainstay.providers.kit.store import MemoryStore, SqliteStore, Store
from mainstay.runtime import log
from mainstay.runtime.clock import StepClock
from virtual_loop import LoopClock, run

POOL: Final = {
    "name": "m", "type": "m5.large", "zone": "us-east-1a", "capacity": "on-demand", "count": 2,
    "image": "ami-1", "price_per_hour": 0.096, "resources": {"cpu": 2, "memory": "8Gi"},
}  # fmt: skip
SPOT: Final = {**POOL, "name": "s", "capacity": "spot", "price_per_hour": 0.05}
SECRET: Final = b"#!/bin/sh\njoin --token very-secret\n"
ENOUGH_S: Final = 120.0
AT_WORK: Final = {State.CREATING, State.CONFIGURING, State.DRAINING, State.DELETING}


class Refusal(Exception):
    """As botocore's ClientError."""

    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__(code)
        error = {"Code": code, "Message": "as EC2 says it"}
        self.response = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}


class ReadTimeoutError(Exception):
    """As botocore's."""


class FakeEc2:
    """The few calls of the client that we make, and what may go wrong with them."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = {}
        self.user_data: dict[str, bytes] = {}
        self.raises: dict[str, list[Exception]] = {}
        self.calls: list[str] = []
        self.tokens: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []
        self.unseen_s = 0.0
        """How long a new instance is not shown."""

        self.stale = False
        """Whether ended instances are shown as running for ever."""

        self.answers_lost = 0
        self.dies = ""
        """Why the next instance ends instead of running."""

        self.boot_s = 10.0
        self.ending_s = 0.0
        """How long an instance that was ended still takes up room."""

        self.room = 1000
        self.unchecked: set[str] = set()
        self._numbers = itertools.count(1)

    def _begin(self, name: str) -> float:
        self.calls.append(name)
        if self.raises.get(name):
            raise self.raises[name].pop(0)
        return asyncio.get_running_loop().time()

    def run_instances(self, **asked: Any) -> Any:
        now_s = self._begin("run_instances")
        if sum(self._state(each) != "terminated" for each in self.there.values()) >= self.room:
            raise Refusal("InsufficientInstanceCapacity")
        assert asked["MinCount"] == asked["MaxCount"] == 1
        self.tokens.append(asked["ClientToken"])
        name = f"i-{next(self._numbers):03}"
        tags = next(
            s["Tags"] for s in asked["TagSpecifications"] if s["ResourceType"] == "instance"
        )
        assert len(tags) <= 50
        self.there[name] = {
            "InstanceId": name,
            "InstanceType": asked["InstanceType"],
            "Placement": asked["Placement"],
            "LaunchTime": datetime.fromtimestamp(now_s, UTC),
            "Tags": tags,
            "launched_s": now_s,
            "ended": False,
            "why": self.dies,
        } | ({"InstanceLifecycle": "spot"} if "InstanceMarketOptions" in asked else {})
        self.dies = ""
        if "UserData" in asked:
            self.user_data[name] = asked["UserData"]
        if self.answers_lost:
            self.answers_lost -= 1
            raise ReadTimeoutError
        return {"Instances": [{"InstanceId": name}]}

    def describe_instances(self, *, Filters: Any, MaxResults: int = 0) -> Any:  # noqa: N803
        now_s = self._begin("describe_instances")
        wanted = {each["Name"]: each["Values"] for each in Filters}
        found = [
            {**each, "State": {"Name": self._state(each)}, "StateReason": {"Message": each["why"]}}
            for each in self.there.values()
            if each["launched_s"] + self.unseen_s <= now_s
        ]
        provider = wanted.get("tag:mainstay:provider", [None])[0]
        slots = wanted.get("tag:mainstay:slot")
        states, names = wanted.get("instance-state-name"), wanted.get("instance-id")
        shown = [
            each
            for each in found
            if (provider is None or {"Key": "mainstay:provider", "Value": provider} in each["Tags"])
            and (states is None or each["State"]["Name"] in states)
            and (slots is None or self.tags(each["InstanceId"]).get("mainstay:slot") in slots)
            and (names is None or each["InstanceId"] in names)
        ]
        return {"Reservations": [{"Instances": [each]} for each in shown]}

    def terminate_instances(self, *, InstanceIds: list[str]) -> Any:  # noqa: N803
        now_s = self._begin("terminate_instances")
        for name in InstanceIds:
            self.there[name] |= {"ended": True, "gone_s": now_s + self.ending_s}

    def describe_instance_status(self, *, InstanceIds: list[str]) -> Any:  # noqa: N803
        self._begin("describe_instance_status")
        if not set(InstanceIds) <= self.there.keys():
            raise Refusal("InvalidInstanceID.NotFound")
        status = {name: "initializing" if name in self.unchecked else "ok" for name in InstanceIds}
        return {
            "InstanceStatuses": [
                {"InstanceId": name, "InstanceStatus": {"Status": code},
                 "SystemStatus": {"Status": "ok"}}
                for name, code in status.items()
            ]
        }  # fmt: skip

    def describe_spot_instance_requests(self, **_: Any) -> Any:
        self._begin("describe_spot_instance_requests")
        return {"SpotInstanceRequests": self.requests}

    def describe_spot_price_history(self, **_: Any) -> Any:
        self._begin("describe_spot_price_history")
        return {"SpotPriceHistory": self.history}

    def _state(self, instance: dict[str, Any]) -> str:
        now_s = asyncio.get_running_loop().time()
        if (instance["ended"] and not self.stale) or instance["why"]:
            return "terminated" if now_s >= instance.get("gone_s", 0.0) else "shutting-down"
        return "running" if now_s >= instance["launched_s"] + self.boot_s else "pending"

    def live(self) -> list[str]:
        return [name for name, each in self.there.items() if not each["ended"] and not each["why"]]

    def tags(self, name: str) -> dict[str, str]:
        return {each["Key"]: each["Value"] for each in self.there[name]["Tags"]}


def config(*pools: dict[str, Any], **parts: Any) -> Ec2Config:
    parsed = {"name": "aws", "region": "us-east-1", "pool": list(pools or (POOL,)), **parts}
    return config_of(parsed, folder=Path())


async def as_long_as_a_call_takes(function: Callable[[], Any]) -> Any:
    await asyncio.sleep(0.1)
    return function()


async def at_once(function: Callable[[], Any]) -> Any:
    return function()


def backend(ec2: FakeEc2, given: Ec2Config | None = None) -> Ec2Backend:
    given = given or config()
    return Ec2Backend(given, Cloud(ec2, given, at_once), LoopClock())


Scenario = Callable[[ProviderServer], Awaitable[None]]
NEVER: Final = Options(reconcile_interval_s=1e6)


async def served(
    ec2: FakeEc2, scenario: Scenario, given: Ec2Config | None = None, store: Store | None = None
) -> None:
    async with serving(backend(ec2, given), options=NEVER, store=store) as server:
        await scenario(server)


def with_ec2(ec2: FakeEc2, scenario: Scenario, *pools: dict[str, Any], **parts: Any) -> None:
    run(served(ec2, scenario, config(*pools, **parts)))


def lives(path: Path, ec2: FakeEc2, *each: Scenario, now: Ec2Config | None = None) -> None:
    """Lives of a provider on one store, the last with another configuration."""
    ec2.boot_s = 0.05

    async def life(scenario: Scenario, given: Ec2Config) -> None:
        store = SqliteStore(path / "provider.db")
        try:
            await served(ec2, scenario, given, store)
        finally:
            store.close()

    for number, scenario in enumerate(each, start=1):
        given = now if now and number == len(each) else config()
        timing = dataclasses.replace(given.timing, poll_s=0.01)
        asyncio.run(life(scenario, dataclasses.replace(given, timing=timing)))


async def settled(server: ProviderServer, machine: str) -> str:
    """Its host, when its step has ended."""
    for _ in range(100_000):
        if await state_of(server, machine) not in AT_WORK:
            return await host(server, machine)
        await asyncio.sleep(0.02)
    raise AssertionError(f"never settled: {machine}")


async def created(server: ProviderServer, machine: str = "m-0") -> str:
    await server.create(CreateRequest(machine))
    return await settled(server, machine)


async def joined(server: ProviderServer, machine: str = "m-0", **metadata: str) -> str:
    await server.configure(ConfigureRequest(machine, "web", SECRET, metadata))
    return await settled(server, machine)


async def drained(server: ProviderServer, machine: str = "m-0") -> str:
    await server.drain(DrainRequest(machine))
    return await settled(server, machine)


async def host(server: ProviderServer, machine: str = "m-0") -> str:
    found = (await server.get(GetRequest(machine))).host
    return found.ref if found else ""


async def error(server: ProviderServer, machine: str = "m-0") -> str:
    return (await server.get(GetRequest(machine))).last_error


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """All that is logged, down to the least."""
    written = io.StringIO()
    log.configure(StepClock(), stream=written, level=logging.DEBUG)
    yield written
    structlog.reset_defaults()


class TestLifecycle:
    def test_each_purpose_has_an_instance_of_its_own(self) -> None:
        """User data is read at the first boot, and a disk remembers: nothing is reused."""
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            idle = await created(server)
            assert ec2.live() == [idle]
            assert idle not in ec2.user_data
            serves = await joined(server)
            assert await state_of(server, "m-0") is State.CONFIGURED
            assert ec2.live() == [serves]
            assert ec2.user_data == {serves: SECRET}
            emptied = await drained(server)
            assert await state_of(server, "m-0") is State.IDLE
            assert ec2.live() == [emptied]
            assert len({idle, serves, emptied}) == 3
            await server.delete(DeleteRequest("m-0"))
            await asyncio.sleep(ENOUGH_S)
            assert await state_of(server, "m-0") is State.SPECULATIVE
            assert ec2.live() == []
            assert len(set(ec2.tokens)) == 3

        with_ec2(ec2, scenario)

    def test_tags_say_whose_an_instance_is_and_whom_it_serves(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            idle, serves = await created(server), await joined(server, k="v")
            about = {"mainstay:provider": "aws", "mainstay:slot": "m-0", "mainstay:machine": "m-0",
                     "Name": "m-0", "team": "infra"}  # fmt: skip
            assert ec2.tags(idle).items() >= {**about, "mainstay:role": "idle"}.items()
            assert ec2.tags(serves).items() >= {
                **about, "mainstay:role": "serving", "mainstay:cluster": "web",
            }.items()  # fmt: skip
            assert f"{METADATA}00" in ec2.tags(serves)

        with_ec2(ec2, scenario, tags={"team": "infra"})

    def test_the_blob_is_in_no_tag_no_log_and_no_error(self, lines: io.StringIO) -> None:
        ec2 = FakeEc2()

        class ParamValidationError(ReadTimeoutError):
            """As botocore's, which shows what was sent."""

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            ec2.raises["run_instances"] = [ParamValidationError(SECRET), Refusal("Blocked")]
            await joined(server)
            assert await state_of(server, "m-0") is State.FAILED
            assert "secret" not in await error(server)
            await created(server, "m-1")
            serves = await joined(server, "m-1")
            assert ec2.user_data[serves] == SECRET
            assert "secret" not in str(ec2.tags(serves))

        with_ec2(ec2, scenario)

        assert "instance_launched" in lines.getvalue()
        assert "secret" not in lines.getvalue()

    def test_a_machine_is_configured_only_when_both_status_checks_have_passed(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            ec2.unchecked = {"i-002"}
            await server.configure(ConfigureRequest("m-0", "web", SECRET))
            await asyncio.sleep(ENOUGH_S)
            assert await state_of(server, "m-0") is State.CONFIGURING
            ec2.unchecked.clear()
            await settled(server, "m-0")
            assert await state_of(server, "m-0") is State.CONFIGURED

        with_ec2(ec2, scenario)

    def test_status_checks_are_not_asked_for_when_they_are_not_wanted(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            await joined(server)
            assert await state_of(server, "m-0") is State.CONFIGURED

        with_ec2(ec2, scenario, timing={"status_checks": False})

        assert "describe_instance_status" not in ec2.calls


class TestOnlyOne:
    def test_a_lost_answer_does_not_become_a_second_instance(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            ec2.answers_lost = 1
            assert await created(server) == "i-001"
            assert ec2.live() == ["i-001"]
            assert ec2.calls.count("run_instances") == 1

        with_ec2(ec2, scenario)

    def test_even_when_ec2_does_not_show_it_at_once(self) -> None:
        """Then a second one is launched, under the same token, and ended where that is ignored."""
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            ec2.answers_lost, ec2.unseen_s = 1, 30.0
            assert await created(server) == "i-001"
            assert len(set(ec2.tokens)) == 1
            assert len(ec2.tokens) == 2
            assert ec2.live() == ["i-001"]

        with_ec2(ec2, scenario)

    def test_two_who_create_at_once_end_with_one_instance(self) -> None:
        ec2 = FakeEc2()
        ec2.unseen_s = 5.0

        async def both() -> None:
            async with (
                serving(backend(ec2), options=NEVER) as one,
                serving(backend(ec2), options=NEVER, store=MemoryStore("other")) as other,
            ):
                await one.create(CreateRequest("m-0"))
                await other.create(CreateRequest("m-0"))
                await asyncio.sleep(ENOUGH_S)
                assert len(ec2.tokens) == 2
                assert ec2.live() == ["i-001"]
                assert await host(one) == await host(other) == "i-001"

        run(both())

    def test_what_a_race_left_over_is_ended_at_the_next_look(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            kept = await created(server)
            ec2.there["i-x"] = {**ec2.there[kept], "InstanceId": "i-x", "launched_s": -9.0}
            await server.reconcile()
            assert ec2.live() == [kept]
            assert await host(server) == kept

        with_ec2(ec2, scenario)

    def test_what_a_step_has_just_launched_is_not_left_over(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            await joined(server)
            await server.drain(DrainRequest("m-0"))
            await asyncio.sleep(1)
            await server.reconcile()
            assert await settled(server, "m-0") == "i-003"
            assert len(ec2.tokens) == 3

        with_ec2(ec2, scenario)

    def test_an_instance_that_serves_is_never_left_over(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            serves = await joined(server)
            ec2.there["i-x"] = {**ec2.there[serves], "InstanceId": "i-x"}
            await server.reconcile()
            assert ec2.live() == [serves, "i-x"]

        with_ec2(ec2, scenario)

    def test_what_was_ended_stays_so_whatever_ec2_shows(self) -> None:
        """Its lists are behind; a machine must not fail because of its own past."""
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            ec2.stale = True
            await created(server)
            await joined(server)
            await drained(server)
            serves = await joined(server)
            assert await state_of(server, "m-0") is State.CONFIGURED
            assert ec2.live() == [serves]

        with_ec2(ec2, scenario)


class TestErrors:
    def test_throttling_is_waited_out(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            ec2.raises["run_instances"] = [Refusal("RequestLimitExceeded"), Refusal("?", 503)]
            assert await created(server) == "i-001"

        with_ec2(ec2, scenario)

        assert ec2.calls.count("run_instances") == 3

    @pytest.mark.parametrize("code", ["InsufficientInstanceCapacity", "VcpuLimitExceeded"])
    def test_no_capacity_is_told_as_such_and_not_tried_again(self, code: str) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            ec2.raises["run_instances"] = [Refusal(code)]
            await created(server)
            assert await error(server) == f"create: EC2 has none left: {code}: as EC2 says it"

        with_ec2(ec2, scenario)

        assert ec2.calls.count("run_instances") == 1

    def test_an_instance_that_ends_before_it_runs_fails_the_machine_with_ec2s_reason(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            ec2.dies = "Server.InsufficientInstanceCapacity"
            await created(server)
            why = "instance i-001 ended before it ran: Server.InsufficientInstanceCapacity"
            assert await error(server) == f"create: {why}"

        with_ec2(ec2, scenario)

    def test_where_there_is_no_room_for_two_the_old_one_makes_room(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            idle = await created(server)
            ec2.room = 1
            serves = await joined(server)
            assert await state_of(server, "m-0") is State.CONFIGURED
            assert ec2.live() == [serves]
            assert serves != idle
            emptied = await drained(server)
            assert ec2.live() == [emptied] != [serves]
            assert await state_of(server, "m-0") is State.IDLE

        with_ec2(ec2, scenario)

    def test_room_is_there_when_the_old_one_is_gone_and_not_before(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            ec2.room, ec2.ending_s = 1, 30.0
            serves = await joined(server)
            assert await state_of(server, "m-0") is State.CONFIGURED
            assert ec2.live() == [serves]

        with_ec2(ec2, scenario)

    def test_a_second_launch_is_not_taken_for_the_first(self) -> None:
        """EC2 answers a token it knows with the instance it made then, even a dead one."""
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            ec2.dies = "Server.InternalError"
            await joined(server)
            assert await state_of(server, "m-0") is State.CONFIGURED
            assert len(ec2.tokens) == len(set(ec2.tokens)) == 3

        with_ec2(ec2, scenario)

    def test_and_if_that_room_is_gone_too_the_machine_fails_with_the_reason(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            ec2.room = 0
            await joined(server)
            assert "configure: EC2 has none left" in await error(server)
            assert ec2.live() == []

        with_ec2(ec2, scenario)

    def test_a_call_that_hangs_is_given_up(self) -> None:
        async def never(function: Callable[[], Any]) -> Any:
            await asyncio.sleep(1e6)

        async def scenario() -> None:
            given = config()
            lost = Ec2Backend(given, Cloud(FakeEc2(), given, never), LoopClock())
            async with serving(lost, options=NEVER):
                pass

        with pytest.raises(Exception, match="did not answer describe_instances in time"):
            run(scenario())

    def test_so_many_calls_at_once_and_no_more(self) -> None:
        running = []
        most = 0

        async def slowly(function: Callable[[], Any]) -> Any:
            nonlocal most
            running.append(function)
            most = max(most, len(running))
            await asyncio.sleep(1)
            running.remove(function)
            return function()

        async def scenario() -> None:
            given = config({**POOL, "count": 20}, timing={"calls_at_once": 3})
            slow = Ec2Backend(given, Cloud(FakeEc2(), given, slowly), LoopClock())
            async with serving(slow, options=NEVER) as server:
                for number in range(20):
                    await server.create(CreateRequest(f"m-{number}"))
                await asyncio.sleep(ENOUGH_S)
                assert await ids(server, states=frozenset({State.IDLE})) == sorted(
                    f"m-{number}" for number in range(20)
                )

        run(scenario())
        assert most == 3

    @pytest.mark.parametrize("values_max", [200, 17])
    def test_those_who_wait_share_their_looks(
        self, values_max: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("mainstay.providers.ec2.cloud.VALUES_MAX", values_max)
        ec2 = FakeEc2()

        async def scenario() -> None:
            given = config({**POOL, "count": 50})
            there = Ec2Backend(given, Cloud(ec2, given, as_long_as_a_call_takes), LoopClock())
            async with serving(there, options=NEVER) as server:
                for number in range(50):
                    await server.create(CreateRequest(f"m-{number}"))
                await asyncio.sleep(ENOUGH_S)

        run(scenario())

        assert len(ec2.live()) == 50
        assert ec2.calls.count("describe_instances") < 60

    def test_an_id_that_ec2_does_not_know_does_not_speak_for_the_others(self) -> None:
        ec2 = FakeEc2()
        ec2.there = {"i-1": {}, "i-2": {}}

        async def scenario() -> None:
            cloud = Cloud(ec2, config(), as_long_as_a_call_takes)
            async with asyncio.TaskGroup() as tasks:
                asked = [
                    tasks.create_task(cloud.is_checked(name))
                    for name in ("i-1", "i-1", "i-ghost", "i-2")  # the first asks alone
                ]
            assert [task.result() for task in asked] == [True, True, False, True]

        run(scenario())


class TestLimits:
    def test_a_blob_beyond_ec2s_user_data_is_refused_and_nothing_has_happened(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            with pytest.raises(Rejected, match="16385 bytes"):
                await server.configure(ConfigureRequest("m-0", "web", b"x" * (BLOB_BYTES_MAX + 1)))
            assert await state_of(server, "m-0") is State.IDLE

        with_ec2(ec2, scenario)

    def test_metadata_beyond_ec2s_tags_is_refused_and_nothing_has_happened(self) -> None:
        ec2 = FakeEc2()
        noise = {f"{n:x}": f"{n * 0x9E3779B97F4A7C15 % 2**64:016x}" for n in range(5000)}

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            with pytest.raises(Rejected, match="does not fit the tags"):
                await server.configure(ConfigureRequest("m-0", "web", SECRET, noise))
            assert await state_of(server, "m-0") is State.IDLE
            await joined(server, **dict(list(noise.items())[:300]))
            assert await state_of(server, "m-0") is State.CONFIGURED

        with_ec2(ec2, scenario)


class TestGrace:
    def test_workloads_get_the_time_they_were_promised(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            serves = await joined(server)
            await server.drain(DrainRequest("m-0", 600))
            await asyncio.sleep(590)
            assert ec2.live() == [serves]
            await asyncio.sleep(ENOUGH_S)
            assert await state_of(server, "m-0") is State.IDLE

        with_ec2(ec2, scenario)

    def test_an_instance_that_shuts_itself_down_is_not_waited_for(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            serves = await joined(server)
            await server.drain(DrainRequest("m-0", 3000))
            await asyncio.sleep(100)
            ec2.there[serves]["ended"] = True
            await asyncio.sleep(ENOUGH_S)
            assert await state_of(server, "m-0") is State.IDLE

        with_ec2(ec2, scenario)

    def test_no_grace_is_longer_than_the_longest(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            await joined(server)
            await server.drain(DrainRequest("m-0", 3000))
            await asyncio.sleep(ENOUGH_S)
            assert await state_of(server, "m-0") is State.IDLE

        with_ec2(ec2, scenario, timing={"grace_s_max": 30})


class TestMemory:
    def test_a_provider_that_lost_its_store_reads_from_tags_what_it_had(self) -> None:
        ec2 = FakeEc2()
        echo = {"k": "\x00\u2603", "": "empty key"}

        async def before(server: ProviderServer) -> None:
            await created(server)
            await created(server, "m-1")
            await server.configure(ConfigureRequest("m-0", "web", SECRET, echo))
            await asyncio.sleep(ENOUGH_S)

        async def after(server: ProviderServer) -> None:
            serves = await server.get(GetRequest("m-0"))
            assert serves.state is State.CONFIGURED
            assert (serves.cluster, dict(serves.shard_metadata)) == ("web", echo)
            assert await state_of(server, "m-1") is State.IDLE
            await drained(server)
            assert await state_of(server, "m-0") is State.IDLE

        async def whole() -> None:
            await served(ec2, before)
            await served(ec2, after)

        run(whole())

    def test_a_configure_that_a_restart_cut_off_can_be_drained_once_it_is_retired(
        self, tmp_path: Path
    ) -> None:
        ec2 = FakeEc2()

        async def before(server: ProviderServer) -> None:
            await created(server)
            ec2.boot_s = 1e6
            await server.configure(ConfigureRequest("m-0", "web", SECRET))
            while len(ec2.live()) < 2:  # noqa: ASYNC110 - it is launched, and boots
                await asyncio.sleep(0.01)

        async def after(server: ProviderServer) -> None:
            ec2.boot_s = 0.05
            assert await state_of(server, "m-0") is State.FAILED
            await server.retire("m-0", reason="a test")
            await server.reconcile()
            again = await server.get(GetRequest("m-0+1"))
            assert (again.state, again.cluster) == (State.CONFIGURED, "web")
            assert ec2.live() == ["i-002"]
            assert await drained(server, "m-0+1") == "i-003"
            assert ec2.live() == ["i-003"]

        lives(tmp_path, ec2, before, after)

    def test_so_can_one_that_took_too_long(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server)
            ec2.boot_s = 400.0
            await joined(server)
            assert await state_of(server, "m-0") is State.FAILED
            await asyncio.sleep(ENOUGH_S)
            await server.retire("m-0", reason="a test")
            await server.reconcile()
            again = await server.get(GetRequest("m-0+1"))
            assert (again.state, again.cluster) == (State.CONFIGURED, "web")
            assert ec2.live() == [await host(server, "m-0+1")] == ["i-002"]

        with_ec2(ec2, scenario)

    def test_a_create_that_a_restart_cut_off_goes_on_with_the_same_instance(
        self, tmp_path: Path
    ) -> None:
        ec2 = FakeEc2()

        async def before(server: ProviderServer) -> None:
            ec2.boot_s = 1e6
            await server.create(CreateRequest("m-0"))
            while not ec2.live():  # noqa: ASYNC110 - somebody else's event
                await asyncio.sleep(0.01)

        async def after(server: ProviderServer) -> None:
            ec2.boot_s = 0.05
            assert await settled(server, "m-0") == "i-001"
            assert ec2.live() == ["i-001"]

        lives(tmp_path, ec2, before, after)

    def test_a_slot_whose_instance_serves_is_not_created_into(self) -> None:
        """A store that is older than the truth must not cost somebody a node."""
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await created(server, "m-1")
            serves = await joined(server, "m-1")
            mark = [dict(tag) for tag in ec2.there[serves]["Tags"]]
            for tag in mark:
                tag["Value"] = tag["Value"].replace("m-1", "m-0")
            ec2.there["i-x"] = {**ec2.there[serves], "InstanceId": "i-x", "Tags": mark}
            await created(server)
            assert "instance i-x of it serves cluster web" in await error(server)
            assert ec2.live() == [serves, "i-x"]

        with_ec2(ec2, scenario)

    def test_a_pool_that_shrinks_keeps_what_is_running_until_it_is_deleted(
        self, tmp_path: Path
    ) -> None:
        ec2 = FakeEc2()

        async def before(server: ProviderServer) -> None:
            await created(server, "m-1")

        async def after(server: ProviderServer) -> None:
            assert await ids(server) == ["m-0", "m-1"]
            await server.delete(DeleteRequest("m-1"))
            await settled(server, "m-1")
            await server.reconcile()
            assert await ids(server) == ["m-0"]
            assert ec2.live() == []

        lives(tmp_path, ec2, before, after, now=config({**POOL, "count": 1}))

    def test_an_instance_of_another_type_than_its_pool_is_not_sold_as_the_pools(
        self, tmp_path: Path
    ) -> None:
        ec2 = FakeEc2()

        async def before(server: ProviderServer) -> None:
            await created(server)

        async def after(server: ProviderServer) -> None:
            assert (await server.get(GetRequest("m-0"))).profile.instance_type == "m5.large"
            assert (await server.get(GetRequest("m-1"))).profile.instance_type == "m5.xlarge"

        lives(tmp_path, ec2, before, after, now=config({**POOL, "type": "m5.xlarge"}))

    def test_an_instance_whose_tags_somebody_broke_is_left_alone(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            broken = await created(server)
            tags = [tag for tag in ec2.there[broken]["Tags"] if tag["Key"] != "mainstay:role"]
            ec2.there[broken]["Tags"] = tags
            await server.reconcile()
            await server.reconcile()
            assert ec2.live() == [broken]
            assert await host(server) == broken

        with_ec2(ec2, scenario)

    def test_an_instance_that_vanished_takes_its_machine_with_it(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            ec2.there[await created(server)]["ended"] = True
            await server.reconcile()
            assert await ids(server) == ["m-0+1", "m-1"]
            assert await state_of(server, "m-0+1") is State.SPECULATIVE

        with_ec2(ec2, scenario)


class TestSpotMarket:
    def test_the_price_is_ec2s_and_the_last_one_stays_when_it_does_not_answer(self) -> None:
        ec2 = FakeEc2()
        price = {"InstanceType": "m5.large", "AvailabilityZone": "us-east-1a",
                 "SpotPrice": "0.0431", "Timestamp": datetime(2026, 1, 1, tzinfo=UTC)}  # fmt: skip
        ec2.history = [price]

        async def scenario(server: ProviderServer) -> None:
            assert (await server.get(GetRequest("s-0"))).price_per_hour == 0.0431
            assert (await server.get(GetRequest("m-0"))).price_per_hour == 0.096
            ec2.raises["describe_spot_price_history"] = [Refusal("RequestLimitExceeded")]
            await asyncio.sleep(400)
            await server.reconcile()
            assert (await server.get(GetRequest("s-0"))).price_per_hour == 0.0431
            ec2.history = [{**price, "SpotPrice": "0.05"}]
            await server.reconcile()
            assert (await server.get(GetRequest("s-0"))).price_per_hour == 0.05

        with_ec2(ec2, scenario, POOL, SPOT)

    def test_until_then_it_is_the_pools(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            assert (await server.get(GetRequest("s-0"))).price_per_hour == 0.05

        with_ec2(FakeEc2(), scenario, SPOT)

    def test_a_machine_that_ec2_will_take_back_says_when(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            noticed, other = await created(server, "s-0"), await created(server, "s-1")
            at = datetime.fromtimestamp(100, UTC)
            ec2.requests = [
                {"InstanceId": noticed, "Status": {"Code": "marked-for-termination",
                                                   "UpdateTime": at}},
                {"InstanceId": other, "Status": {"Code": "fulfilled", "UpdateTime": at}},
                {"InstanceId": "i-of-others", "Status": {"Code": "marked-for-stop"}},
            ]  # fmt: skip
            await server.reconcile()
            told = (await server.list(ListRequest())).notices
            assert told == {"s-0": InterruptionNotice(220.0, "marked-for-termination")}
            assert server.capabilities.notices
            ec2.raises["describe_spot_instance_requests"] = [Refusal("RequestLimitExceeded")]
            await server.reconcile()
            assert (await server.list(ListRequest())).notices == told
            ec2.requests = []
            await server.reconcile()
            assert (await server.list(ListRequest())).notices == {}

        with_ec2(ec2, scenario, SPOT)

    def test_a_notice_without_a_time_names_none(self) -> None:
        request = {"InstanceId": "i-1", "Status": {"Code": "marked-for-stop"}}

        assert notices_in([request]) == {"i-1": InterruptionNotice(0.0, "marked-for-stop")}

    def test_of_several_prices_the_newest_counts(self) -> None:
        entry = {"InstanceType": "t", "AvailabilityZone": "z"}
        newer, older = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)

        prices = prices_in(
            [
                {**entry, "SpotPrice": "1", "Timestamp": older},
                {**entry, "SpotPrice": "0.5", "Timestamp": newer},
                {**entry, "SpotPrice": "2", "Timestamp": older},
            ]
        )

        assert prices == {("t", "z"): 0.5}

    def test_it_is_spot_that_is_asked_for_and_only_once(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            assert ec2.there[await created(server, "s-0")]["InstanceLifecycle"] == "spot"
            assert "InstanceLifecycle" not in ec2.there[await created(server, "m-0")]

        with_ec2(ec2, scenario, POOL, SPOT)

    def test_who_sells_no_spot_asks_nothing_of_the_market(self) -> None:
        ec2 = FakeEc2()

        async def scenario(server: ProviderServer) -> None:
            await server.reconcile()

        with_ec2(ec2, scenario)

        assert {*ec2.calls} == {"describe_instances"}
