"""Finding and describing the processes of an inference engine on this host, without touching them."""
