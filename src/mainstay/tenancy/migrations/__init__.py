"""Revisions of the database, with SQL bodies."""
