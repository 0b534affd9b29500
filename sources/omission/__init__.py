"""Omission of records: how users name the records to omit, and files that were rewritten without them."""
