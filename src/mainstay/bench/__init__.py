"""Numbers we promise: each bench asserts its fixture, then times the work, then prints JSON."""
