"""Several sources as one source, for mixes."""
