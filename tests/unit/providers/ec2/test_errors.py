"""EC2's errors, by what to do about them; and a client that takes nothing from around it."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from mainstay.model.errors import MainstayError, NoCapacity, Rejected, Unavailable
from mainstay.providers.ec2.config import Ec2Config
from mainstay.providers.ec2.errors import told
from mainstay.providers.ec2.provider import Credentials, connect

botocore: Any = import_module("botocore.exceptions")

CONFIG = Ec2Config(name="aws", region="us-east-1", pools=(), endpoint="http://127.0.0.1:9")


def answered(code: str, status: int = 400) -> Exception:
    response = {
        "Error": {"Code": code, "Message": "words"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    error: Exception = botocore.ClientError(response, "RunInstances")
    return error


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (answered("RequestLimitExceeded"), Unavailable, "try again: call: RequestLimitExceeded"),
        (answered("Strange", 500), Unavailable, "try again: call: Strange: words"),
        (answered("ExpiredToken"), Unavailable, "ExpiredToken"),
        (answered("InsufficientInstanceCapacity"), NoCapacity, "none left: InsufficientInst"),
        (answered("InsufficientInstanceCapacity", 500), NoCapacity, "none left"),
        (answered("VcpuLimitExceeded"), NoCapacity, "none left: VcpuLimitExceeded: words"),
        (answered("MaxSpotInstanceCountExceeded"), NoCapacity, "none left"),
        (answered("InvalidAMIID.NotFound"), Rejected, "refuses call: InvalidAMIID.NotFound: words"),
        (answered("UnauthorizedOperation", 403), Rejected, "refuses call: Unauth"),
        (TimeoutError(), Unavailable, "did not answer call in time"),
        (botocore.ReadTimeoutError(endpoint_url="x"), Unavailable, "ReadTimeoutError"),
        (botocore.EndpointConnectionError(endpoint_url="x"), Unavailable, "cannot be reached"),
        (botocore.NoCredentialsError(), Rejected, "cannot be asked: call .NoCredentialsError"),
    ],
)
def test_an_error_says_what_to_do(
    error: Exception, kind: type[MainstayError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        raise told("call", error)


def test_an_error_of_boto3_does_not_show_what_was_sent() -> None:
    error = botocore.ParamValidationError(report="Invalid value for UserData: SECRET")

    assert "SECRET" not in str(told("run_instances", error))


def test_a_mistake_of_ours_stays_one() -> None:
    mistake = TypeError("mistake")

    assert told("call", mistake) is mistake


def test_where_boto3_is_missing_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)

    with pytest.raises(Rejected, match=r"needs boto3, which is not installed: pip install 'main"):
        connect(CONFIG)


def test_with_credentials_nothing_is_taken_from_around(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stray = tmp_path / "config"
    stray.write_text("[default]\nregion = eu-north-1\nendpoint_url = http://example.org\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(stray))
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://example.org")
    monkeypatch.setenv("HTTP_PROXY", "http://example.org")

    client = connect(CONFIG, Credentials("key", "secret"))

    assert client.meta.endpoint_url == CONFIG.endpoint
    assert client.meta.region_name == "us-east-1"
    assert client._get_credentials().access_key == "key"
    assert client.meta.config.proxies == {}


def test_a_secret_is_not_shown() -> None:
    assert "hush" not in repr(Credentials("key", "hush"))


def test_a_client_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")

    with pytest.raises(Rejected, match="EC2 cannot be called: The config profile"):
        connect(CONFIG)
