-- What tenants hold, what it stands on, and what is told and charged of it.
-- Wrong states are refused here even when code forgets: by checks, by keys, by triggers.

create table regions (
    code        text primary key check (code ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name        text not null,
    active      boolean not null default true
);

create table os_images (
    slug            text primary key,
    address         text not null,
    sha256          text not null check (sha256 ~ '^[0-9a-f]{64}$'),
    driver_strategy text not null default 'preinstalled'
                    check (driver_strategy in ('preinstalled', 'cloud_init')),
    active          boolean not null default true
);

create table skus (
    sku                     text primary key,
    vendor                  text not null default '',
    display_name            text not null default '',
    capacity_shape          text not null check (capacity_shape in ('gpu_slice', 'baremetal')),
    gpus_total              int not null check (gpus_total > 0),
    allowed_gpu_counts      int[] not null check (cardinality(allowed_gpu_counts) > 0),
    gpu_hourly_price_minor  bigint not null check (gpu_hourly_price_minor >= 0),
    currency                text not null default 'USD' check (currency ~ '^[A-Z]{3}$'),
    cpu_milli_per_gpu       int not null default 0 check (cpu_milli_per_gpu >= 0),
    memory_mib_per_gpu      int not null default 0 check (memory_mib_per_gpu >= 0),
    image_slug              text references os_images,
    active                  boolean not null default true
);

-- Who pays. The balance is the sum of the ledger and is stored nowhere.
create table accounts (
    id                      text primary key,
    name                    text not null default '',
    currency                text not null default 'USD' check (currency ~ '^[A-Z]{3}$'),
    low_balance_minor       bigint not null default 0,
    created_at              timestamptz not null default clock_timestamp(),
    unique (id, currency)
);

create table projects (
    id                          text primary key,
    account_id                  text not null references accounts,
    name                        text not null default '',
    priority                    int not null default 0,
    interruption_penalty_bucket smallint not null default 0
                                check (interruption_penalty_bucket between 0 and 27),
    reclamation_penalty_bucket  smallint not null default 0
                                check (reclamation_penalty_bucket between 0 and 27),
    created_at                  timestamptz not null default clock_timestamp()
);

create table ssh_keys (
    id          text primary key,
    project_id  text not null references projects,
    name        text not null default '',
    public_key  text not null check (public_key ~ '^(ssh|ecdsa|sk)-'),
    created_at  timestamptz not null default clock_timestamp()
);

create table api_keys (
    id          text primary key,
    hash        bytea not null unique,
    role        text not null check (role in ('tenant', 'member', 'admin', 'readonly')),
    project_id  text references projects,
    name        text not null default '',
    created_at  timestamptz not null default clock_timestamp(),
    expires_at  timestamptz,
    revoked_at  timestamptz,
    constraint api_keys_of_tenants_have_a_project
        check ((role in ('tenant', 'member')) = (project_id is not null))
);

-- `sku` is the first name a node is sold under.
-- `mode` says how a node is given out now. A live claim points at (id, mode), so that no claim of
-- the other kind can live beside it, and the mode cannot change under a live claim.
create table nodes (
    id                  text primary key,
    region              text not null references regions,
    sku                 text not null references skus,
    status              text not null check (status in ('bootstrap_issued', 'enrolling', 'active',
                            'offline', 'quarantined', 'draining', 'retired')),
    mode                text not null default 'slot' check (mode in ('slot', 'node_exclusive')),
    gpus_total          int not null check (gpus_total > 0),
    cpu_milli           int not null default 0,
    memory_mib          int not null default 0,
    partitioned         boolean not null default true,
    cert_fingerprint    text,
    -- Renewed, but not used yet: until then the old one holds. And the one before the current:
    -- what it claimed, its successor may end.
    cert_pending_fingerprint    text,
    cert_previous_fingerprint   text,
    agent_version       text not null default '',
    last_seen_at        timestamptz,
    enrol_token_hash    bytea,
    enrol_expires_at    timestamptz,
    created_at          timestamptz not null default clock_timestamp(),
    unique (id, mode)
);
create unique index nodes_cert_fingerprint on nodes (cert_fingerprint)
    where cert_fingerprint is not null;
create unique index nodes_cert_pending_fingerprint on nodes (cert_pending_fingerprint)
    where cert_pending_fingerprint is not null;
create index nodes_open on nodes (region, sku, id) where status = 'active';

-- Further names under which a node is sold, such as whole beside in slices.
create table node_offers (
    node_id     text not null references nodes,
    sku         text not null references skus,
    primary key (node_id, sku)
);

create table slots (
    id                      text primary key,
    node_id                 text not null references nodes,
    slot_index              int not null check (slot_index >= 0),
    status                  text not null check (status in ('discovered', 'available', 'reserved',
                                'in_use', 'releasing', 'cleanup_blocked', 'disabled')),
    numa_node               int not null default 0,
    pci_address             text not null default '',
    nvme_device             text not null default '',
    mac_address             text not null default '',
    private_ip              text not null default '',
    fabric_claim_mode       text not null default 'per_slot_vf',
    fabric_vf_pci_address   text not null default '',
    health_detail           jsonb not null default '{}',
    unique (node_id, slot_index),
    unique (id, node_id)
);

create index slots_available on slots (node_id) where status = 'available';

create table allocations (
    id                      text primary key,
    project_id              text not null references projects,
    account_id              text not null references accounts,
    requested_by            text not null,
    sku                     text not null references skus,
    gpus                    int not null check (gpus > 0),
    region                  text not null references regions,
    capacity_shape          text not null check (capacity_shape in ('gpu_slice', 'baremetal')),
    node_id                 text not null references nodes,
    image_slug              text references os_images,
    price_minor             bigint not null check (price_minor >= 0),
    currency                text not null check (currency ~ '^[A-Z]{3}$'),
    status                  text not null check (status in ('requested', 'provisioning', 'active',
                                'releasing', 'released', 'failed', 'release_failed')),
    version                 int not null default 1 check (version > 0),
    correlation_id          text not null,

    created_at              timestamptz not null,
    provisioning_started_at timestamptz,
    active_at               timestamptz,
    releasing_at            timestamptz,
    released_at             timestamptz,
    failed_at               timestamptz,
    release_failed_at       timestamptz,
    release_retried_at      timestamptz,

    release_attempt         int not null default 0 check (release_attempt >= 0),
    release_initiator       text check (release_initiator in ('tenant', 'billing', 'admin')),
    cancel_requested_by     text check (cancel_requested_by in ('tenant', 'billing', 'admin')),
    failure_code            text,
    failure_phase           text,
    failure_reason          text,
    hard_stopped            boolean not null default false,
    connection              jsonb not null default '{}',
    proof                   jsonb,
    -- Charged to its end: the biller need not look at it again.
    billing_closed_at       timestamptz,

    foreign key (account_id, currency) references accounts (id, currency),
    constraint charged_to_the_end_after_the_end
        check (billing_closed_at is null or releasing_at is not null),
    constraint active_since_when check (status <> 'active' or active_at is not null),
    constraint releasing_since_when
        check (status not in ('releasing', 'released', 'release_failed') or releasing_at is not null),
    constraint released_when check ((status = 'released') = (released_at is not null)),
    constraint failed_when check ((status = 'failed') = (failed_at is not null)),
    constraint failed_why check (status <> 'failed' or failure_code is not null),
    constraint release_failed_when
        check (status <> 'release_failed' or release_failed_at is not null),
    constraint active_after_created check (active_at is null or active_at >= created_at),
    constraint releasing_after_active check (releasing_at is null or releasing_at >= active_at),
    -- The proof is what makes it released: all three parts, said by the agent.
    constraint released_with_proof check (status <> 'released' or (
        proof is not null
        and (proof ->> 'released')::boolean is true
        and (proof ->> 'wiped')::boolean is true
        and (proof ->> 'leases_released')::boolean is true
    ))
);
create index allocations_of_project on allocations (project_id, created_at desc, id desc);
create index allocations_at_work on allocations (status, id)
    where status in ('requested', 'provisioning', 'active', 'releasing', 'release_failed');
create index allocations_of_account on allocations (account_id) where status = 'active';
create index allocations_to_bill on allocations (id)
    where active_at is not null and billing_closed_at is null;

-- The edges of mainstay.tenancy.states.EDGES; a test holds them against each other.
create table allocation_edges (
    old text not null,
    new text not null,
    primary key (old, new)
);
insert into allocation_edges (old, new) values
    ('requested', 'provisioning'),
    ('provisioning', 'active'),
    ('provisioning', 'failed'),
    ('active', 'releasing'),
    ('releasing', 'released'),
    ('releasing', 'release_failed'),
    ('release_failed', 'releasing');

create function allocation_follows_an_edge() returns trigger language plpgsql as $$
begin
    if new.status <> old.status and not exists (
        select from allocation_edges edge where edge.old = old.status and edge.new = new.status
    ) then
        raise exception 'an allocation does not go from % to %', old.status, new.status
            using errcode = 'check_violation';
    end if;
    if new.status <> old.status and new.version <= old.version then
        raise exception 'a step of an allocation must raise its version'
            using errcode = 'check_violation';
    end if;
    return new;
end $$;
create trigger allocation_follows_an_edge before update on allocations
    for each row execute function allocation_follows_an_edge();

create function allocation_begins_requested() returns trigger language plpgsql as $$
begin
    if new.status <> 'requested' then
        raise exception 'an allocation begins as requested, not as %', new.status
            using errcode = 'check_violation';
    end if;
    return new;
end $$;
create trigger allocation_begins_requested before insert on allocations
    for each row execute function allocation_begins_requested();

create table claims (
    id              bigint generated always as identity primary key,
    allocation_id   text not null references allocations,
    kind            text not null check (kind in ('slot', 'node_exclusive')),
    node_id         text not null references nodes,
    slot_id         text,
    status          text not null check (status in ('reserved', 'active', 'releasing', 'blocked',
                        'released', 'failed')),
    live_mode       text generated always as (
                        case when status in ('reserved', 'active', 'releasing', 'blocked')
                             then kind end) stored,
    created_at      timestamptz not null default clock_timestamp(),
    ended_at        timestamptz,
    constraint claims_of_slots_name_a_slot check ((kind = 'slot') = (slot_id is not null)),
    foreign key (slot_id, node_id) references slots (id, node_id),
    foreign key (node_id, live_mode) references nodes (id, mode)
);
create unique index claims_one_live_per_slot on claims (slot_id) where live_mode = 'slot';
create unique index claims_one_live_per_node on claims (node_id)
    where live_mode = 'node_exclusive';
create index claims_of_allocation on claims (allocation_id);
create index claims_of_node on claims (node_id, id);
create index claims_live_of_node on claims (node_id, live_mode) where live_mode is not null;

create table allocation_ssh_keys (
    allocation_id   text not null references allocations,
    ssh_key_id      text not null references ssh_keys,
    primary key (allocation_id, ssh_key_id)
);

create table node_tasks (
    id                      text primary key,
    node_id                 text not null references nodes,
    allocation_id           text references allocations,
    task_type               text not null,
    attempt                 int not null default 1,
    idempotency_key         text not null unique,
    params                  jsonb not null,
    signature               text not null,
    signer_version_id       text not null,
    status                  text not null check (status in ('queued', 'dispatched', 'completed',
                                'failed', 'expired')),
    claimed_by_fingerprint  text,
    result                  jsonb,
    result_hash             text,
    error_code              text,
    error_detail            text,
    correlation_id          text not null,
    created_at              timestamptz not null default clock_timestamp(),
    expires_at              timestamptz not null,
    dispatched_at           timestamptz,
    ended_at                timestamptz,
    constraint dispatched_when
        check ((status = 'queued') = (dispatched_at is null) or status = 'expired'),
    constraint task_ended_when
        check ((status in ('completed', 'failed', 'expired')) = (ended_at is not null))
);
create index node_tasks_queued on node_tasks (node_id, created_at, id) where status = 'queued';
create index node_tasks_open on node_tasks (expires_at) where status in ('queued', 'dispatched');

create function a_task_that_ended_never_changes() returns trigger language plpgsql as $$
begin
    if old.status in ('completed', 'failed', 'expired') and new is distinct from old then
        raise exception 'task % has ended', old.id using errcode = 'check_violation';
    end if;
    return new;
end $$;
create trigger a_task_that_ended_never_changes before update on node_tasks
    for each row execute function a_task_that_ended_never_changes();

-- What an agent said after its task had expired. It revives nothing; what it made is taken back.
create table late_results (
    task_id     text primary key references node_tasks,
    status      text not null check (status in ('completed', 'failed')),
    result      jsonb not null,
    result_hash text not null,
    error_code  text,
    received_at timestamptz not null default clock_timestamp(),
    handled_at  timestamptz
);
create index late_results_open on late_results (received_at) where handled_at is null;

-- An event stays until every consumer has committed what it did with it.
create table outbox (
    id              text primary key,
    position        bigint generated always as identity unique,
    key             text not null,
    event_type      text not null,
    subject         text not null,
    envelope        jsonb not null,
    correlation_id  text not null,
    status          text not null default 'pending' check (status in ('pending', 'published',
                        'done', 'failed', 'discarded')),
    publications    int not null default 0 check (publications >= 0),
    attempt_count   int not null default 0,
    last_error      text,
    not_before      timestamptz not null default clock_timestamp(),
    created_at      timestamptz not null default clock_timestamp(),
    published_at    timestamptz,
    ended_at        timestamptz,
    constraint published_when check (status <> 'published' or published_at is not null),
    constraint event_ended_when check ((status in ('done', 'discarded')) = (ended_at is not null))
);
create index outbox_waiting on outbox (key, position)
    where status in ('pending', 'published', 'failed');
create index outbox_due on outbox (not_before, position) where status in ('pending', 'published');
create index outbox_failed on outbox (position) where status = 'failed';

create table consumed (
    consumer    text not null,
    event_id    text not null references outbox,
    at          timestamptz not null default clock_timestamp(),
    primary key (event_id, consumer)
);

-- What a consumer could not do yet, and what it gave up.
create table consumer_failures (
    consumer        text not null,
    event_id        text not null references outbox,
    attempt_count   int not null check (attempt_count > 0),
    last_error      text not null,
    not_before      timestamptz not null default clock_timestamp(),
    gave_up_at      timestamptz,
    primary key (event_id, consumer)
);

create table ledger (
    id                  bigint generated always as identity primary key,
    account_id          text not null references accounts,
    amount_minor        bigint not null check (amount_minor <> 0),
    currency            text not null check (currency ~ '^[A-Z]{3}$'),
    kind                text not null check (kind in ('charge', 'credit', 'correction')),
    allocation_id       text references allocations,
    corrects_id         bigint references ledger,
    dedupe_key          text not null unique,
    reason              text not null default '',
    created_at          timestamptz not null default clock_timestamp(),
    constraint charges_take_for_an_allocation
        check (kind <> 'charge' or (amount_minor < 0 and allocation_id is not null)),
    foreign key (account_id, currency) references accounts (id, currency),
    constraint corrections_name_what_they_correct
        check ((kind = 'correction') = (corrects_id is not null))
);
create index ledger_of_account on ledger (account_id, id) include (amount_minor);
create index ledger_corrections on ledger (corrects_id) where corrects_id is not null;
create index ledger_of_allocation on ledger (allocation_id, id) where allocation_id is not null;

create table usage_records (
    id              bigint generated always as identity primary key,
    allocation_id   text not null references allocations,
    account_id      text not null references accounts,
    window_start    timestamptz not null,
    window_end      timestamptz not null check (window_end > window_start),
    gpus            int not null,
    price_minor     bigint not null,
    amount_minor    bigint not null check (amount_minor >= 0),
    ledger_id       bigint unique references ledger,
    unique (allocation_id, window_start),
    constraint usage_that_costs_is_in_the_ledger
        check ((amount_minor > 0) = (ledger_id is not null))
);
create index usage_of_account on usage_records (account_id, window_start);

-- Usage tiles the time from active_at on: no gap, no overlap, nothing beyond releasing_at.
create function usage_goes_on_where_it_ended() returns trigger language plpgsql as $$
declare
    of      allocations%rowtype;
    reached timestamptz;
begin
    select * into of from allocations where id = new.allocation_id;
    select max(window_end) into reached from usage_records
        where allocation_id = new.allocation_id;
    if new.window_start is distinct from coalesce(reached, of.active_at)
        or new.window_end > coalesce(of.releasing_at, 'infinity') then
        raise exception 'usage of % must go on at % and end by %', new.allocation_id,
            coalesce(reached, of.active_at), of.releasing_at using errcode = 'check_violation';
    end if;
    if (new.account_id, new.gpus, new.price_minor)
        is distinct from (of.account_id, of.gpus, of.price_minor) then
        raise exception 'usage of % must have its payer, GPUs and price', new.allocation_id
            using errcode = 'check_violation';
    end if;
    return new;
end $$;
create trigger usage_goes_on_where_it_ended before insert on usage_records
    for each row execute function usage_goes_on_where_it_ended();

create table low_balance_episodes (
    account_id  text not null references accounts,
    began_at    timestamptz not null default clock_timestamp(),
    warned_at   timestamptz,
    pending_at  timestamptz,
    depleted_at timestamptz,
    ended_at    timestamptz,
    primary key (account_id, began_at)
);
create unique index one_low_balance_episode on low_balance_episodes (account_id)
    where ended_at is null;

create table audit (
    id              bigint generated always as identity primary key,
    at              timestamptz not null default clock_timestamp(),
    actor           text not null,
    actor_role      text not null,
    action          text not null,
    target_type     text not null,
    target_id       text not null,
    result          text not null check (result in ('success', 'failure')),
    correlation_id  text not null,
    metadata        jsonb not null default '{}'
);

-- `resource` is the id of what the first call makes, so that a second try finds it.
create table idempotency_keys (
    principal       text not null,
    route           text not null,
    key             text not null,
    request_hash    text not null,
    resource        text not null,
    status_code     int,
    response        jsonb,
    created_at      timestamptz not null default clock_timestamp(),
    primary key (principal, route, key)
);

-- Processes that run durable work. Who is not seen for a while is dead, and others take over.
create table executors (
    id          text primary key,
    started_at  timestamptz not null default clock_timestamp(),
    seen_at     timestamptz not null default clock_timestamp()
);

create index idempotency_keys_by_age on idempotency_keys (created_at);

-- What people are told, in the order in which it was written: the notifier locks the project.
create table notices (
    position        bigint generated always as identity primary key,
    project_id      text not null references projects,
    event_id        text not null references outbox,
    event_type      text not null,
    allocation_id   text references allocations,
    occurred_at     timestamptz not null,
    correlation_id  text not null,
    payload         jsonb not null,
    unique (project_id, event_id)
);
create index notices_of_project on notices (project_id, position);

create table signer_versions (
    id              text primary key,
    public_key      text not null,
    state           text not null check (state in ('staged', 'active', 'grace', 'retired',
                        'revoked')),
    published_at    timestamptz not null default clock_timestamp()
);
create unique index one_active_signer on signer_versions (state) where state = 'active';

create function only_appended() returns trigger language plpgsql as $$
begin
    raise exception '% is only appended to', tg_table_name using errcode = 'restrict_violation';
end $$;
create trigger ledger_is_only_appended before update or delete or truncate on ledger
    for each statement execute function only_appended();
create trigger audit_is_only_appended before update or delete or truncate on audit
    for each statement execute function only_appended();
create trigger usage_is_only_appended before update or delete or truncate on usage_records
    for each statement execute function only_appended();
