"""What providers report, on its way into the inventory."""
