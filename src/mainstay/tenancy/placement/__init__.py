"""Which node, and which slots of it, an allocation gets. Pure: what is free comes in as views."""
