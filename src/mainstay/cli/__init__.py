"""For hands and scripts: a file per noun, no logic, everything heavy imported on use."""
