-- How long others took, the last ones first: to be active, to be clean, to join.
create index allocations_activated on allocations (sku, active_at desc)
    where active_at is not null;
create index allocations_released on allocations (sku, released_at desc)
    where released_at is not null;
create index bridge_nodes_opened on bridge_nodes (cluster, kind, opened_at desc)
    where opened_at is not null;

-- What all projects have asked for, the newest first.
create index capacity_requests_by_age on capacity_requests (created_at desc, id desc);
