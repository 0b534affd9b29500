"""Sources that wrap another source: some of its records, or windows of them."""
