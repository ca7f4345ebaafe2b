"""What active time costs: charged as it passes, from the allocation's own times, exactly once."""
