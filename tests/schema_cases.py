"""One row of everything, and for each rule of the schema plain SQL that breaks it."""

from dataclasses import dataclass
from typing import Final

WORLD: Final = """
    insert into regions values ('r', 'R');
    insert into os_images (slug, address, sha256) values ('i', 'oci://i', repeat('0', 64));
    insert into skus (sku, capacity_shape, gpus_total, allowed_gpu_counts, gpu_hourly_price_minor,
                      image_slug)
        values ('slice', 'gpu_slice', 8, '{1,2,4,8}', 450, 'i'),
               ('whole', 'baremetal', 8, '{8}', 400, 'i');
    insert into accounts (id) values ('acc'), ('other');
    insert into projects (id, account_id) values ('prj', 'acc');
    insert into ssh_keys (id, project_id, public_key) values ('key', 'prj', 'ssh-ed25519 AAAA');
    insert into api_keys (id, hash, role, project_id)
        values ('api', 'hash', 'tenant', 'prj'), ('root', 'other', 'admin', null);
    insert into nodes (id, region, sku, status, gpus_total, cert_fingerprint,
                       cert_pending_fingerprint)
        values ('n', 'r', 'slice', 'active', 8, 'now', 'next'),
               ('m', 'r', 'slice', 'active', 8, 'm-now', 'm-next');
    insert into node_offers values ('n', 'whole');
    insert into slots (id, node_id, slot_index, status)
        values ('n/0', 'n', 0, 'in_use'), ('n/1', 'n', 1, 'reserved'), ('m/0', 'm', 0, 'available');
    insert into allocations (id, project_id, account_id, requested_by, sku, gpus, region,
            capacity_shape, node_id, image_slug, price_minor, currency, status, correlation_id,
            created_at)
        select id, 'prj', 'acc', 'usr', 'slice', 1, 'r', 'gpu_slice', 'n', 'i', 450, 'USD',
               'requested', 'cor', clock_timestamp()
        from unnest(array['new', 'made', 'used', 'back', 'stuck', 'gone', 'lost']) as id;
    update allocations set status = 'provisioning', version = 2 where id <> 'new';
    update allocations set status = 'failed', failure_code = 'x', failed_at = clock_timestamp(),
        version = 3 where id = 'lost';
    update allocations set status = 'active', active_at = '2100-01-01', version = 3
        where id in ('used', 'back', 'stuck', 'gone');
    update allocations set status = 'releasing', releasing_at = '2100-01-02', version = 4
        where id in ('back', 'stuck', 'gone');
    update allocations set status = 'release_failed', release_failed_at = '2100-01-03', version = 5
        where id = 'stuck';
    update allocations set status = 'released', released_at = '2100-01-03', version = 5,
        proof = '{"released": true, "wiped": true, "leases_released": true}' where id = 'gone';
    insert into claims (allocation_id, kind, node_id, slot_id, status)
        values ('used', 'slot', 'n', 'n/0', 'active'), ('new', 'slot', 'n', 'n/1', 'reserved'),
               ('gone', 'slot', 'n', 'n/0', 'released');
    insert into allocation_ssh_keys values ('used', 'key');
    insert into node_tasks (id, node_id, allocation_id, task_type, idempotency_key, params,
            signature, signer_version_id, status, correlation_id, expires_at)
        values ('tsk', 'n', 'used', 't', 'one', '{}', 's', 'v', 'queued', 'cor', '2100-01-01'),
               ('end', 'n', 'used', 't', 'two', '{}', 's', 'v', 'queued', 'cor', '2100-01-01');
    update node_tasks set status = 'expired', ended_at = clock_timestamp() where id = 'end';
    insert into late_results (task_id, status, result, result_hash)
        values ('end', 'completed', '{}', 'h');
    insert into outbox (id, key, event_type, subject, envelope, correlation_id)
        values ('evt', 'used', 'e', 's', '{}', 'cor');
    insert into consumed (consumer, event_id) values ('c', 'evt');
    insert into consumer_failures (consumer, event_id, attempt_count, last_error)
        values ('c', 'evt', 1, 'x');
    insert into ledger (account_id, amount_minor, currency, kind, allocation_id, dedupe_key)
        values ('acc', -10800, 'USD', 'charge', 'gone', 'one');
    insert into ledger (account_id, amount_minor, currency, kind, corrects_id, dedupe_key)
        select 'acc', 1, 'USD', 'correction', id, 'two' from ledger;
    insert into usage_records (allocation_id, account_id, window_start, window_end, gpus,
            price_minor, amount_minor, ledger_id)
        select 'gone', 'acc', '2100-01-01', '2100-01-02', 1, 450, 10800, min(id) from ledger;
    insert into low_balance_episodes (account_id) values ('acc');
    insert into node_outages (node_id, began_at) values ('m', '2100-01-01');
    insert into audit (actor, actor_role, action, target_type, target_id, result, correlation_id)
        values ('u', 'admin', 'a', 't', 'i', 'success', 'cor');
    insert into idempotency_keys (principal, route, key, request_hash, resource)
        values ('p', 'r', 'k', 'h', 'alc');
    insert into executors (id) values ('exe');
    insert into notices (project_id, event_id, event_type, allocation_id, occurred_at,
                         correlation_id, payload)
        values ('prj', 'evt', 'e', 'used', clock_timestamp(), 'cor', '{}');
    insert into signer_versions (id, public_key, state)
        values ('v', 'k', 'active'), ('old', 'k', 'retired');
"""
"""Allocations are named for where they are: new, made, used, back, stuck, gone and lost."""


