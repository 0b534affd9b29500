"""What was in a step, and where two streams differ: labels in place of elements, the commands `trace` and `diff`."""
