"""Why an LLM service whose prefix cache hits is still slow, and what would help."""

__version__ = "0.1.0"
