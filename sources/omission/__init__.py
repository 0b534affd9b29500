"""Records to omit from a source: how users name them, and files that were rewritten without them."""
