"""Worker processes: both sides of the process boundary."""
