"""Two sources as one: records that have the same value in a field."""
