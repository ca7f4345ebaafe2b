-- Lives that are over: what points at a node is looked for before it is deleted.
create index allocations_of_node on allocations (node_id);
create index node_tasks_of_any_time_of_node on node_tasks (node_id);
create index bridge_nodes_over on bridge_nodes (retired_at) where state = 'retired';

-- Lists leave out what is retired, however much of it is kept.
create index nodes_in_use on nodes (id) where status <> 'retired';
