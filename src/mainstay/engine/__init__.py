"""What should change: pure functions from a snapshot and the demand to a plan."""
