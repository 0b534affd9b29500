"""In the user's process: put the results of tasks in order, and turn their rows into elements."""
