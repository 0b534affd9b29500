"""Files of tokens: a source and a writer."""
