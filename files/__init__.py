"""Files by path: find them, notice changes, and lend open ones."""
