"""The executor with worker processes: both sides of the process boundary."""
