"""Pack documents into rows of fixed length: which piece of which document goes where, and the arrays of these rows."""
