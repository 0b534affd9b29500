"""ArrayRecord files: which ones a user names, what the library reads of one, a source on them."""
