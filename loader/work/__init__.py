"""Run one task: read records, apply the operations to them, and collect the resulting rows in a block."""
