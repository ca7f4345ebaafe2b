"""Generated from proto/ by `make proto`; imported by mainstay.wire only."""
