"""Which machines are a shard's to have, and how they change hands."""
