-- Which nodes placement has to look at again: told by whatever changes what it looks at.
-- A row is written by whoever makes a change and seen when that is committed, so that a reader
-- who knows its last snapshot misses nothing, in whatever order transactions end.
create table node_changes (
    at          xid8 not null default pg_current_xact_id(),
    node_id     text not null           -- '*': all of them
);
create index node_changes_by_at on node_changes (at);

create function nodes_changed() returns trigger language plpgsql as $$
begin
    insert into node_changes (node_id) select distinct node_id from changed;
    return null;
end $$;

create function node_changed() returns trigger language plpgsql as $$
begin
    insert into node_changes (node_id) values (coalesce(new.id, old.id));
    return null;
end $$;

create function all_nodes_changed() returns trigger language plpgsql as $$
begin
    insert into node_changes (node_id) values ('*');
    return null;
end $$;

create trigger slots_come_to_be_seen after insert on slots
    referencing new table as changed for each statement execute function nodes_changed();
create trigger slots_are_seen_to_change after update on slots
    referencing new table as changed for each statement execute function nodes_changed();
create trigger slots_are_seen_to_go after delete on slots
    referencing old table as changed for each statement execute function nodes_changed();

create trigger claims_come_to_be_seen after insert on claims
    referencing new table as changed for each statement execute function nodes_changed();
create trigger claims_are_seen_to_change after update on claims
    referencing new table as changed for each statement execute function nodes_changed();
create trigger claims_are_seen_to_go after delete on claims
    referencing old table as changed for each statement execute function nodes_changed();

create trigger offers_come_to_be_seen after insert on node_offers
    referencing new table as changed for each statement execute function nodes_changed();
create trigger offers_are_seen_to_change after update on node_offers
    for each statement execute function all_nodes_changed();
create trigger offers_are_seen_to_go after delete on node_offers
    referencing old table as changed for each statement execute function nodes_changed();

create trigger nodes_are_seen_to_come_and_go after insert or delete on nodes
    for each row execute function node_changed();
-- Not when a node's agent has called and nothing else: that is written all the time.
create trigger nodes_are_seen_to_change after update of
    status, region, sku, gpus_total, cpu_milli, memory_mib, partitioned on nodes
    for each row when (
        (old.status, old.region, old.sku, old.gpus_total, old.cpu_milli, old.memory_mib,
         old.partitioned) is distinct from
        (new.status, new.region, new.sku, new.gpus_total, new.cpu_milli, new.memory_mib,
         new.partitioned))
    execute function node_changed();

create trigger skus_are_seen_to_change after insert or update or delete on skus
    for each statement execute function all_nodes_changed();
create trigger regions_are_seen_to_change after insert or update or delete on regions
    for each statement execute function all_nodes_changed();

-- A function, so that a statement around it is planned once and for any number of changes.
create function nodes_changed_since(known text) returns setof text
    language plpgsql stable rows 10 as $$
begin
    return query select distinct node_id from node_changes
        where at >= pg_snapshot_xmin(known::pg_snapshot)
          and not pg_visible_in_snapshot(at, known::pg_snapshot);
end $$;

-- A task that never reached its agent is offered again, so what was handed out is looked at, too.
create index node_tasks_of_node on node_tasks (node_id, created_at, id)
    where status in ('queued', 'dispatched');
drop index node_tasks_queued;

-- What has long been over is found by when it ended, and what people were told of it by its event.
create index outbox_over on outbox (ended_at) where ended_at is not null;
create index notices_of_event on notices (event_id);

-- A request in one statement, as mainstay.tenancy.request makes it in several: the first of the
-- named nodes that nobody holds and that still has what was seen of it. Each statement of this
-- function reads anew, so what is checked is newer than the lock. Null: none of them has, or
-- something is wrong with the order; whoever calls finds out the longer way.
create function allocate(
    new_id text, event_id text, "order" jsonb, keys text[], nodes text[], taken int[],
    cpu int, memory int
) returns setof allocations language plpgsql as $$
declare
    whole   boolean := cardinality(taken) = 0;
    many    int := cardinality(taken) / cardinality(nodes);
    asked   text := "order" ->> 'sku';
    wanted  int := ("order" ->> 'gpus')::int;
    payer   text;
    node    nodes%rowtype;
    given   allocations%rowtype;
    indexes int[];
