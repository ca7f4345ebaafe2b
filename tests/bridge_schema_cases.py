"""The same for the rows of the bridge: one of everything, and what breaks each rule."""

from typing import Final

from schema_cases import Case

BRIDGE_WORLD: Final = """
    insert into node_kinds (kind, region, instance_types, sold_as, slots, gpus_total)
        values ('k', 'r', '{big}', '{slice,whole}', '[]', 8);
    insert into bridges (cluster) values ('t');
    insert into bridge_nodes (cluster, machine, incarnation, node_id, kind, state)
        values ('t', 'one', 1, 'n', 'k', 'joining');
    insert into bridge_nodes (cluster, machine, incarnation, node_id, kind, state, closed_at,
                              retired_at, reason)
        values ('t', 'two', 1, 'm', 'k', 'retired', clock_timestamp(), clock_timestamp(), 'why');
    insert into bridge_warnings (node_id, allocation_id) values ('n', 'used');
    insert into capacity_requests (id, project_id, requested_by, sku, gpus, region, state,
            correlation_id, expires_at)
        values ('cap_one', 'prj', 'usr', 'slice', 1, 'r', 'waiting', 'cor', '2100-01-01');
    insert into capacity_requests (id, project_id, requested_by, sku, gpus, region, state,
            correlation_id, expires_at, allocation_id, ended_at)
        values ('cap_two', 'prj', 'usr', 'slice', 1, 'r', 'placed', 'cor', '2100-01-01', 'used',
                clock_timestamp());
"""


def _kind(change: str) -> str:
    return f"update node_kinds set {change} where kind = 'k'"


def _life(change: str, machine: str = "one") -> str:
    return f"update bridge_nodes set {change} where machine = '{machine}'"


def _wish(change: str, request: str = "cap_one") -> str:
    return f"update capacity_requests set {change} where id = '{request}'"


BRIDGE_CASES: Final = (
    Case("node_kinds_instance_types_check", "a kind is made of something",
         _kind("instance_types = '{}'")),
    Case("node_kinds_sold_as_check", "a kind is sold as something", _kind("sold_as = '{}'")),
    Case("node_kinds_gpus_total_check", "a kind has GPUs", _kind("gpus_total = 0")),
    Case("node_kinds_cpu_milli_check", "a kind has no less than no CPU", _kind("cpu_milli = -1")),
    Case("node_kinds_memory_mib_check", "a kind has no less than no memory",
         _kind("memory_mib = -1")),
    Case("node_kinds_head_room_check", "head-room is none or some", _kind("head_room = -1")),
    Case("a_kind_is_sold_as_what_there_is", "a kind is sold as a SKU that there is",
         _kind("sold_as = '{slice,nothing}'"), "no such SKU: nothing"),
    Case("bridge_nodes_incarnation_check", "lives are counted from one", _life("incarnation = 0")),
    Case("bridge_nodes_state_check", "a life is in a state that there is",
         _life("state = 'lent'")),
    Case("bridge_nodes_node_id_key", "a node is one life", _life("node_id = 'm'")),
    Case("closed_when", "who drains was closed at some time", _life("state = 'draining'")),
    Case("closed_when", "who joins was not closed", _life("closed_at = clock_timestamp()")),
    Case("closed_why", "who was closed was closed for a reason",
         _life("state = 'draining', closed_at = clock_timestamp()")),
    Case("retired_when", "who is retired was retired at some time",
         _life("state = 'retired', closed_at = clock_timestamp(), reason = 'x'")),
    Case("a_retired_bridge_node_stays_so", "a life that is over stays over",
         _life("reason = 'another'", "two"), "node m is retired"),
    Case("bridge_nodes_one_life_at_a_time", "a machine has one life at a time",
         """insert into nodes (id, region, sku, status, gpus_total)
                values ('o', 'r', 'slice', 'active', 8);
            insert into bridge_nodes (cluster, machine, incarnation, node_id, kind, state)
                values ('t', 'one', 2, 'o', 'k', 'joining')"""),
    Case("capacity_requests_id_check", "a request is named as one", _wish("id = 'alc_one'")),
    Case("capacity_requests_gpus_check", "one waits for something", _wish("gpus = 0")),
    Case("capacity_requests_state_check", "a request is in a state that there is",
         _wish("state = 'lent', ended_at = clock_timestamp()")),
    Case("capacity_requests_allocation_id_key", "an allocation is for one request",
         _wish("allocation_id = 'used'")),
    Case("capacity_ended_when", "who waits no longer has stopped at some time",
         _wish("state = 'expired'")),
    Case("capacity_ended_when", "who waits has not stopped", _wish("ended_at = '2100-01-01'")),
    Case("placed_with_an_allocation", "who was placed has an allocation",
         _wish("state = 'placed', ended_at = clock_timestamp()")),
    Case("a_request_for_capacity_ends_once", "a request ends once",
         _wish("state = 'expired'", "cap_two"), "capacity request cap_two is placed"),
)  # fmt: skip
