"""The page that says who may call what, from the table that the servers use."""

from collections.abc import Mapping

from mainstay.wire.access import ACCESS, UNLED, Rule
from page_parts import NOTICE, table

ACCESS_PAGE = """{notice}# Who may call what

Over mutual TLS, by the one `bigfleet://` URI of the caller's certificate: a certificate with none,
or with several, may call nothing. A name in angle brackets is the one that the request gives.
Whoever else calls gets PERMISSION_DENIED. Plaintext is for loopback: nobody can know who calls, and
nothing is checked.

{services}
The table is `mainstay.wire.access.ACCESS`. Only the coordinator that leads answers its calls, but
for {unled}. One that does not lead says FAILED_PRECONDITION to
anybody, before it looks at who asks, with the leader's address in the trailing metadata
`mainstay-leader`. Who may call a provider: [the wire](wire.md#who-may-call-a-provider).
`mainstay certs` makes certificates for development.
"""


def access_page() -> str:
    """Every service, its calls, and who may make them."""
    rows = [
        (f"`{_short(service)}`", ", ".join(calls), " or ".join(f"`{uri}`" for uri in rule.holders))
        for service, by_call in ACCESS.items()
        for rule, calls in _by_rule(by_call).items()
    ]
    services = table(("service", "calls", "for"), rows)
    unled = ", ".join(f"`{_short(service)}.{call}`" for service, call in sorted(UNLED))
    return ACCESS_PAGE.format(notice=NOTICE, services=services, unled=unled)


def _short(service: str) -> str:
    """Without its package: no two are called the same."""
    return service.rpartition(".")[2]


def _by_rule(by_call: Mapping[str, Rule]) -> dict[Rule, list[str]]:
    found: dict[Rule, list[str]] = {}
    for call, rule in by_call.items():
        found.setdefault(rule, []).append(f"`{call}`")
    return found
