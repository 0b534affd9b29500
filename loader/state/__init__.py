"""The state of an iterator, which a checkpoint stores, and how a run resumes from saved states."""
