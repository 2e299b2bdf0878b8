"""Text through the filters that people put before a kill. Programs of awk and sed are read here, never run."""
