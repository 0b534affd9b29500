"""The records of a step, and the difference of two streams: the commands `trace`, `find` and `diff`."""
