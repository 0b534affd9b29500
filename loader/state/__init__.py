"""The state of an iterator that a checkpoint stores, and how a run resumes from one or several."""
