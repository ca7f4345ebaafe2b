"""What tenants hold: allocations of whole nodes and of slices. Only placement so far."""
