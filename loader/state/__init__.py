"""The state that a checkpoint keeps, and resuming from one or several."""
