"""The executor with worker processes: both sides of the one process boundary."""
