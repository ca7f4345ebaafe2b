"""From a shard to the coordinator. Not built yet: forbidden to the shard, like its other end."""
