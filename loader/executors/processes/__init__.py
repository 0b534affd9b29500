"""Worker processes: the code that runs in the user's process, and the code that runs in workers."""
