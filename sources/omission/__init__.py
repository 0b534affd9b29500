"""Records of a source that are to be left out: the ways in which users name them, and files without them."""
