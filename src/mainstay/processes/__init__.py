"""main() for each program: the only place where dependencies are chosen."""
