"""Orders by weights of records, and by their classes."""
