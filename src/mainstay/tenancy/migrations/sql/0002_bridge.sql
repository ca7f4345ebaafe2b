-- Machines of a fleet as nodes, and capacity that is waited for.

-- What a machine of a fleet becomes: which types, in which zones, cut into which slots, sold as what.
create table node_kinds (
    kind            text primary key,
    region          text not null references regions,
    instance_types  text[] not null check (cardinality(instance_types) > 0),
    zones           text[] not null default '{}',
    sold_as         text[] not null check (cardinality(sold_as) > 0),
    slots           text not null,
    gpus_total      int not null check (gpus_total > 0),
    accelerator     text not null default 'nvidia.com/gpu',
    cpu_milli       int not null default 0 check (cpu_milli >= 0),
    memory_mib      int not null default 0 check (memory_mib >= 0),
    partitioned     boolean not null default true,
    head_room       int not null default 0 check (head_room >= 0),
    active          boolean not null default true
);

create function a_kind_is_sold_as_what_there_is() returns trigger language plpgsql as $$
declare
    missing text;
begin
    select name into missing from unnest(new.sold_as) as name
        where not exists (select from skus where skus.sku = name) limit 1;
    if missing is not null then
        raise exception 'no such SKU: %', missing using errcode = 'check_violation';
    end if;
    return new;
end $$;
create trigger a_kind_is_sold_as_what_there_is before insert or update on node_kinds
    for each row execute function a_kind_is_sold_as_what_there_is();

-- Who brings machines: without one that was seen lately, nobody waits for capacity.
create table bridges (
    cluster     text primary key,
    seen_at     timestamptz not null default clock_timestamp()
);

-- One life of one machine as a node. The states are those of mainstay.bridge.steps.
create table bridge_nodes (
    cluster             text not null,
    machine             text not null,
    incarnation         int not null check (incarnation > 0),
    node_id             text not null unique references nodes,
    kind                text not null references node_kinds,
    state               text not null check (state in ('joining', 'open', 'draining', 'retired')),
    asked_at            timestamptz not null default clock_timestamp(),
    opened_at           timestamptz,
    closed_at           timestamptz,
    retired_at          timestamptz,
    -- Why it was closed, and what others gave for it.
    reason              text not null default '',
    preemptor_priority  int,
    grace_ends_at       timestamptz,
    -- When what is still held is taken back: late enough to be warned, early enough to be cleaned.
    release_at          timestamptz,
    gone_at             timestamptz,
    primary key (cluster, machine, incarnation),
    constraint closed_when check ((state in ('draining', 'retired')) = (closed_at is not null)),
    constraint closed_why check (closed_at is null or reason <> ''),
    constraint retired_when check ((state = 'retired') = (retired_at is not null))
);
create unique index bridge_nodes_one_life_at_a_time on bridge_nodes (cluster, machine)
    where state <> 'retired';

create function a_retired_bridge_node_stays_so() returns trigger language plpgsql as $$
begin
    if old.state = 'retired' then
        raise exception 'node % is retired', old.node_id using errcode = 'check_violation';
    end if;
    return new;
end $$;
create trigger a_retired_bridge_node_stays_so before update on bridge_nodes
    for each row execute function a_retired_bridge_node_stays_so();

-- Which tenants know that the machine under an allocation leaves.
create table bridge_warnings (
    node_id         text not null references nodes,
    allocation_id   text not null references allocations,
    at              timestamptz not null default clock_timestamp(),
    primary key (node_id, allocation_id)
);

-- Capacity that is waited for. Its allocation has the same id but for the prefix, so that whoever
-- dies between the two finds it again.
create table capacity_requests (
    id              text primary key check (id like 'cap\_%'),
    project_id      text not null references projects,
    requested_by    text not null,
    sku             text not null references skus,
    gpus            int not null check (gpus > 0),
    region          text not null references regions,
    ssh_key_ids     text[] not null default '{}',
    state           text not null check (state in ('waiting', 'placed', 'cancelled', 'expired')),
    reason          text not null default '',
    allocation_id   text unique references allocations,
    correlation_id  text not null,
    created_at      timestamptz not null default clock_timestamp(),
    expires_at      timestamptz not null,
    ended_at        timestamptz,
    constraint capacity_ended_when check ((state = 'waiting') = (ended_at is null)),
    constraint placed_with_an_allocation check (state <> 'placed' or allocation_id is not null)
);
create index capacity_requests_waiting on capacity_requests (created_at, id)
    where state = 'waiting';
create index capacity_requests_of_project on capacity_requests (project_id, created_at desc, id desc);

create function a_request_for_capacity_ends_once() returns trigger language plpgsql as $$
begin
    if old.state <> 'waiting' and new.state <> old.state then
        raise exception 'capacity request % is %', old.id, old.state
            using errcode = 'check_violation';
    end if;
    return new;
end $$;
create trigger a_request_for_capacity_ends_once before update on capacity_requests
    for each row execute function a_request_for_capacity_ends_once();
