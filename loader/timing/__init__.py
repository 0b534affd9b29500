"""What is noted of the work while it goes on: when each task was done and by whom, and what its operations took."""
