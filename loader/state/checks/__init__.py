"""Checks whether a run may resume from saved states, and texts that say why it may not."""
