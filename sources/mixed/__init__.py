"""Source that combines several sources, for mixes."""
