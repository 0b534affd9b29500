"""What a feeder reads from, and where it is left when the feeder ends."""
