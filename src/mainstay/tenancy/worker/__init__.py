"""The durable worker: takes allocations from `requested` to their end, whoever dies meanwhile.

Steps are plain functions over the database (`steps`), plans say in which order they come (`plans`),
an engine behind a port remembers which steps are done (`port`, `engine_dbos`).
"""
