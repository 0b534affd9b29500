"""In the user's process: finished tasks, put into order, to elements."""
