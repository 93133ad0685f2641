"""The reference paged-decode engine: what this machine can decode, measured rather than read off a data sheet."""
