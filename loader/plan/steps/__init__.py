"""Steps: the ranges of them that a run leaves out, and what is known of them without reading."""
