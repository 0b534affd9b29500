"""Checks whether a run may resume from saved states, and the texts of refusals."""
