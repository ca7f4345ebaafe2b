"""Who gives us machines."""
