"""Facts about the steps of a pipeline that need no reading, and ranges of steps a run skips."""
