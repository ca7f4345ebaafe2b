"""How the API is reached from elsewhere: never with a key in plaintext, and with a CA of ours."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from certificates import Authority
from mainstay.cli.client import Client
from mainstay.dashboard.tenants import RemoteTenancy
from mainstay.model.errors import Rejected, Unavailable
from mainstay.processes.web import serving_app
from running import at_home

Maker = Callable[..., Any]
MAKERS = pytest.mark.parametrize("make", [RemoteTenancy, Client])


@MAKERS
@pytest.mark.parametrize("url", ["http://10.0.0.1:8800", "http://api.example", "ftp://127.0.0.1"])
def test_a_key_goes_in_plaintext_to_this_machine_only(make: Maker, url: str) -> None:
    with pytest.raises(Rejected, match=r"plaintext.*--insecure|not an address"):
        make(url, "key")
    for near in ("http://127.0.0.1:8800", "http://localhost", "http://[::1]:8800"):
        make(near, "key")
    make("http://10.0.0.1:8800", "key", insecure=True)


@MAKERS
def test_an_api_with_a_certificate_of_ours_is_trusted_by_its_ca(
    make: Maker, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.write([], name="api")

    async def answered(_: object) -> JSONResponse:
        return JSONResponse({"items": []})

    async def scenario() -> None:
        app = Starlette(routes=[Route("/api/v1/projects", answered)])
        async with AsyncExitStack() as stack:
            more = {"ssl_certfile": str(cert), "ssl_keyfile": str(key)}
            at = await stack.enter_async_context(serving_app(app, "127.0.0.1:0", more))
            told = await asked(make(f"https://{at}", "key", ca=str(authority.path)))
            assert told == {"items": []}
            with pytest.raises(Unavailable, match=r"certificate is not trusted.*--tls-ca"):
                await asked(make(f"https://{at}", "key"))

    asyncio.run(scenario())


async def asked(api: Any) -> Any:
    if isinstance(api, Client):
        return await asyncio.to_thread(api.get, "/projects")
    return await api.get("/projects")


@MAKERS
def test_a_ca_that_cannot_be_read_is_named(make: Maker, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="cannot read the CA"):
        make("https://api.example", "key", ca=str(tmp_path / "none.pem"))


def test_the_dashboard_does_not_start_with_an_api_it_may_not_ask(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        ended = home.run("dashboard", "--listen", "127.0.0.1:0", "--api", "http://10.0.0.1:1")
        assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
        assert "use https://, or say --insecure" in ended.stderr
