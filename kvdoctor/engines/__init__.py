"""One file an engine: its metric names, and ours."""
