"""One file a source: what is read from a running service."""
