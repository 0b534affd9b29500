"""Run one task: read records, apply the operations, and collect the resulting rows in a block."""
