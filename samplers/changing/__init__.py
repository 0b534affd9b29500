"""Orders that change during a run: records are appended to the source, or omitted."""
