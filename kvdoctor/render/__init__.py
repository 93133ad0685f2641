"""One file a report format."""
