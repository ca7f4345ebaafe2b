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
        self.failing = Gauge(
            "mainstay_bridge_failing",
            "Lives and requests that the last look could not deal with.",
            registry=registry,
        )
        self.ok = Gauge(
            "mainstay_bridge_ok",
            "1 unless the last look came to no end: the shard then keeps the demand before it.",
            registry=registry,
        )
        self.ok.set(1)
