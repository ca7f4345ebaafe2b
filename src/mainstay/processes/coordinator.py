"""`mainstay coordinator`: keeps who owns what and moves capacity, until it is told to stop."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from mainstay.config.coordinator import CoordinatorConfig
from mainstay.coordinator.controlling import Controlling
from mainstay.coordinator.exports import Exporter, ExportOptions
from mainstay.coordinator.leading import Leading
from mainstay.coordinator.metrics import CoordinatorMetrics
from mainstay.coordinator.plans import Planner, PlanOptions
from mainstay.coordinator.reading import Reading
from mainstay.coordinator.rebalance import Options
from mainstay.coordinator.seat import Duty, Ground, Seat
from mainstay.coordinator.service import CoordinatorService
from mainstay.coordinator.standing import SECOND_NS
from mainstay.coordinator.store import Store
from mainstay.processes.announce import announced
from mainstay.processes.coordinator_store import opened
from mainstay.processes.pages import Answer, Pages, serving_pages
from mainstay.processes.provider import Say
from mainstay.processes.told import until_told
from mainstay.runtime.beside import beside
from mainstay.runtime.clock import Clock
from mainstay.wire.coordinator_server import SERVER_OPTIONS, coordinator_handler
from mainstay.wire.coordinator_view_server import (
    coordinator_control_handler,
    coordinator_view_handler,
)
from mainstay.wire.health import health_handler
from mainstay.wire.tls import TlsFlags, transport
from mainstay.wire.transport import serving

RULES: Final = (
    "young_cycles", "patient_cycles", "fresh_intervals", "cool_down_intervals",
    "settle_intervals", "refusal_intervals", "margin_percent", "margin_least", "machines_max",
    "donors_max", "open_moves_max",
)  # fmt: skip
"""The numbers of the planner that are settings, each as `rebalance_` and its name."""


@dataclass(frozen=True, slots=True)
class Place:
    """What the process is given from outside."""

    home: Path
    clock: Clock
    say: Say
    """Prints a line for people."""


async def serve_coordinator(config: CoordinatorConfig, place: Place) -> None:
    """A coordinator, until a signal; then it resigns, so that another leads at once."""
    over = transport(_flags(config), config.listen)
    metrics = CoordinatorMetrics()
    async with AsyncExitStack() as stack:
        stop = await stack.enter_async_context(until_told())
        store = await stack.enter_async_context(opened(config, place.home, place.clock))
        seat = Seat(
            Ground(id=config.coordinator_id, store=store, clock=place.clock, metrics=metrics)
        )
        planner = Planner(_plan_options(config), place.clock, metrics, aside=asyncio.to_thread)
        handlers = [
            coordinator_handler(
                CoordinatorService(seat, store, metrics, report_interval_s=config.report_interval_s)
            ),
            coordinator_view_handler(Reading(seat, planner)),
            coordinator_control_handler(Controlling(seat)),
            health_handler(lambda: not not_ready(seat)),
        ]
        at = await stack.enter_async_context(
            serving(handlers, config.listen, over, options=SERVER_OPTIONS)
        )
        addresses = {"grpc": at}
        if config.http:
            pages = serving_pages(config.http, _pages(seat, metrics))
            addresses["http"] = await stack.enter_async_context(pages)
        leading = Leading(
            store,
            candidate=config.coordinator_id,
            address=config.advertise or at,
            clock=place.clock,
        )
        duties = _duties(config, place, store, metrics, planner)
        facts = {"addresses": addresses, "tls": _files(config), "store": store.label}
        with announced(place.home, "coordinator", config.coordinator_id, facts):
            place.say(
                f"Coordinator {config.coordinator_id} at {at}; state: {store.label}."
                " Ctrl-C stops it."
            )
            await beside(stop.wait(), seat.lead(leading, duties))
    place.say("Stopped.")


def not_ready(seat: Seat) -> str:
    """Why a coordinator is not ready, in one line; empty when it is: it leads, or follows one."""
    if seat.leads:
        return ""
    leader = seat.leader
    if leader is None:
        return "nobody is known to lead"
    return "it has not read its state yet" if leader.candidate == seat.id else ""


def _duties(
    config: CoordinatorConfig,
    place: Place,
    store: Store,
    metrics: CoordinatorMetrics,
    planner: Planner,
) -> list[Duty]:
    duties: list[Duty] = [planner.keep_for_ever, planner.plan_for_ever]
    if config.snapshot_export_dir:
        options = ExportOptions(
            folder=Path(config.snapshot_export_dir),
            interval_s=config.snapshot_export_interval_s,
            kept=config.snapshot_exports_kept,
        )
        exporter = Exporter(store, options, place.clock, metrics, aside=asyncio.to_thread)
        duties.append(exporter.export_for_ever)
    return duties


def _plan_options(config: CoordinatorConfig) -> PlanOptions:
    rules = {name: getattr(config, f"rebalance_{name}") for name in RULES}
    return PlanOptions(
        rules=Options(report_interval_ns=int(config.report_interval_s * SECOND_NS), **rules),
        acts=config.rebalance,
        interval_s=config.rebalance_interval_s,
        move_open_max_s=config.move_open_max_s,
        moves_kept_s=config.moves_kept_s,
    )


def _pages(seat: Seat, metrics: CoordinatorMetrics) -> Pages:
    def ready(_: str) -> Answer:
        why = not_ready(seat)
        return Answer(503, f"{why}\n") if why else Answer(200, "ok\n")

    def measured(_: str) -> Answer:
        return Answer(200, generate_latest(metrics.registry).decode(), CONTENT_TYPE_LATEST)

    return {
        ("GET", "/healthz"): lambda _: Answer(200, "ok\n"),
        ("GET", "/readyz"): ready,
        ("GET", "/metrics"): measured,
    }


def _flags(config: CoordinatorConfig) -> TlsFlags:
    return TlsFlags(
        cert=config.tls_cert, key=config.tls_key, ca=config.tls_ca, insecure=config.insecure
    )


def _files(config: CoordinatorConfig) -> dict[str, str] | None:
    if not config.tls_cert:
        return None
    return {"cert": config.tls_cert, "key": config.tls_key, "ca": config.tls_ca}
