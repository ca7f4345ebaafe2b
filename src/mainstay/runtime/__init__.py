"""Plumbing that has never heard of a machine."""
