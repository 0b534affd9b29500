"""Sources of the records of another source: some of them, or windows of them."""
