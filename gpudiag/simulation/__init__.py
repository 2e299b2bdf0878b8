"""What a command would do to the recorded processes; nothing is run."""
