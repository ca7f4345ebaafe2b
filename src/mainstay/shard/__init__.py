"""The loop: one process that reconciles, decides, limits and acts, and waits for nobody."""
