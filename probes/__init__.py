"""Real transfers, each in a child process."""
