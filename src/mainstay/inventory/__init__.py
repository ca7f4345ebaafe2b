"""The machines a shard owns, as columns: every write checked, every read from a frozen copy."""
