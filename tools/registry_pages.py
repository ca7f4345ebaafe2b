"""The generated pages about metrics that no table of ours lists: as their registries have them."""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector
from typing_extensions import override

from mainstay.bridge.metrics import BridgeMetrics
from mainstay.providers.kit.metrics import Found, Metrics, StepEnd
from mainstay.tenancy.billing.metrics import BillerMetrics
from mainstay.tenancy.bus_metrics import ConsumerMetrics, RelayMetrics
from mainstay.tenancy.consume import Outcome
from mainstay.tenancy.worker.metrics import WorkerMetrics
from page_parts import NOTICE, docs_below, table


class Noted(CollectorRegistry):
    """One that keeps in order what is registered."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[MetricWrapperBase] = []

    @override
    def register(self, collector: Collector) -> None:
        """As always, and noted."""
        super().register(collector)
        if isinstance(collector, MetricWrapperBase):
            self.all.append(collector)


def metrics_of(make: Callable[[CollectorRegistry], object]) -> Iterator[tuple[str, str, str, str]]:
    """Name, kind, labels and meaning of each metric that is made there."""
    registry = Noted()
    make(registry)
    for metric in registry.all:
        (family,) = metric.describe()
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(f"`{label}`" for label in metric._labelnames)  # noqa: SLF001 - no other
        yield f"`{name}`", family.type, labels, family.documentation


def _table(make: Callable[[CollectorRegistry], object]) -> str:
    return table(("metric", "kind", "labels", "meaning"), metrics_of(make))


def _words(kinds: Iterable[type[StrEnum]]) -> str:
    rows = [(f"`{word}`", docs_below([kind]).get(word.name, "")) for kind in kinds for word in kind]
    return table(("word", "meaning"), rows)


TENANCY_INTRODUCTION: Final = """# Metrics of tenancy

At `/metrics` of the API (`mainstay api`), and of a part that runs alone where `--http` says. Every
process has the metrics of all parts; those of a part that does not run there stay as they began, so
take the sum or the greatest over all processes. The bridge's are only where a bridge runs. No
tenant, project, allocation or machine is ever the value of a label.

"""

TENANCY_PARTS: Final[tuple[tuple[str, Callable[[CollectorRegistry], object]], ...]] = (
    ("The relay and its outbox", RelayMetrics),
    ("Consumers of events", ConsumerMetrics),
    ("The worker", WorkerMetrics),
    ("The biller", BillerMetrics),
    ("The bridge", BridgeMetrics),
)


def tenancy_metrics_page() -> str:
    """Every metric of tenancy, by the part that counts it."""
    parts = [f"## {title}\n\n{_table(make)}\n" for title, make in TENANCY_PARTS]
    ends = f"## How a delivery ended\n\n{_words([Outcome])}"
    return "".join((NOTICE, TENANCY_INTRODUCTION, *parts, ends))


PROVIDER_INTRODUCTION: Final = """# Metrics of a provider

At `/metrics` of its HTTP address, of every provider that the kit serves; `mainstay world` has them
at `/metrics/NAME` for each of its providers. No machine is ever the value of a label.

"""


def provider_metrics_page() -> str:
    """Every metric of the provider kit, and the words that its labels take."""
    return "".join((
        NOTICE,
        PROVIDER_INTRODUCTION,
        _table(_of_a_provider),
        "\nWhat was billed is there only where a provider keeps a bill.\n",
        "\n## How a step ended\n\n", _words([StepEnd]),
        "\n## What a look at the hardware found\n\n", _words([Found]),
    ))  # fmt: skip


def _of_a_provider(registry: CollectorRegistry) -> None:
    Metrics(registry).bill(lambda: 0.0)
