"""Which settings `mainstay up` cannot hand on: a table, looked at before anything is started.

Settings reach its processes as they would if each ran alone. Who one is, whom it calls and where
its state is goes there as flags and wins; the table has what no flag undoes, and what is right for
a process that runs alone and wrong for these.
"""

from collections.abc import Mapping
from typing import Final

from mainstay.config.load import Origin, Sources, said, variable_name
from mainstay.config.up import UpConfig
from mainstay.model.errors import Rejected

_ELSEWHERE: Final = "its page would show another fleet, and have it controlled"
_PLAINTEXT: Final = "its processes have certificates for one another"
_OWN: Final = "its page has a certificate for its shards, which trust no other"
_PAGE: Final = "its page is told by up.page_cert and up.page_key whether it speaks HTTPS"

REFUSED: Final[Mapping[str, str]] = {
    "world.insecure": _PLAINTEXT,
    "shard.insecure": _PLAINTEXT,
    "shard.audit_dir": "its two shards cannot write into one folder",
    "coordinator.etcd": "its coordinator would stand for election in the fleet that is there",
    "coordinator.snapshot_export_dir": "exports of another coordinator there would be deleted",
    "coordinator.insecure": _PLAINTEXT,
    "dashboard.shards": _ELSEWHERE,
    "dashboard.coordinator": _ELSEWHERE,
    "dashboard.api": _ELSEWHERE,
    "dashboard.tls_cert": _OWN,
    "dashboard.tls_key": _OWN,
    "dashboard.tls_ca": _OWN,
    "dashboard.page_cert": _PAGE,
    "dashboard.page_key": _PAGE,
    "api.bus": "its simulated tenants would be among the events that are there",
    "api.workflows": "its simulated tenants would be among the work that is there",
    "api.tls_cert": "its page asks its API on loopback, in plaintext",
    "api.tls_key": "its page asks its API on loopback, in plaintext",
    "bridge.agents_url": "its machines would enrol as nodes of another API",
    "bridge.insecure": _PLAINTEXT,
}
"""Each setting that must be as it is built in, and why."""

OF_TENANCY: Final = frozenset({"api", "bridge"})
"""Sections that nobody reads without tenants."""

ALONE: Final[Mapping[str, str]] = {"bridge": "api"}
"""Which command reads a section; else the one of its name."""


def check_handed_on(config: UpConfig, sources: Sources) -> None:
    """Refuse, in one line, the first setting that the processes must not get."""
    for setting, why in REFUSED.items():
        section, _, field = setting.partition(".")
        if section in OF_TENANCY and not config.tenancy:
            continue
        told = said(section, field, sources)
        if told is None or not told.value:
            continue
        of_file = told.origin is Origin.FILE
        where = f"{setting} in {sources.path}" if of_file else variable_name(section, field)
        command = f"`mainstay {ALONE.get(section, section)}`"
        raise Rejected(
            f"not for `mainstay up`: {where}: {why}; leave it out of what up reads, or run"
            f" {command} alone"
        )
