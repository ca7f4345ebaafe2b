"""What is said to clusters."""