@dataclass(frozen=True, slots=True)
class Case:
    """A rule, and what it refuses."""

    rule: str
    """The name of a constraint, of a unique index or of a trigger."""

    sentence: str
    sql: str
    says: str = ""
    """What the refusal must say; for a constraint, its own name."""


def _claim(kind: str, node: str, slot: str, status: str = "reserved") -> str:
    return f"""insert into claims (allocation_id, kind, node_id, slot_id, status)
               values ('made', '{kind}', '{node}', {slot}, '{status}')"""


def _entry(columns: str, values: str) -> str:
    return f"insert into ledger (account_id, currency, {columns}) values ('acc', 'USD', {values})"


def _window(start: str, end: str, amount: int = 0, **others: str) -> str:
    given = {"account_id": "'acc'", "gpus": "1", "price_minor": "450", "ledger_id": "null"} | others
    return f"""insert into usage_records (allocation_id, window_start, window_end, amount_minor,
                                          {", ".join(given)})
               values ('used', '{start}', '{end}', {amount}, {", ".join(given.values())})"""


def _set(table: str, change: str, where: str = "true") -> str:
    return f"update {table} set {change} where {where}"


EDGES: Final = "allocation_follows_an_edge"
APPENDED: Final = "is only appended to"

CASES: Final = (
    # What is sold, where and to whom.
    Case("regions_code_check", "a region has a code fit for an address",
         _set("regions", "code = 'No Such'")),
    Case("os_images_sha256_check", "an image has a whole hash", _set("os_images", "sha256 = 'ab'")),
    Case("os_images_driver_strategy_check", "an image says one of two ways to its driver",
         _set("os_images", "driver_strategy = 'prayer'")),
    Case("skus_capacity_shape_check", "a SKU is a slice or a whole node",
         _set("skus", "capacity_shape = 'half'")),
    Case("skus_gpus_total_check", "a SKU has GPUs", _set("skus", "gpus_total = 0")),
    Case("skus_allowed_gpu_counts_check", "a SKU can be asked for in some number",
         _set("skus", "allowed_gpu_counts = '{}'")),
    Case("skus_gpu_hourly_price_minor_check", "nobody is paid for taking GPUs",
         _set("skus", "gpu_hourly_price_minor = -1")),
    Case("skus_currency_check", "a SKU's currency is three letters",
         _set("skus", "currency = 'usd'")),
    Case("skus_cpu_milli_per_gpu_check", "a slice gives back no CPU",
         _set("skus", "cpu_milli_per_gpu = -1")),
    Case("skus_memory_mib_per_gpu_check", "a slice gives back no memory",
         _set("skus", "memory_mib_per_gpu = -1")),
    Case("accounts_currency_check", "an account's currency is three letters",
         _set("accounts", "currency = '$$$'", "id = 'other'")),
    Case("projects_interruption_penalty_bucket_check", "an interruption's penalty is a bucket",
         _set("projects", "interruption_penalty_bucket = 28")),
    Case("projects_reclamation_penalty_bucket_check", "a reclamation's penalty is a bucket",
         _set("projects", "reclamation_penalty_bucket = -1")),
    Case("ssh_keys_public_key_check", "an SSH key looks like one",
         _set("ssh_keys", "public_key = '-----BEGIN OPENSSH PRIVATE KEY-----'")),
    Case("api_keys_role_check", "an API key has a role that there is",
         _set("api_keys", "role = 'king'", "id = 'root'")),
    Case("api_keys_hash_key", "two API keys are never the same", _set("api_keys", "hash = 'hash'")),
    Case("api_keys_of_tenants_have_a_project", "a tenant's API key opens one project",
         _set("api_keys", "project_id = null", "id = 'api'")),
    Case("api_keys_of_tenants_have_a_project", "an administrator's API key is of no project",
         _set("api_keys", "project_id = 'prj'", "id = 'root'")),
    # Nodes and slots.
    Case("nodes_status_check", "a node is in a state that there is",
         _set("nodes", "status = 'happy'")),
    Case("nodes_mode_check", "a node is given out in slots or whole",
         _set("nodes", "mode = 'both'", "id = 'm'")),
    Case("nodes_gpus_total_check", "a node has GPUs", _set("nodes", "gpus_total = 0")),
    Case("nodes_cert_fingerprint", "a certificate is one node's",
         _set("nodes", "cert_fingerprint = 'now'", "id = 'm'")),
    Case("nodes_cert_pending_fingerprint", "a renewed certificate is one node's",
         _set("nodes", "cert_pending_fingerprint = 'next'", "id = 'm'")),
    Case("slots_status_check", "a slot is in a state that there is",
         _set("slots", "status = 'free'")),
    Case("slots_slot_index_check", "slots are counted from 0",
         _set("slots", "slot_index = -1", "id = 'm/0'")),
    Case("slots_node_id_slot_index_key", "a place in a node is one slot",
         _set("slots", "slot_index = 0", "id = 'n/1'")),
    # Allocations: the row.
    Case("allocations_status_check", "an allocation is in a state that there is",
         "insert into allocation_edges values ('requested', 'gone');"
         + _set("allocations", "status = 'gone', version = 2", "id = 'new'")),
    Case("allocations_gpus_check", "an allocation has GPUs", _set("allocations", "gpus = 0")),
    Case("allocations_capacity_shape_check", "an allocation is a slice or a whole node",
         _set("allocations", "capacity_shape = 'half'")),
    Case("allocations_price_minor_check", "an allocation is not paid for by us",
         _set("allocations", "price_minor = -1")),
    Case("allocations_currency_check", "an allocation's currency is three letters",
         _set("allocations", "currency = 'eur'")),
    Case("allocations_account_id_currency_fkey", "an allocation is paid in its account's currency",
         _set("allocations", "currency = 'EUR'")),
    Case("allocations_version_check", "an allocation's version counts from 1",
         _set("allocations", "version = 0")),
    Case("allocations_release_attempt_check", "releases are counted from 0",
         _set("allocations", "release_attempt = -1")),
    Case("allocations_release_initiator_check", "a release was asked for by somebody known",
         _set("allocations", "release_initiator = 'weather'")),
    Case("allocations_cancel_requested_by_check", "a cancel was asked for by somebody known",
         _set("allocations", "cancel_requested_by = 'weather'")),
    Case("active_since_when", "an active allocation says since when",
         _set("allocations", "status = 'active', version = 3", "id = 'made'")),
    Case("active_after_created", "nothing is active before it was asked for",
         _set("allocations", "active_at = '2000-01-01'", "id = 'used'")),
    Case("releasing_since_when", "a release says since when: there payment ended",
         _set("allocations", "status = 'releasing', version = 4", "id = 'used'")),
    Case("releasing_after_active", "payment does not end before it began",
         _set("allocations", "releasing_at = '2099-01-01'", "id = 'back'")),
    Case("released_when", "what is released says when",
         _set("allocations", "released_at = null", "id = 'gone'")),
    Case("released_when", "only what is released says when it was",
         _set("allocations", "released_at = clock_timestamp()", "id = 'used'")),
    Case("failed_when", "what failed says when",
         _set("allocations", "failed_at = null", "id = 'lost'")),
    Case("failed_when", "only what failed says when it did",
         _set("allocations", "failed_at = clock_timestamp()", "id = 'used'")),
    Case("failed_why", "what failed says why",
         _set("allocations", "failure_code = null", "id = 'lost'")),
    Case("release_failed_when", "a failed release says when",
         _set("allocations", "release_failed_at = null", "id = 'stuck'")),
    Case("charged_to_the_end_after_the_end", "nobody is charged to an end that has not come",
         _set("allocations", "billing_closed_at = clock_timestamp()", "id = 'used'")),
    *(
        Case("released_with_proof", f"clean-up is not proved by {proof}",
             _set("allocations", "status = 'released', released_at = clock_timestamp(), "
                  f"version = 9, proof = {proof}", "id = 'back'"))
        for proof in (
            "null", "'{}'", """'{"released": true}'""",
            """'{"released": false, "wiped": true, "leases_released": true}'""",
            """'{"released": true, "wiped": false, "leases_released": true}'""",
            """'{"released": true, "wiped": true, "leases_released": false}'""",
            """'{"released": true, "wiped": null, "leases_released": true}'""",
        )
    ),
    # Allocations: the steps.
    Case("allocation_begins_requested", "an allocation is not born in the middle of its life",
         """insert into allocations select (jsonb_populate_record(a, '{"id": "x"}')).*
            from allocations a where id = 'used'""",
         "begins as requested, not as active"),
    Case(EDGES, "a released allocation comes never back",
         _set("allocations", "status = 'releasing', version = 9", "id = 'gone'"),
         "does not go from released to releasing"),
    Case(EDGES, "a late success revives no failed allocation",
         _set("allocations", "status = 'active', version = 9", "id = 'lost'"),
         "does not go from failed to active"),
    Case(EDGES, "a step raises the version, so that a stale writer finds nobody",
         _set("allocations", "status = 'provisioning'", "id = 'new'"), "must raise its version"),
    # Claims.
    Case("claims_kind_check", "a claim is of a slot or of a node", _claim("rack", "m", "null")),
    Case("claims_status_check", "a claim is in a state that there is",
         _claim("slot", "m", "'m/0'", "wished")),
    Case("claims_of_slots_name_a_slot", "a claim of a slot says which",
         _claim("slot", "m", "null")),
    Case("claims_of_slots_name_a_slot", "a claim of a node names no slot",
         _claim("node_exclusive", "m", "'m/0'")),
    Case("claims_slot_id_node_id_fkey", "a slot is claimed on its own node",
         _claim("slot", "m", "'n/0'", "released")),
    Case("claims_one_live_per_slot", "a slot is never held twice", _claim("slot", "n", "'n/0'")),
    Case("claims_one_live_per_slot", "a blocked slot is held", _set(
        "claims", "status = 'blocked'", "slot_id = 'n/0'")),
    Case("claims_one_live_per_node", "a node is never held whole twice",
         _set("nodes", "mode = 'node_exclusive'", "id = 'm'") + ";"
         + _claim("node_exclusive", "m", "null") + ";" + _claim("node_exclusive", "m", "null")),
    Case("claims_node_id_live_mode_fkey", "a node with a slot held is not taken whole",
         _claim("node_exclusive", "n", "null")),
    Case("claims_node_id_live_mode_fkey", "nor is its mode changed under the one who holds it",
         _set("nodes", "mode = 'node_exclusive'", "id = 'n'")),
    Case("claims_node_id_live_mode_fkey", "no slot of a node that is held whole is taken",
         _set("nodes", "mode = 'node_exclusive'", "id = 'm'") + ";"
         + _claim("node_exclusive", "m", "null") + ";" + _claim("slot", "m", "'m/0'")),
    # Tasks.
    Case("node_tasks_status_check", "a task is in a state that there is",
         _set("node_tasks", "status = 'lost', dispatched_at = clock_timestamp()",
              "id = 'tsk'")),
    Case("node_tasks_idempotency_key_key", "a task is given once",
         _set("node_tasks", "idempotency_key = 'two'", "id = 'tsk'")),
    Case("dispatched_when", "a task that was taken says when",
         _set("node_tasks", "status = 'dispatched'", "id = 'tsk'")),
    Case("dispatched_when", "a task that waits was not taken",
         _set("node_tasks", "dispatched_at = clock_timestamp()", "id = 'tsk'")),
    Case("task_ended_when", "a task that has ended says when",
         _set("node_tasks", "status = 'completed', dispatched_at = clock_timestamp()",
              "id = 'tsk'")),
    Case("task_ended_when", "a task that has not ended does not say that it has",
         _set("node_tasks", "ended_at = clock_timestamp()", "id = 'tsk'")),
    Case("a_task_that_ended_never_changes", "a task that has ended stays as it ended",
         _set("node_tasks", "status = 'completed', dispatched_at = clock_timestamp()",
              "id = 'end'"), "task end has ended"),
    Case("late_results_status_check", "a late result is a result",
         _set("late_results", "status = 'expired'")),
    # Events.
    Case("outbox_status_check", "an event is in a state that there is",
         _set("outbox", "status = 'maybe'")),
    Case("outbox_position_key", "two events have never the same place",
         """insert into outbox (id, position, key, event_type, subject, envelope, correlation_id)
            overriding system value select 'x', position, 'k', 'e', 's', '{}', 'c' from outbox"""),
    Case("outbox_publications_check", "publications are counted from 0",
         _set("outbox", "publications = -1")),
    Case("published_when", "an event that was published says when",
         _set("outbox", "status = 'published'")),
    Case("event_ended_when", "an event that is done says when", _set("outbox", "status = 'done'")),
    Case("event_ended_when", "an event that waits is not done",
         _set("outbox", "ended_at = clock_timestamp()")),
    Case("consumer_failures_attempt_count_check", "who failed has tried",
         _set("consumer_failures", "attempt_count = 0")),
    Case("notices_project_id_event_id_key", "a project is told of an event once",
         """insert into notices (project_id, event_id, event_type, occurred_at, correlation_id,
                                 payload) values ('prj', 'evt', 'e', '2100-01-01', 'c', '{}')"""),
    # Money.
    Case("ledger_amount_minor_check", "an entry of the ledger moves something",
         _entry("kind, amount_minor, dedupe_key", "'credit', 0, 'x'")),
    Case("ledger_currency_check", "an entry's currency is three letters",
         "insert into ledger (account_id, currency, kind, amount_minor, dedupe_key) "
         "values ('acc', 'usd', 'credit', 1, 'x')"),
    Case("ledger_account_id_currency_fkey", "an entry is in its account's currency",
         "insert into ledger (account_id, currency, kind, amount_minor, dedupe_key) "
         "values ('acc', 'EUR', 'credit', 1, 'x')"),
    Case("ledger_kind_check", "an entry is of a kind that there is",
         _entry("kind, amount_minor, dedupe_key", "'gift', 1, 'x'")),
    Case("ledger_dedupe_key_key", "money moves once",
         _entry("kind, amount_minor, dedupe_key", "'credit', 1, 'one'")),
    Case("charges_take_for_an_allocation", "a charge takes",
         _entry("kind, amount_minor, dedupe_key, allocation_id", "'charge', 1, 'x', 'used'")),
    Case("charges_take_for_an_allocation", "a charge says for what",
         _entry("kind, amount_minor, dedupe_key", "'charge', -1, 'x'")),
    Case("corrections_name_what_they_correct", "a correction says of what",
         _entry("kind, amount_minor, dedupe_key", "'correction', 1, 'x'")),
    Case("corrections_name_what_they_correct", "a credit corrects nothing",
         "insert into ledger (account_id, currency, kind, amount_minor, dedupe_key, corrects_id) "
         "select 'acc', 'USD', 'credit', 1, 'x', min(id) from ledger"),
    Case("usage_records_amount_minor_check", "usage costs nothing or something",
         _window("2100-01-01", "2100-01-02", -1)),
    Case("usage_records_check", "usage takes time", _window("2100-01-01", "2100-01-01")),
    Case("usage_that_costs_is_in_the_ledger", "usage that costs is charged",
         _window("2100-01-01", "2100-01-02", 5)),
    Case("usage_that_costs_is_in_the_ledger", "usage that costs nothing is not",
         _window("2100-01-01", "2100-01-02", ledger_id="(select max(id) from ledger)")),
    Case("usage_records_ledger_id_key", "a charge is for one window",
         _window("2100-01-01", "2100-01-02", 5, ledger_id="(select min(id) from ledger)")),
    Case("usage_records_allocation_id_window_start_key", "a window is charged once",
         "alter table usage_records disable trigger user;"
         + _window("2100-01-01", "2100-01-02") + ";" + _window("2100-01-01", "2100-01-03")),
    Case("usage_goes_on_where_it_ended", "usage begins when the tenant has it",
         _window("2100-01-02", "2100-01-03"), "must go on at 2100-01-01"),
    Case("usage_goes_on_where_it_ended", "usage has no gap",
         _window("2100-01-01", "2100-01-02") + ";" + _window("2100-01-03", "2100-01-04"),
         "must go on at 2100-01-02"),
    Case("usage_goes_on_where_it_ended", "usage ends with the release",
         _set("allocations", "status = 'releasing', releasing_at = '2100-01-02', version = 4",
              "id = 'used'") + ";" + _window("2100-01-01", "2100-01-03"),
         "end by 2100-01-02"),
    Case("usage_goes_on_where_it_ended", "usage is charged to the one who pays",
         _window("2100-01-01", "2100-01-02", account_id="'other'"), "must have its payer"),
    Case("usage_goes_on_where_it_ended", "usage has the price that was agreed",
         _window("2100-01-01", "2100-01-02", price_minor="451"), "must have its payer"),
    Case("outages_end_after_they_began", "an outage ends after it began",
         _set("node_outages", "ended_at = '2099-12-31'")),
    Case("one_outage_at_a_time", "a node is offline once at a time",
         "insert into node_outages (node_id, began_at) values ('m', '2100-01-02')"),
    Case("one_low_balance_episode", "an account is low once at a time",
         "insert into low_balance_episodes (account_id) values ('acc')"),
    # Records for ever.
    *(
        Case(rule, f"nobody can {sql.split()[0]} {table}", sql, f"{table} {APPENDED}")
        for rule, table, change in (
            ("ledger_is_only_appended", "ledger", "reason = ''"),
            ("audit_is_only_appended", "audit", "actor = 'nobody'"),
            ("usage_is_only_appended", "usage_records", "gpus = 2"),
        )
        for sql in (_set(table, change), f"delete from {table}", f"truncate {table} cascade")
    ),
    Case("audit_result_check", "an attempt succeeded or failed",
         """insert into audit (actor, actor_role, action, target_type, target_id, result,
                               correlation_id) values ('u', 'r', 'a', 't', 'i', 'perhaps', 'c')"""),
    Case("signer_versions_state_check", "a signing key is in a state that there is",
         _set("signer_versions", "state = 'lent'", "id = 'old'")),
    Case("one_active_signer", "one key signs",
         _set("signer_versions", "state = 'active'", "id = 'old'")),
)  # fmt: skip

UNBREAKABLE: Final = frozenset({
    "accounts_id_currency_key", "nodes_id_mode_key", "slots_id_node_id_key",
    "slots_come_to_be_seen", "slots_are_seen_to_change", "slots_are_seen_to_go",
    "claims_come_to_be_seen", "claims_are_seen_to_change", "claims_are_seen_to_go",
    "offers_come_to_be_seen", "offers_are_seen_to_change", "offers_are_seen_to_go",
    "nodes_are_seen_to_change", "skus_are_seen_to_change", "regions_are_seen_to_change",
    "nodes_are_seen_to_come_and_go", "slots_are_ready", "slots_come_to_count",
})  # fmt: skip
"""Uniques that stand inside a primary key: there for other tables to point at. And triggers that
refuse nothing: they note which nodes have changed and which slots are ready."""
