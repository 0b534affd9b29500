"""Find files by path, open them, and detect that they were modified."""
