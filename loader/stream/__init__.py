"""In the user's process: put finished tasks into order, and turn their rows into elements."""
