"""What a shard answers when it is asked."""
