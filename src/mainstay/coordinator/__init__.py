"""Who owns what. Not built yet: the name is here so that a contract can forbid it to the shard."""
