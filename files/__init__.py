"""Files by path: find them, open them, and notice if they are modified."""
