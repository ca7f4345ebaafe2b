"""An EC2 backend for the kit: client, threads and cloud, put together."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from os import devnull
from typing import Any, Final

from mainstay.model.errors import Rejected
from mainstay.providers.ec2.backend import Ec2Backend
from mainstay.providers.ec2.cloud import Cloud, in_threads
from mainstay.providers.ec2.config import Ec2Config
from mainstay.runtime.clock import Clock

ATTEMPTS: Final = 2
"""By boto3, at once; what is left after that is the kit's, with longer pauses."""

_NOTHING_FROM_OUTSIDE: Final = {
    "profile": (None, None, None, None),
    "config_file": (None, None, devnull, None),
    "credentials_file": (None, None, devnull, None),
}
"""For botocore: neither the environment nor a file of the user's says who we are."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who calls; without, boto3 looks where it always looks: environment, files, instance role."""

    access_key: str
    secret_key: str = field(repr=False)


def connect(config: Ec2Config, credentials: Credentials | None = None) -> Any:
    """A client of EC2; Rejected, in one line, where boto3 is not installed."""
    try:
        botocore, boto3 = import_module("botocore"), import_module("boto3")
        sessions, settings = import_module("botocore.session"), import_module("botocore.config")
    except ImportError as error:
        how = "pip install 'mainstay[ec2]'"
        raise Rejected(f"provider ec2 needs boto3, which is not installed: {how}") from error
    timing, parts = config.timing, dict[str, Any]()
    if config.endpoint:
        parts = {"endpoint_url": config.endpoint}
    isolated = None
    if credentials is not None:
        parts |= {
            "aws_access_key_id": credentials.access_key,
            "aws_secret_access_key": credentials.secret_key,
        }
        isolated = sessions.Session(session_vars=_NOTHING_FROM_OUTSIDE)
    options = settings.Config(
        connect_timeout=timing.call_timeout_s / 2,
        read_timeout=timing.call_timeout_s,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=timing.calls_at_once,
        proxies={} if config.endpoint else None,
    )
    try:
        session = boto3.session.Session(botocore_session=isolated)
        return session.client("ec2", region_name=config.region, config=options, **parts)
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise Rejected(f"EC2 cannot be called: {error}") from error


@contextmanager
def ec2_backend(config: Ec2Config, clock: Clock, *, client: Any = None) -> Iterator[Ec2Backend]:
    """EC2 for the kit's `running`, until the block is left; without a client, Amazon is called."""
    threads, let_go = in_threads(config.timing.calls_at_once)
    try:
        yield Ec2Backend(config, Cloud(client or connect(config), config, threads), clock)
    finally:
        let_go()
