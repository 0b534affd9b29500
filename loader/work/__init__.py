"""One task, from start to end: read records, push them through operations, keep the rows that come out."""
