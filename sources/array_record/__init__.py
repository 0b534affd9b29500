"""ArrayRecord files: find them, read them through the library, and a source on them."""
