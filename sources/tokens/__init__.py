"""Files of tokens or bytes: sources and a writer."""
