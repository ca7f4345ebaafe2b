"""The closed loop of one shard, by seed: decide, act, wait, lose, decide again."""
