"""What carrying out an action takes."""
