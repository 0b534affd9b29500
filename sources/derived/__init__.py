"""Sources made of another source: some of its records, or windows of them."""
