"""What things are: machines, needs, assignments, cost. Pure values, no I/O and no clock."""
