"""The state that a checkpoint stores, and resuming from one state or several."""
