"""What we can be told: one frozen dataclass per process, read once."""