begin
    select account_id into payer from projects where id = "order" ->> 'project';
    perform from accounts where id = payer for share;
    if not found
        or (select coalesce(sum(amount_minor), 0) from ledger where account_id = payer) <= 0
        or not exists (select from skus join accounts using (currency)
                       where sku = asked and skus.active and accounts.id = payer
                         and wanted = any(allowed_gpu_counts)
                         and capacity_shape = case when whole then 'baremetal'
                                                   else 'gpu_slice' end)
        or not (whole or many = wanted)
        or (select count(*) from ssh_keys where id = any(keys)
              and project_id = "order" ->> 'project') <> cardinality(keys) then
        return;
    end if;
    for turn in 1 .. cardinality(nodes) loop
        select * into node from nodes as one
            where one.id = nodes[turn] and one.status = 'active'
              and one.region = "order" ->> 'region' for update skip locked;
        continue when not found;
        continue when node.sku <> asked and not exists (
            select from node_offers where node_id = node.id and node_offers.sku = asked);
        indexes := taken[(turn - 1) * many + 1 : turn * many];
        if whole then
            continue when exists (select from claims where node_id = node.id
                                    and live_mode is not null)
                or exists (select from slots where node_id = node.id
                             and (status <> 'available' or unready <> ''))
                or (select count(*) from slots where node_id = node.id)
                   <> wanted;
        else
            continue when (select count(*) from slots where node_id = node.id
                             and slot_index = any(indexes) and status = 'available'
                             and unready = '') <> many
                or exists (select from claims where node_id = node.id
                             and live_mode = 'node_exclusive');
            if cpu > 0 or memory > 0 then
                continue when exists (
                    select from claims
                    join allocations on allocations.id = claims.allocation_id
                    join skus on skus.sku = allocations.sku
                    where claims.node_id = node.id and live_mode = 'slot'
                    having coalesce(sum(cpu_milli_per_gpu), 0) + cpu > node.cpu_milli
                        or coalesce(sum(memory_mib_per_gpu), 0) + memory > node.memory_mib);
            end if;
        end if;
        if not exists (select from regions where code = node.region and active) then
            return;
        end if;
        insert into allocations (id, project_id, account_id, requested_by, sku, gpus, region,
            capacity_shape, node_id, image_slug, price_minor, currency, status, correlation_id,
            created_at)
        select new_id, "order" ->> 'project', payer, "order" ->> 'by', skus.sku,
            wanted, "order" ->> 'region', skus.capacity_shape, node.id,
            skus.image_slug, skus.gpu_hourly_price_minor, skus.currency, 'requested',
            "order" ->> 'correlation', clock_timestamp()
        from skus where skus.sku = asked
        returning * into given;
        if node.mode <> (case when whole then 'node_exclusive' else 'slot' end) then
            update nodes as one set mode = case when whole then 'node_exclusive' else 'slot' end
                where one.id = node.id;
        end if;
        if whole then
            insert into claims (allocation_id, kind, node_id, status)
                values (new_id, 'node_exclusive', node.id, 'reserved');
        else
            with reserved as (
                update slots set status = 'reserved'
                where node_id = node.id and slot_index = any(indexes) returning id
            )
            insert into claims (allocation_id, kind, node_id, slot_id, status)
                select new_id, 'slot', node.id, id, 'reserved' from reserved;
        end if;
        insert into allocation_ssh_keys select new_id, key from unnest(keys) as key;
        insert into outbox (id, key, event_type, subject, correlation_id, envelope)
        values (event_id, new_id, 'provisioning.requested', 'mainstay.provisioning.requested',
            given.correlation_id, jsonb_build_object(
                'event_id', event_id, 'event_type', 'provisioning.requested', 'version', '1.0',
                'occurred_at', to_char(clock_timestamp() at time zone 'UTC',
                                       'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                'correlation_id', given.correlation_id, 'payload', jsonb_build_object(
                    'allocation_id', given.id, 'project_id', given.project_id,
                    'account_id', given.account_id, 'sku', given.sku, 'gpus', given.gpus,
                    'capacity_shape', given.capacity_shape, 'node_id', given.node_id,
                    'slots', to_jsonb(indexes), 'ssh_key_ids', to_jsonb(keys),
                    'image', given.image_slug,
                    'at', to_char(given.created_at at time zone 'UTC',
                                  'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'))));
        return next given;
        return;
    end loop;
