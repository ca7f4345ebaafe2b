"""What the bridge counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class BridgeMetrics:
    """In one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.nodes = Gauge(
            "mainstay_bridge_nodes",
            "Machines as nodes, by where they are in their life.",
            ["state"],
            registry=registry,
        )
        self.unused = Gauge(
            "mainstay_bridge_unused_machines",
            "Machines that serve us by the shard and are no node of ours.",
            registry=registry,
        )
        self.waiting = Gauge(
            "mainstay_bridge_waiting_requests",
            "Capacity requests that wait.",
            registry=registry,
        )
        self.asked = Gauge(
            "mainstay_bridge_machines_asked",
            "Machines that the shard is asked for.",
            ["kind"],
            registry=registry,
        )
        self.steps = Counter(
            "mainstay_bridge_steps_total",
            "Steps taken, by name.",
            ["step"],
            registry=registry,
        )
        self.refused = Counter(
            "mainstay_bridge_bootstraps_refused_total",
            "Bootstraps that could not be had.",
            registry=registry,
        )
        self.connected = Gauge(
            "mainstay_bridge_connected",
            "1 while the shard has acknowledged the session.",
            registry=registry,
        )
