"""The records of a step, and the difference of two streams: commands `trace`, `find`, `diff`."""
