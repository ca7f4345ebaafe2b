"""What was done, written down so that changes to it show."""
