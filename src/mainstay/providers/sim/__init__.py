"""A simulated cloud."""
