"""What executors with workers elsewhere share: who does what, how much at a time, and what becomes of a dead worker's tasks."""
