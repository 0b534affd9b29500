"""What goes through the one process boundary: messages, arrays in shared memory, errors."""
