"""The operations that run in one task, connected so that each passes its results to the next."""