end $$;

-- When the agents of nodes were silent: time that nobody pays for, whatever is said of the node
-- meanwhile. Not written while a charge is made that would have to know: both hold the same lock,
-- one for itself, charges together.
create table node_outages (
    node_id     text not null references nodes,
    began_at    timestamptz not null default clock_timestamp(),
    ended_at    timestamptz,
    primary key (node_id, began_at),
    constraint outages_end_after_they_began check (ended_at >= began_at)
);
create unique index one_outage_at_a_time on node_outages (node_id) where ended_at is null;

insert into node_outages (node_id) select id from nodes where status = 'offline';

-- The caller has the node's row locked. Whether it is news.
create function outage_begins(node text) returns boolean language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtext('mainstay outages'), hashtext(node));
    insert into node_outages (node_id) values (node)
        on conflict (node_id) where ended_at is null do nothing;
    return found;
end $$;

-- The same of its end. Who has no outage waits for no charge.
create function outage_ends(node text) returns boolean language plpgsql as $$
begin
    if not exists (select from node_outages where node_id = node and ended_at is null) then
        return false;
    end if;
    perform pg_advisory_xact_lock(hashtext('mainstay outages'), hashtext(node));
    update node_outages set ended_at = greatest(clock_timestamp(), began_at)
        where node_id = node and ended_at is null;
    return found;
end $$;

-- How much of a time is paid for: not while the node was silent.
create function paid_time(node text, since timestamptz, until timestamptz) returns interval
    language sql stable as $$
    select until - since - coalesce(sum(
        least(coalesce(ended_at, until), until) - greatest(began_at, since)), interval '0')
    from node_outages
    where node_id = node and began_at < until and coalesce(ended_at, until) > since
$$;

-- Why a slot cannot be given out though it is available; empty: it can. The parts of a bundle are
-- its own: an address that another slot of the node has, too, is nobody's; one that any other has
-- and this slot lacks is missing; and a fabric function must be the slot's alone. Slots that nobody
-- has approved, or that were taken out of service, are not looked at.
alter table slots add column unready text not null default '';

create function slots_are_ready() returns trigger language plpgsql as $$
declare
    of text := coalesce(new.node_id, old.node_id);
begin
    with named as (
        select slots.id, what, address from slots, lateral (values
            ('pci_address', pci_address), ('nvme_device', nvme_device),
            ('mac_address', mac_address), ('private_ip', private_ip),
            ('fabric_vf_pci_address', fabric_vf_pci_address)) as part (what, address)
        where node_id = of and status not in ('discovered', 'disabled')
    ), faults as (
        select one.id, one.what || case when one.address = '' then ' is missing'
                                        else ' is not its own' end as fault
        from named one
        where exists (select from named other where other.id <> one.id
            and other.what = one.what and other.address <> ''
            and one.address in ('', other.address))
        union all
        select id, 'fabric_claim_mode is not per_slot_vf' from slots
        where node_id = of and fabric_claim_mode <> 'per_slot_vf'
    ), found as (
        select slots.id, coalesce(min(fault), '') as why
        from slots left join faults on faults.id = slots.id
        where node_id = of group by slots.id
    )
    update slots set unready = found.why from found
    where slots.id = found.id and slots.unready <> found.why;
    return null;
end $$;
create trigger slots_are_ready after insert or delete or update of
    node_id, pci_address, nvme_device, mac_address, private_ip, fabric_vf_pci_address,
    fabric_claim_mode on slots
    for each row execute function slots_are_ready();
-- Not when a slot is given out or taken back: it counts before and after.
create trigger slots_come_to_count after update of status on slots
    for each row when ((old.status in ('discovered', 'disabled'))
                       <> (new.status in ('discovered', 'disabled')))
    execute function slots_are_ready();

-- Billing is told of releases from now on; what was told before it need not look at.
insert into consumed (consumer, event_id)
    select 'billing', id from outbox where event_type = 'provisioning.releasing.requested'
    on conflict do nothing;

-- What is there already is judged, too.
update slots set node_id = node_id;
