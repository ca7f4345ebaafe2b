"""Amazon EC2, on demand and spot: a host is an instance, and its tags say what it is (ADR-0025)."""
