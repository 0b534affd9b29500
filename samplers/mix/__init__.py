"""Several orders, mixed by weights."""
