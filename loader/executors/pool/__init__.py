"""The executor with workers elsewhere: one loop, and the rules of who does what and of a dead worker's tasks."""
