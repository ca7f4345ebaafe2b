"""`mainstay api`: the API and the listener for node agents, and on request all the rest."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mainstay.config.api import ApiConfig
from mainstay.config.bridge import BridgeConfig
from mainstay.model.errors import Rejected
from mainstay.processes.announce import announced
from mainstay.processes.bridge import bridging
from mainstay.processes.tenancy import Around, Ground, alongside, standing
from mainstay.processes.tenancy_parts import PARTS, SimulatedNode, housekeeping
from mainstay.processes.told import until_told
from mainstay.processes.web import serving_app
from mainstay.tenancy.authority import Authority, new_key
from mainstay.tenancy.http import agents, app
from mainstay.tenancy.http.caller import Parts
from mainstay.tenancy.http.handshake import CertificateProtocol
from mainstay.tenancy.http.limits import RateLimit
from mainstay.tenancy.http.tokens import Issuer, Tokens
from mainstay.tenancy.private_files import private_folder
from mainstay.wire.tls import is_loopback


async def serve_api(
    config: ApiConfig, around: Around, *, everything: bool, bridge: BridgeConfig | None = None
) -> None:
    """Until a signal. `everything`: relay, worker, biller and notifier are in here, too.

    And the bridge, if it has a shard.
    """
    if not config.tls_cert and not is_loopback(config.listen):
        message = (
            f"the API is served on loopback only without a certificate, not at {config.listen}"
        )
        raise Rejected(f"{message}: give --tls-cert and --tls-key")
    async with AsyncExitStack() as stack:
        stop = await stack.enter_async_context(until_told())
        ground = await stack.enter_async_context(standing(config, around))
        parts = parts_of(ground)
        authority = ground.authority()
        at = await stack.enter_async_context(_public(ground, parts))
        agents_at = await stack.enter_async_context(_for_agents(ground, parts, authority))
        background = _background(ground, everything, agents_at, authority)
        asks: dict[str, str] = {}
        if everything and bridge is not None and bridge.shard:
            url = bridge.agents_url or f"https://{agents_at}"
            made = await stack.enter_async_context(bridging(bridge, ground, url))
            background |= made.parts()
            asks = {"cluster": bridge.cluster_id, "shard": bridge.shard}
        await stack.enter_async_context(alongside(background))
        scheme = "https" if config.tls_cert else "http"
        addresses = {"api": f"{scheme}://{at}", "agents": f"https://{agents_at}"}
        facts = {"addresses": addresses, "parts": sorted(background), **asks}
        stack.enter_context(announced(around.home, "api", at.rpartition(":")[2], facts))
        around.say(f"The API is at {addresses['api']}, agents at {addresses['agents']}.")
        around.say(f"Running here: {', '.join(background)}. Ctrl-C stops it.")
        await stop.wait()
    around.say("Stopped.")


def parts_of(ground: Ground) -> Parts:
    """What the routes are given."""
    config = ground.config
    tokens = None
    if config.oidc_issuer:
        issuer = Issuer(
            issuer=config.oidc_issuer,
            audience=config.oidc_audience,
            jwks=config.oidc_jwks,
            role_claim=config.oidc_role_claim,
            project_claim=config.oidc_project_claim,
        )
        tokens = Tokens(issuer, ground.clock)
    rate = RateLimit(ground.clock, per_s=config.rate_per_s, burst=config.rate_burst)
    return Parts(
        pool=ground.pool,
        ids=ground.ids,
        bell=ground.bell,
        rate=rate,
        clock=ground.clock,
        tokens=tokens,
        signer=ground.signer,
    )


def _background(
    ground: Ground, everything: bool, agents_at: str, authority: Authority
) -> dict[str, Callable[[], Awaitable[object]]]:
    found: dict[str, Callable[[], Awaitable[object]]] = {
        "housekeeping": lambda: housekeeping(ground)
    }
    if everything:
        found |= {name: _bound(part, ground) for name, part in PARTS.items()}
    for node in filter(None, ground.config.simulate.split(",")):
        simulated = SimulatedNode(ground, node.strip(), f"https://{agents_at}", authority.pem)
        found[f"agent of {node.strip()}"] = simulated.run
    return found


def _bound(
    part: Callable[[Ground], Awaitable[None]], ground: Ground
) -> Callable[[], Awaitable[object]]:
    return lambda: part(ground)


@asynccontextmanager
async def _public(ground: Ground, parts: Parts) -> AsyncIterator[str]:
    served = app.build(parts, ground.metrics.registry)
    more: dict[str, Any] = {}
    if ground.config.tls_cert:
        more = {"ssl_certfile": ground.config.tls_cert, "ssl_keyfile": ground.config.tls_key}
    async with serving_app(served, ground.config.listen, more) as at:
        yield at


@asynccontextmanager
async def _for_agents(ground: Ground, parts: Parts, authority: Authority) -> AsyncIterator[str]:
    """By mutual TLS, with a certificate of our own authority, made anew at each start."""
    host = ground.config.agents.rpartition(":")[0].strip("[]")
    names = [host, *filter(None, ground.config.agents_name.split(","))]
    folder = private_folder(ground.folder / "listener")
    key, csr = new_key()
    for name, content in (
        ("key.pem", key),
        ("certificate.pem", authority.issue_server(csr, names).pem),
        ("authority.pem", authority.pem),
    ):
        path = folder / name
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(content)
    more = {
        "ssl_keyfile": folder / "key.pem",
        "ssl_certfile": folder / "certificate.pem",
        "ssl_ca_certs": str(folder / "authority.pem"),
        "ssl_cert_reqs": ssl.CERT_OPTIONAL,
        "http": CertificateProtocol,
    }
    async with serving_app(agents.build(parts, authority), ground.config.agents, more) as at:
        yield at
