"""Tenancy as a cluster among clusters: it asks a shard for machines and makes nodes of them."""
