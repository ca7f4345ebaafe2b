"""The calls of EC2 that a provider makes: in threads, a few at a time, with their errors told.

boto3 blocks, so every call runs in a thread. Those who wait for instances at the same time share
one look, so that a burst of machines does not become a burst of calls.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Generic, TypeVar

from mainstay.model.errors import Rejected
from mainstay.model.notice import InterruptionNotice
from mainstay.providers.ec2 import tags
from mainstay.providers.ec2.config import Ec2Config, Pool
from mainstay.providers.ec2.errors import told
from mainstay.providers.ec2.instances import (
    LIVE,
    Condition,
    Instance,
    Seen,
    by_slot,
    condition_of,
    described_in,
    instance_of,
)
from mainstay.providers.ec2.market import notices_in, prices_in
from mainstay.runtime.log import logger

BLOB_BYTES_MAX: Final = 16 * 2**10
"""EC2's limit for user data, before base64."""

PAGE: Final = 1000
IDS_AT_ONCE: Final = 100
VALUES_MAX: Final = 200
"""Of a filter."""

ENDED_MAX: Final = 10_000
PRODUCT: Final = "Linux/UNIX"

AnswerT = TypeVar("AnswerT")
Threads = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a blocking function and waits for its answer."""


@dataclass(frozen=True, slots=True)
class Wish:
    """An instance to launch."""

    pool: Pool
    label: tags.Label
    blob: bytes = b""
    again: bool = False
    """A second launch, after the first has come to nothing."""

    @property
    def token(self) -> str:
        """The same for every attempt at one step: EC2 then launches one instance, if it sees it."""
        label = self.label
        parts = (label.machine, label.operation, label.role.value, str(self.again))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class Shared(Generic[AnswerT]):
    """One question that many ask: each gets an answer from after they asked, few are asked."""

    def __init__(self, ask: Callable[[], Awaitable[AnswerT]]) -> None:
        self._ask = ask
        self._one_at_a_time = asyncio.Lock()
        self._begun = 0
        self._ended = 0
        self._answer: list[AnswerT] = []

    async def fresh(self) -> AnswerT:
        """The answer to a question that is put no earlier than now."""
        wanted = self._begun + 1
        async with self._one_at_a_time:
            if self._ended < wanted:
                self._begun += 1
                begun = self._begun
                self._answer = [await self._ask()]
                self._ended = begun
            return self._answer[0]


def in_threads(count: int) -> tuple[Threads, Callable[[], None]]:
    """Threads of our own, and how to let go of them; a call at work ends by its own time-out."""
    pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="ec2")

    async def run(function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(pool, function)

    return run, partial(pool.shutdown, wait=False, cancel_futures=True)


class Cloud:
    """One region of one account, as far as this provider goes."""

    def __init__(self, client: Any, config: Ec2Config, threads: Threads) -> None:
        self._client = client
        self._config = config
        self._threads = threads
        self._gate = asyncio.Semaphore(config.timing.calls_at_once)
        self._watched: set[str] = set()
        self._looks = Shared(self._describe_watched)
        self._awaited: set[str] = set()
        self._checks = Shared(self._describe_checks)
        self._strange: frozenset[str] = frozenset()
        self._ended: dict[str, None] = {}
        """What we have ended: EC2 may show it as alive for a while."""

        self._log = logger(provider=config.name)

    async def instances(self) -> Seen:
        """Live instances of ours."""
        return await self._describe()

    async def in_slot(self, slot: str) -> Seen:
        """The same for one slot, and others that happen to be looked at, too."""
        self._watched.add(slot)
        return await self._looks.fresh()

    async def condition(self, name: str) -> Condition | None:
        """How an instance is, whatever its tags say; None if EC2 knows none."""
        wanted = {"Name": "instance-id", "Values": [name]}
        answer = await self._call("describe_instances", Filters=[wanted])
        return next(map(condition_of, described_in(answer)), None)

    async def run(self, wish: Wish) -> str:
        """Launch one instance; its id."""
        marked = tags.written(wish.label, self._config.name, self._config.tags)
        answer = await self._call("run_instances", **_launch(wish, marked))
        name: str = answer["Instances"][0]["InstanceId"]
        self._log.info("instance_launched", instance=name, machine=wish.label.machine,
                       role=wish.label.role.value)  # fmt: skip
        return name

    async def terminate(self, names: Sequence[str]) -> None:
        """End instances; those that have ended already stay so."""
        if names:
            await self._call("terminate_instances", InstanceIds=list(names))
            self._ended.update(dict.fromkeys(names))
            while len(self._ended) > ENDED_MAX:
                del self._ended[next(iter(self._ended))]
            self._log.info("instances_terminated", instances=list(names))

    async def is_checked(self, name: str) -> bool:
        """Whether both status checks of EC2 have passed."""
        self._awaited.add(name)
        return name in await self._checks.fresh()

    async def notices(self) -> Mapping[str, InterruptionNotice]:
        """Instances that EC2 is about to take back, ours and others'."""
        active = [{"Name": "state", "Values": ["active"]}]
        pages = await self._pages("describe_spot_instance_requests", Filters=active)
        return notices_in(each for page in pages for each in page["SpotInstanceRequests"])

    async def spot_prices(
        self, types: Collection[str], now_s: float
    ) -> Mapping[tuple[str, str], float]:
        """What spot costs now, by type and zone."""
        now = datetime.fromtimestamp(now_s, UTC)
        pages = await self._pages(
            "describe_spot_price_history", InstanceTypes=sorted(types),
            ProductDescriptions=[PRODUCT, f"{PRODUCT} (Amazon VPC)"], StartTime=now,
        )  # fmt: skip
        return prices_in(entry for page in pages for entry in page["SpotPriceHistory"])

    async def _describe_watched(self) -> Seen:
        slots, self._watched = sorted(self._watched), set()
        seen: dict[str, Sequence[Instance]] = {}
        for at in range(0, len(slots), VALUES_MAX):
            wanted = {"Name": f"tag:{tags.SLOT}", "Values": slots[at : at + VALUES_MAX]}
            seen |= await self._describe(wanted)
        return seen

    async def _describe(self, *wanted: Mapping[str, Any]) -> Seen:
        live = {"Name": "instance-state-name", "Values": sorted(LIVE)}
        filters = [live, *wanted, self._ours()]
        pages = await self._pages("describe_instances", Filters=filters)
        return by_slot(
            each
            for each in self._read(each for page in pages for each in described_in(page))
            if each.id not in self._ended
        )

    def _read(self, described: Iterable[Mapping[str, Any]]) -> list[Instance]:
        """Instances with our mark; one whose other tags somebody has broken is left alone."""
        found, strange = [], set()
        for each in described:
            try:
                found.append(instance_of(each))
            except Rejected as refusal:
                strange.add(each["InstanceId"])
                if each["InstanceId"] not in self._strange:
                    self._log.warning(
                        "instance_not_understood", instance=each["InstanceId"], why=refusal.message
                    )
        self._strange |= strange
        return found

    async def _describe_checks(self) -> frozenset[str]:
        names, self._awaited = sorted(self._awaited), set()
        passed = set[str]()
        for at in range(0, len(names), IDS_AT_ONCE):
            passed |= await self._checked(names[at : at + IDS_AT_ONCE])
        return frozenset(passed)

    async def _checked(self, names: Sequence[str]) -> set[str]:
        """Those that have passed; one id that EC2 does not know must not speak for the others."""
        try:
            answer = await self._call("describe_instance_status", InstanceIds=list(names))
        except Rejected:
            if len(names) == 1:
                return set()
            half = len(names) // 2
            return await self._checked(names[:half]) | await self._checked(names[half:])
        return {each["InstanceId"] for each in answer["InstanceStatuses"] if _is_ok(each)}

    def _ours(self) -> dict[str, Any]:
        return {"Name": f"tag:{tags.PROVIDER}", "Values": [self._config.name]}

    async def _pages(self, name: str, **parameters: Any) -> list[Any]:
        pages, token = [], ""
        while True:
            more = {"NextToken": token} if token else {}
            pages.append(await self._call(name, MaxResults=PAGE, **parameters, **more))
            token = pages[-1].get("NextToken") or ""
            if not token:
                return pages

    async def _call(self, name: str, **parameters: Any) -> Any:
        method = getattr(self._client, name)
        async with self._gate:
            try:
                async with asyncio.timeout(self._config.timing.call_timeout_s):
                    return await self._threads(partial(method, **parameters))
            except Exception as error:  # noqa: BLE001 - sorted by `told`, and raised
                # Without its cause, which may show what was sent.
                raise told(name, error) from None


def _is_ok(status: Mapping[str, Any]) -> bool:
    return all(
        status.get(key, {}).get("Status") == "ok" for key in ("InstanceStatus", "SystemStatus")
    )


def _launch(wish: Wish, marked: Mapping[str, str]) -> dict[str, Any]:
    """The parameters of RunInstances. Shutting down from inside ends an instance for good."""
    pool = wish.pool
    written = [{"Key": key, "Value": value} for key, value in sorted(marked.items())]
    parameters: dict[str, Any] = {
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": wish.token,
        "ImageId": pool.image,
        "InstanceType": pool.profile.instance_type,
        "Placement": {"AvailabilityZone": pool.profile.zone},
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required"},
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": written} for kind in ("instance", "volume")
        ],
    }
    if wish.blob:
        parameters["UserData"] = wish.blob  # boto3 encodes it
    if pool.subnet:
        parameters["SubnetId"] = pool.subnet
    if pool.security_groups:
        parameters["SecurityGroupIds"] = list(pool.security_groups)
    if pool.instance_profile:
        parameters["IamInstanceProfile"] = {"Name": pool.instance_profile}
    if pool.is_spot:
        spot = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        parameters["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": spot}
    return parameters
