"""One file a cause: a pure function from what was seen to a Finding."""
