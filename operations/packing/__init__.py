"""Documents into rows of fixed length: which piece of which document stands where, and the arrays of these rows."""
