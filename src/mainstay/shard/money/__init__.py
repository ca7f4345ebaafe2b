"""What machines cost: exact sums that follow changes, kept over a restart."""
