"""Bytes, FLOPs and floors of serving a language model: pure arithmetic on the standard library."""
