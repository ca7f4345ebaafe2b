"""PostgreSQL: one that is given by its URL, or one of our own."""
