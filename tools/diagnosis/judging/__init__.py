"""Judge measurements: what the user waits for, what would change that, and by how much. No I/O."""
