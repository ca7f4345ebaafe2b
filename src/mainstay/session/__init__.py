"""The cluster's side of a session with its shard: a library, which never decides what is needed."""
