"""Omission of records: how users name records to omit, and files rewritten without them."""
