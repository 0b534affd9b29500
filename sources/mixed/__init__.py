"""Several sources as one: what a mix reads from."""
