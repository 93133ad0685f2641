"""Evidence that somebody else gathered, turned into a Recording."""
